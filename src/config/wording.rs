//! What the YAML reader's errors mean, in this project's words.
//!
//! In: an error of `serde-saphyr`, and the places of the text. Out: which key it is about, what was found and what is
//! allowed, without the file's lines. The reader's own text would advise programmers (`set DuplicateKeyPolicy in
//! Options`) and show snippets.

use greylag_filters::written::start;
use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

use super::place::{self, Places};

/// The message of an error.
pub(super) fn of(error: &Error, places: &Places) -> String {
    let error = error.without_snippet();
    let here = error.location().map(place::of);
    let value = here.and_then(|here| places.value_at(here));
    let about = match error {
        Error::AliasError { error, .. } => return of(error, places),
        Error::SerdeUnknownField { .. } | Error::DuplicateMappingKey { .. } => {
            here.and_then(|here| places.map_with_key_at(here))
        }
        // A variant with a value is the key of a map.
        Error::SerdeUnknownVariant { .. } => value
            .map(|(path, _)| path)
            .or_else(|| here.and_then(|here| places.map_with_key_at(here))),
        _ => value.map(|(path, _)| path),
    };
    let found = value.map_or("something else", |(_, found)| found);
    let what = said(error, found);
    match about {
        None | Some("") => what,
        Some(path) => format!("{path}: {what}"),
    }
}

fn said(error: &Error, found: &str) -> String {
    match error {
        Error::Eof { .. } => "found nothing; a configuration is a map with at least `rules`".into(),
        Error::MultipleDocuments { .. } => SECOND_DOCUMENT.into(),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key {:?} is written twice", start(key))
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

fn allowed(keys: &[&str]) -> String {
    match keys {
        [] => "none is allowed here".to_owned(),
        keys => format!("allowed: {}", keys.join(", ")),
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
