//! What the YAML reader's errors mean, in this project's words.
//!
//! In: an error of `serde-saphyr`, and what stands where it is. Out: what was found and what is allowed, without the file's
//! lines. The reader's own text would advise programmers (`set DuplicateKeyPolicy in Options`) and show snippets.

use greylag_filters::written::start;
use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

use super::nearest::hint;

/// Of a key that has to be there.
pub(super) fn missing(key: &str) -> String {
    format!("key {key:?} is missing, and there is no default for it")
}

/// The message of an error, with what was found.
pub(super) fn of(error: &Error, found: &str) -> String {
    match error.without_snippet() {
        Error::AliasError { error, .. } => of(error, found),
        Error::Eof { .. } => "found nothing; a configuration is a map with at least `rules`".into(),
        Error::MultipleDocuments { .. } => SECOND_DOCUMENT.into(),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key {:?} is written twice", start(key))
        }
        Error::SerdeUnknownField {
            field, expected, ..
        } => format!(
            "unknown key {:?}; {}",
            start(field),
            allowed(field, expected)
        ),
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => format!("found {:?}; {}", start(variant), allowed(variant, expected)),
        Error::SerdeMissingField { field, .. } => missing(field),
        Error::Unexpected { expected, .. } => format!("found {found}, expected {}", kind(expected)),
        Error::InvalidScalar { ty, .. } => format!("found {found}, expected {}", kind(ty)),
        Error::InvalidBooleanStrict { .. } => format!("found {found}, expected true or false"),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("found {found}, expected {expected}")
        }
        // Our own types' messages, which are bounded where they are made.
        Error::Message { msg, .. } => msg.clone(),
        other => lowered(&UserMessageFormatter.format_message(other)),
    }
}

/// What is said of a text with more than one document.
pub(super) const SECOND_DOCUMENT: &str =
    "found the beginning of a second document; a configuration is one";

// The reader's words for kinds of values, and Rust's.
fn kind(expected: &str) -> &str {
    match expected {
        "mapping start" | "mapping" => "a map",
        "sequence start" | "sequence" => "a list",
        "string scalar" | "scalar" => "a single value",
        "boolean" | "bool" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        other => other,
    }
}

fn allowed(found: &str, words: &[&str]) -> String {
    match words {
        [] => "none is allowed here".to_owned(),
        words => {
            let hint = hint(found, words.iter().copied());
            format!("allowed: {}{hint}", words.join(", "))
        }
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
