//! Where the members of a JSON object stand.
//!
//! In: a whole object. Out: offsets, so that a body can be read and edited without a second walk. Never more than
//! [`Spans::MOST`] members.

use std::ops::Range;

use super::{Cursor, Fault, Flaw, Kind, Text};

/// The members of one object, in order, duplicates included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    members: Vec<Member>,
    // The offset of the closing brace.
    close: usize,
}

/// One member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    key: Range<usize>,
    escaped: bool,
    value: Range<usize>,
    kind: Kind,
}

impl Spans {
    /// The most members that are looked at.
    pub const MOST: usize = 1024;

    /// Walks over `json`, which must be one object and nothing else. UTF-8 is not judged.
    pub fn of(json: &[u8]) -> Result<Spans, Fault> {
        Spans::walk(json, |cursor, _| cursor.skip())
    }

    /// The same; `each` is called with every member's key, the cursor at its value, and must read exactly that value and
    /// give its kind.
    pub(crate) fn walk<'a>(
        json: &'a [u8],
        mut each: impl FnMut(&mut Cursor<'a>, Text<'a>) -> Result<Kind, Fault>,
    ) -> Result<Spans, Fault> {
        let mut cursor = Cursor::new(json);
        if cursor.peek().is_none() {
            return Err(cursor.fault(Flaw::Empty));
        }
        match cursor.kind()? {
            Kind::Object => {}
            other @ (Kind::Array | Kind::String | Kind::Number | Kind::Bool | Kind::Null) => {
                return Err(cursor.fault(Flaw::NotObject(other)));
            }
        }
        let mut members = Vec::new();
        cursor.object(|cursor, key| {
            if members.len() == Spans::MOST {
                return Err(cursor.fault(Flaw::Members));
            }
            let start = cursor.at();
            let kind = each(cursor, key)?;
            members.push(Member {
                key: key.span(),
                escaped: key.escaped(),
                value: start..cursor.at(),
                kind,
            });
            Ok(())
        })?;
        let close = cursor.at().saturating_sub(1);
        cursor.end()?;
        Ok(Spans { members, close })
    }

    /// The members, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The offset of the closing brace.
    pub fn close(&self) -> usize {
        self.close
    }
}

impl Member {
    /// The key in `json`, the text these spans are of.
    pub fn key<'a>(&self, json: &'a [u8]) -> Text<'a> {
        let raw = json.get(self.key.clone()).unwrap_or_default();
        Text::new(raw, self.key.start, self.escaped)
    }

    /// The value in `json`, the text these spans are of.
    pub fn value<'a>(&self, json: &'a [u8]) -> &'a [u8] {
        json.get(self.value.clone()).unwrap_or_default()
    }

    /// Where the value stands.
    pub fn span(&self) -> Range<usize> {
        self.value.clone()
    }

    /// The kind of the value.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}
