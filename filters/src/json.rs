//! Walks JSON text without building anything.
//!
//! In: bytes that should be one JSON value. Out: the places of the parts a caller asks for, or the first
//! [`Fault`]. Never recurses by the depth of the input, never copies, and never judges UTF-8: whoever needs that
//! checks the whole text once.

mod check;
mod cursor;
mod skip;
mod spans;
mod text;

#[cfg(any(test, fuzzing))]
pub use check::fuzz_json_check;
pub use check::{Check, Verdict};
pub use cursor::Cursor;
pub use spans::{Member, Spans};
pub use text::Text;

/// How deep arrays and objects may be nested inside a value that is walked over.
pub const DEEPEST: usize = 1024;

/// The first place where the text is not the JSON that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Fault {
    /// What is wrong there.
    pub what: Flaw,
    /// The byte's offset from the start of the text.
    pub at: usize,
}

/// What can be wrong with a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Nothing but white space.
    #[error("found no JSON, expected an object")]
    Empty,
    /// The text stops inside a value.
    #[error("found the end of the text, expected {0}")]
    End(Expected),
    /// A byte that cannot stand there.
    #[error("found {found:#04x}, expected {expected}")]
    Unexpected {
        /// The byte that stands there.
        found: u8,
        /// What may stand there.
        expected: Expected,
    },
    /// A control character that is not escaped (RFC 8259, section 7).
    #[error("found the bare control character {0:#04x} in a string, where it must be escaped")]
    Control(u8),
    /// A backslash before something that is no escape.
    #[error(
        "found an unknown escape, allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hex digits"
    )]
    Escape,
    /// A number that RFC 8259, section 6 does not allow.
    #[error("found a malformed number")]
    Number,
    /// Deeper than [`DEEPEST`].
    #[error("found more than {DEEPEST} nested arrays and objects")]
    Deep,
    /// More than [`Spans::MOST`].
    #[error("found more than {} members in the outer object", Spans::MOST)]
    Members,
    /// Something after the value.
    #[error("found more after the end of the value")]
    Trailing,
    /// Bytes that are not UTF-8.
    #[error("found bytes that are not UTF-8")]
    Utf8,
    /// A value, but not the object that a request or an answer must be.
    #[error("found {0}, expected an object")]
    NotObject(Kind),
}

/// What may stand where a fault is.
///
/// One byte, so that a fault fits into two registers: results of reading are made for every part of every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any value.
    Value,
    /// `{`
    Object,
    /// `[`
    Array,
    /// The opening quote of a string or a key.
    String,
    /// After a key.
    Colon,
    /// After a member.
    CommaOrBrace,
    /// After an element.
    CommaOrBracket,
    /// The end of a string.
    Quote,
    /// After `\u`.
    HexDigits,
    /// After a backslash.
    Escape,
    /// In a number.
    Digit,
    /// One of the three.
    Word,
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Expected::Value => "a value",
            Expected::Object => "an object",
            Expected::Array => "an array",
            Expected::String => "a string",
            Expected::Colon => "a colon",
            Expected::CommaOrBrace => "a comma or a closing brace",
            Expected::CommaOrBracket => "a comma or a closing bracket",
            Expected::Quote => "a closing quote",
            Expected::HexDigits => "four hex digits",
            Expected::Escape => "an escape",
            Expected::Digit => "a digit",
            Expected::Word => "null, true or false",
        })
    }
}

/// The kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number of any size.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Bool => "a boolean",
            Kind::Null => "null",
        })
    }
}

#[cfg(test)]
mod tests;
