//! One JSON value of an answer: an event of a stream, or all of it.
//!
//! In: what a dialect's reader finds. Out: what matters to the meter, borrowed. A key counts only at its own depth: the
//! same word inside a string or deeper down is skipped.

use super::{FinishReasons, InStreamError, Usage};
use crate::json::{Cursor, Fault, Flaw, Kind, Text};

/// What one JSON value of an answer says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    /// `choices` is an array.
    pub(crate) has_choices: bool,
    /// … and is not empty, so that `usage` stands beside choices.
    pub(crate) beside_choices: bool,
    /// It has more than one choice, or is one of several.
    pub(super) several: bool,
    /// Some choice bears a token.
    pub(super) bears_tokens: bool,
    /// Some choice shows text.
    pub(super) shows_text: bool,
    pub(super) finish_reasons: FinishReasons,
    /// `usage` is an object, whatever it holds.
    pub(crate) has_usage: bool,
    pub(super) usage: Option<Usage>,
    pub(crate) error: Option<InStreamError>,
    pub(super) model: Option<Text<'a>>,
    /// Whether the stream is whole with it, if it is an event that says so.
    pub(super) ends: Option<bool>,
}

/// Reads one JSON object and nothing else; `member` as in [`Cursor::object`].
#[inline]
pub(super) fn object<'a>(
    json: &'a [u8],
    member: impl FnMut(&mut Cursor<'a>, Text<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut cursor = Cursor::new(json);
    match cursor.kind()? {
        Kind::Object => cursor.object(member)?,
        other @ (Kind::Array | Kind::String | Kind::Number | Kind::Bool | Kind::Null) => {
            return Err(cursor.fault(Flaw::NotObject(other)));
        }
    }
    cursor.end()
}

/// Reads one JSON object, or an array of them, and nothing else. `each` is called for every object with the cursor at it
/// and its place, and must read exactly it.
pub(super) fn objects<'a>(
    json: &'a [u8],
    mut each: impl FnMut(&mut Cursor<'a>, u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut cursor = Cursor::new(json);
    match cursor.kind()? {
        Kind::Object => each(&mut cursor, 0)?,
        Kind::Array => {
            let mut place = 0;
            cursor.array(|cursor| {
                let kind = cursor.kind()?;
                if kind != Kind::Object {
                    return Err(cursor.fault(Flaw::NotObject(kind)));
                }
                each(cursor, place)?;
                place += 1;
                Ok(())
            })?;
        }
        other @ (Kind::String | Kind::Number | Kind::Bool | Kind::Null) => {
            return Err(cursor.fault(Flaw::NotObject(other)));
        }
    }
    cursor.end()
}

/// Reads the members of an object; any other value is skipped.
#[inline]
pub(super) fn members<'a>(
    cursor: &mut Cursor<'a>,
    member: impl FnMut(&mut Cursor<'a>, Text<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    match cursor.kind()? {
        Kind::Object => cursor.object(member),
        Kind::Array | Kind::String | Kind::Number | Kind::Bool | Kind::Null => {
            cursor.skip().map(drop)
        }
    }
}

/// Reads a value; its text if it is a string.
#[inline]
pub(super) fn text<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Text<'a>>, Fault> {
    match cursor.kind()? {
        Kind::String => cursor.string().map(Some),
        Kind::Object | Kind::Array | Kind::Number | Kind::Bool | Kind::Null => {
            cursor.skip().map(|_| None)
        }
    }
}

/// Reads a value and tells whether it is a string that holds something.
#[inline]
pub(super) fn says(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    Ok(text(cursor)?.is_some_and(|text| !text.is_empty()))
}

/// Reads the elements of an array, each with its place; any other value is skipped.
pub(super) fn each_item<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(&mut Cursor<'a>, u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if cursor.kind()? != Kind::Array {
        return cursor.skip().map(drop);
    }
    let mut place = 0;
    cursor.array(|cursor| {
        each(cursor, place)?;
        place += 1;
        Ok(())
    })
}

/// Looks ahead for the count that a member of this object is; the cursor stays where it is.
pub(super) fn ahead(cursor: &Cursor<'_>, name: &[u8]) -> Result<Option<u64>, Fault> {
    let mut found = None;
    members(&mut cursor.clone(), |cursor, key| {
        if key.raw() == name {
            found = cursor.count()?;
        } else {
            cursor.skip()?;
        }
        Ok(())
    })?;
    Ok(found)
}
