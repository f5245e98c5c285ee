//! Errors that an engine reports under status 200.
//!
//! In: an `error` value in any of the shapes servers use. Out: its code and type, if they are words. Its message is
//! never kept: it may quote the prompt.

use crate::json::{Cursor, Fault, Kind};

/// An error that an engine reports inside an answer with status 200. Its message is not kept: it may quote the
/// prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InStreamError {
    /// `code`, a word or a number.
    pub code: Option<Box<str>>,
    /// `type`, a word.
    pub kind: Option<Box<str>>,
}

impl InStreamError {
    /// Its code, else its type.
    pub fn word(&self) -> Option<&str> {
        self.code.as_deref().or(self.kind.as_deref())
    }

    /// Reads the value of an `error` field that need not be JSON.
    pub(super) fn read(bytes: &[u8]) -> InStreamError {
        let mut cursor = Cursor::new(bytes);
        InStreamError::value(&mut cursor)
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Reads an `error` value. Null, false, zero and what is empty say that there is none.
    pub(super) fn value(cursor: &mut Cursor<'_>) -> Result<Option<InStreamError>, Fault> {
        match cursor.kind()? {
            Kind::Object => {
                let mut members = 0u32;
                let mut error = InStreamError::default();
                cursor.object(|cursor, key| {
                    members = members.saturating_add(1);
                    match key.raw() {
                        b"code" => error.code = word(cursor)?,
                        b"type" => error.kind = word(cursor)?,
                        _ => {
                            cursor.skip()?;
                        }
                    }
                    Ok(())
                })?;
                Ok((members > 0).then_some(error))
            }
            Kind::String => Ok((!cursor.string()?.is_empty()).then(InStreamError::default)),
            Kind::Number => {
                let code = word(cursor)?.filter(|code| &**code != "0");
                Ok(code.map(|code| InStreamError {
                    code: Some(code),
                    kind: None,
                }))
            }
            Kind::Array => {
                let mut some = false;
                cursor.array(|cursor| {
                    some = true;
                    cursor.skip().map(drop)
                })?;
                Ok(some.then(InStreamError::default))
            }
            Kind::Bool => Ok(cursor.is_true()?.then(InStreamError::default)),
            Kind::Null => cursor.skip().map(|_| None),
        }
    }
}

/// Reads a value as a short identifier or number, which cannot hold a sentence.
pub(super) fn word(cursor: &mut Cursor<'_>) -> Result<Option<Box<str>>, Fault> {
    let text = match cursor.kind()? {
        Kind::String => cursor.string()?.plain(),
        Kind::Number => Some(cursor.number()?),
        Kind::Object | Kind::Array | Kind::Bool | Kind::Null => {
            cursor.skip()?;
            None
        }
    };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    Ok(text
        .filter(|text| (1..=LONGEST_WORD).contains(&text.len()) && text.iter().all(plain))
        .and_then(|text| std::str::from_utf8(text).ok())
        .map(Box::from))
}

const LONGEST_WORD: usize = 64;
