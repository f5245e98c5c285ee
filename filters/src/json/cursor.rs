//! The walk itself: one byte after the other, forward only.
//!
//! In: a text and a place in it. Out: the place after the part that was read, or the fault.

use super::{Expected, Fault, Flaw, Kind, Text, text};

/// A place in a JSON text. Reading moves it forward, and a fault leaves it where the fault is.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    // at <= bytes.len()
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the first byte of `bytes` that is no white space.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor::from(bytes, 0)
    }

    /// At the first byte of `bytes` from `at` on that is no white space.
    pub fn from(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        let at = at.min(bytes.len());
        let mut cursor = Cursor { bytes, at };
        cursor.space();
        cursor
    }

    /// Bytes already read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The text from `from` to here.
    pub fn since(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.at).unwrap_or_default()
    }

    /// The kind of the value that begins here, judged by its first byte alone.
    #[inline]
    pub fn kind(&self) -> Result<Kind, Fault> {
        match self.peek() {
            Some(b'"') => Ok(Kind::String),
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'n') => Ok(Kind::Null),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            _ => Err(self.unexpected(Expected::Value)),
        }
    }

    /// Reads an object; `each` is called with every member's key, the cursor at its value, and must read exactly
    /// that value.
    #[inline]
    pub fn object(
        &mut self,
        mut each: impl FnMut(&mut Cursor<'a>, Text<'a>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.take(b'{', Expected::Object)?;
        self.space();
        if self.eat(b'}') {
            return Ok(());
        }
        self.members(&mut each)
    }

    /// Reads what is left of an object after the value of one of its members, as [`Cursor::object`] does.
    #[inline]
    pub fn rest_of_object(
        &mut self,
        mut each: impl FnMut(&mut Cursor<'a>, Text<'a>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.more(b'}', Expected::CommaOrBrace)? {
            self.members(&mut each)?;
        }
        Ok(())
    }

    #[inline]
    fn members(
        &mut self,
        each: &mut impl FnMut(&mut Cursor<'a>, Text<'a>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        loop {
            let key = self.key()?;
            each(self, key)?;
            if !self.more(b'}', Expected::CommaOrBrace)? {
                return Ok(());
            }
        }
    }

    /// Reads an array; `each` is called with the cursor at every element and must read exactly that value.
    #[inline]
    pub fn array(
        &mut self,
        mut each: impl FnMut(&mut Cursor<'a>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.take(b'[', Expected::Array)?;
        self.space();
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            each(self)?;
            if !self.more(b']', Expected::CommaOrBracket)? {
                return Ok(());
            }
        }
    }

    /// Reads a string, quotes and all.
    #[inline]
    pub fn string(&mut self) -> Result<Text<'a>, Fault> {
        self.take(b'"', Expected::String)?;
        let start = self.at;
        // Keys and tokens mostly end within eight bytes.
        self.at += text::short(self.rest());
        if self.peek() == Some(b'"') {
            let raw = self.since(start);
            self.at += 1;
            return Ok(Text::new(raw, start, false));
        }
        self.long_string(start)
    }

    fn long_string(&mut self, start: usize) -> Result<Text<'a>, Fault> {
        let mut escaped = false;
        loop {
            self.at += text::plain(self.rest());
            match self.peek() {
                Some(b'"') => {
                    let raw = self.since(start);
                    self.at += 1;
                    return Ok(Text::new(raw, start, escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(control) => return Err(self.fault(Flaw::Control(control))),
                None => return Err(self.fault(Flaw::End(Expected::Quote))),
            }
        }
    }

    /// Reads a number and gives its text; it may be of any size.
    pub fn number(&mut self) -> Result<&'a [u8], Fault> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        Ok(self.since(start))
    }

    /// Reads a value and gives it as a whole number, or nothing if it is of another kind, negative, fractional or
    /// past `u64`.
    #[inline]
    pub fn count(&mut self) -> Result<Option<u64>, Fault> {
        if self.kind()? != Kind::Number {
            self.skip()?;
            return Ok(None);
        }
        Ok(self.number()?.iter().try_fold(0u64, |sum, byte| {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
            sum.checked_mul(10)?.checked_add(u64::from(digit))
        }))
    }

    /// Reads a value and tells whether it is `true`.
    pub fn is_true(&mut self) -> Result<bool, Fault> {
        let start = self.at;
        self.skip()?;
        Ok(self.since(start) == b"true")
    }

    /// Faults unless nothing but white space is left.
    pub fn end(&mut self) -> Result<(), Fault> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fault(Flaw::Trailing)),
        }
    }

    /// A fault at this place.
    pub fn fault(&self, what: Flaw) -> Fault {
        Fault { what, at: self.at }
    }

    /// After a value in a container: true at another element (the cursor is there), false after the close.
    #[inline]
    pub(super) fn more(&mut self, close: u8, expected: Expected) -> Result<bool, Fault> {
        self.space();
        if self.eat(b',') {
            self.space();
            return Ok(true);
        }
        if self.eat(close) {
            return Ok(false);
        }
        Err(self.unexpected(expected))
    }

    #[inline]
    pub(super) fn key(&mut self) -> Result<Text<'a>, Fault> {
        let key = self.string()?;
        self.space();
        self.take(b':', Expected::Colon)?;
        self.space();
        Ok(key)
    }

    pub(super) fn word(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        for word in [&b"null"[..], b"true", b"false"] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(());
            }
            // Cut in the middle, as far as can be seen.
            if word.starts_with(rest) {
                self.at = self.bytes.len();
                return Err(self.fault(Flaw::End(Expected::Word)));
            }
        }
        Err(self.unexpected(Expected::Word))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match (self.at > start, self.peek()) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(self.fault(Flaw::Number)),
            (false, None) => Err(self.fault(Flaw::End(Expected::Digit))),
        }
    }

    /// Reads one escape; the cursor is at its backslash.
    #[inline]
    fn escape(&mut self) -> Result<(), Fault> {
        let length = match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match self.bytes.get(self.at + 2..self.at + 6) {
                Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => 6,
                Some(_) => return Err(self.fault(Flaw::Escape)),
                None => return Err(self.fault(Flaw::End(Expected::HexDigits))),
            },
            Some(_) => return Err(self.fault(Flaw::Escape)),
            None => return Err(self.fault(Flaw::End(Expected::Escape))),
        };
        self.at += length;
        Ok(())
    }

    #[inline]
    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let eaten = self.peek() == Some(byte);
        self.at += usize::from(eaten);
        eaten
    }

    /// Past one byte that has been seen.
    #[inline]
    pub(super) fn step(&mut self) {
        self.at = (self.at + 1).min(self.bytes.len());
    }

    #[inline]
    fn take(&mut self, byte: u8, expected: Expected) -> Result<(), Fault> {
        if self.eat(byte) {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[cold]
    fn unexpected(&self, expected: Expected) -> Fault {
        self.fault(match self.peek() {
            Some(found) => Flaw::Unexpected { found, expected },
            None => Flaw::End(expected),
        })
    }
}
