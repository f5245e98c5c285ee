//! What the YAML reader's errors mean, in this project's words.
//!
//! In: an error of `serde-saphyr`. Out: what was found and what is allowed, without its place and without the file's
//! lines. The reader's own text would advise programmers (`set DuplicateKeyPolicy in Options`) and show snippets.

use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

/// The message of an error.
pub(super) fn of(error: &Error) -> String {
    match error.without_snippet() {
        Error::AliasError { error, .. } => of(error),
        Error::Eof { .. } => "found nothing; a configuration is a map with at least `rules`".into(),
        Error::MultipleDocuments { .. } => {
            "found a second document after `---`; a configuration is one".into()
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key {:?} is written twice; each stands once", start(key))
        }
        Error::SerdeUnknownField {
            field, expected, ..
        } => format!("unknown key {:?}; {}", start(field), allowed(expected)),
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => format!("found {:?}; {}", start(variant), allowed(expected)),
        Error::SerdeMissingField { field, .. } => {
            format!("key {field:?} is missing, and there is no default for it")
        }
        Error::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | Error::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => format!("found {}, expected {expected}", start(unexpected)),
        Error::Unexpected { expected, .. } => format!("found something else, expected {expected}"),
        other => lowered(&start(&UserMessageFormatter.format_message(other))),
    }
}

fn allowed(keys: &[&str]) -> String {
    match keys {
        [] => "none is allowed here".to_owned(),
        keys => format!("allowed: {}", keys.join(", ")),
    }
}

// A message must not grow with what somebody else wrote.
fn start(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

// In the house's style: lower case, without a full stop.
fn lowered(text: &str) -> String {
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}
