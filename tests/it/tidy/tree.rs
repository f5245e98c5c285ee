//! The repository's files.
//!
//! In: folders and endings. Out: paths from the root, with `/`, and texts. What builds and recordings leave (`target`,
//! fixtures, corpora) and hidden folders are not looked into, but for `.ci`.

use std::fs;
use std::path::{Path, PathBuf};

/// A file and what is in it.
pub struct Text {
    pub path: String,
    pub text: String,
}

/// All files under `folder` (from the root; `""` is the root) whose name ends in one of `endings`.
pub fn texts(folder: &str, endings: &[&str]) -> Vec<Text> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort();
    found
        .iter()
        .map(|path| from_root(path))
        .filter(|path| endings.iter().any(|ending| path.ends_with(ending)))
        .map(|path| Text {
            text: text(&path),
            path,
        })
        .collect()
}

/// What is in a file.
pub fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether there is such a file or folder.
pub fn exists(path: &str) -> bool {
    root().join(path).exists()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn from_root(path: &Path) -> String {
    let path = path
        .strip_prefix(root())
        .expect("the walk began at the root");
    path.to_string_lossy().replace('\\', "/")
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a folder that can be listed lists its entries");
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry
            .file_type()
            .expect("an entry that is listed has a type");
        let skipped = ["target", "fixtures", "corpus", "artifacts", "captures"];
        if kind.is_dir() && !skipped.contains(&&*name) && (!name.starts_with('.') || name == ".ci")
        {
            walk(&entry.path(), found);
        }
        if kind.is_file() {
            found.push(entry.path());
        }
    }
}
