//! The house rules that a machine can check.
//!
//! In: the repository's own files, read as text. Out: every breach at once, each with its file. Nothing is compiled, run
//! or changed here.

#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/fence.rs"]
mod fence;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tables.rs"]
mod tables;
#[path = "tidy/tree.rs"]
mod tree;

// Fails with all that was found, a line each.
fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
