//! One value of a match: exact, a beginning, or a regular expression.

use regex_lite::{Regex, RegexBuilder};

use crate::written::start;

/// What a text is held against.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// The whole text.
    Exact(Box<str>),
    /// The beginning of the text.
    Prefix(Box<str>),
    /// Found anywhere in the text, unless anchored.
    Regex(Regex),
}

/// Why a text is no pattern.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{pattern:?} is no regular expression: {why}")]
    Regex { pattern: String, why: String },
    #[error(
        "a \"*\" stands only at the end of a value; found {0:?} (a regular expression starts with \"~\")"
    )]
    Star(String),
}

impl Pattern {
    /// Reads `exact`, `prefix*` or `~regex`.
    pub(super) fn read(text: &str) -> Result<Pattern, Fault> {
        if let Some(regex) = text.strip_prefix('~') {
            return match RegexBuilder::new(regex).size_limit(LIMIT).build() {
                Ok(regex) => Ok(Pattern::Regex(regex)),
                Err(fault) => Err(Fault::Regex {
                    pattern: start(regex),
                    why: fault.to_string(),
                }),
            };
        }
        let (body, is_prefix) = match text.strip_suffix('*') {
            Some(body) => (body, true),
            None => (text, false),
        };
        if body.contains('*') {
            return Err(Fault::Star(start(text)));
        }
        Ok(if is_prefix {
            Pattern::Prefix(body.into())
        } else {
            Pattern::Exact(body.into())
        })
    }

    /// Whether a text fits. One that is longer than 8 KiB or not UTF-8 fits no regular expression.
    pub(super) fn fits(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Exact(exact) => text == exact.as_bytes(),
            Pattern::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
            Pattern::Regex(regex) => {
                text.len() <= LONGEST && str::from_utf8(text).is_ok_and(|text| regex.is_match(text))
            }
        }
    }
}

/// The largest compiled expression in bytes, and the longest text it is held against. The work is at most the product
/// of the two, so neither a slip in the rules nor a caller's endless model name can hold up others.
const LIMIT: usize = 64 << 10;
const LONGEST: usize = 8 << 10;
