//! Tells whether a text that comes in pieces is one JSON value, without keeping any of it.
//!
//! In: bytes, in any cutting. Out: a [`Verdict`]. Holds where in the grammar (RFC 8259) it stands and a bit for each open
//! array or object. Never judges UTF-8.

/// How a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing but white space has come.
    Empty,
    /// The beginning of a value.
    Unfinished,
    /// One value.
    Whole,
    /// No JSON, whatever may follow.
    Broken,
    /// Nested deeper than is followed.
    TooDeep,
}

/// Reads one text.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    at: At,
    // depth <= DEEPEST; bit n: the n-th container is an object
    depth: u8,
    objects: u128,
    // The outermost value is an object.
    is_object: bool,
}

/// How deep a value may be nested.
const DEEPEST: u8 = 128;

/// What the last byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before any value.
    Start,
    /// Before a value that must come.
    Value,
    /// After `[`.
    FirstElement,
    /// After `{`.
    FirstKey,
    /// After a comma in an object.
    Key,
    /// After a key.
    Colon,
    /// After a value.
    After,
    /// In a string; `key`: it is one.
    Text {
        key: bool,
    },
    /// After a backslash.
    Escape {
        key: bool,
    },
    /// In the digits of `\u`; so many are to come.
    Hex {
        key: bool,
        left: u8,
    },
    /// What is left of a word.
    Word(&'static [u8]),
    Number(Number),
    Broken,
    TooDeep,
}

/// Where in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    /// With one more byte; none: it ends before it, or cannot.
    fn with(self, byte: u8) -> Option<Number> {
        match (self, byte) {
            (Number::Minus, b'0') => Some(Number::Zero),
            (Number::Minus, b'1'..=b'9') => Some(Number::Whole),
            (Number::Whole, b'0'..=b'9') => Some(Number::Whole),
            (Number::Zero | Number::Whole, b'.') => Some(Number::Point),
            (Number::Zero | Number::Whole | Number::Fraction, b'e' | b'E') => Some(Number::E),
            (Number::Point | Number::Fraction, b'0'..=b'9') => Some(Number::Fraction),
            (Number::E, b'+' | b'-') => Some(Number::Sign),
            (Number::E | Number::Sign | Number::Exponent, b'0'..=b'9') => Some(Number::Exponent),
            _ => None,
        }
    }

    /// Whether it may end here.
    fn may_end(self) -> bool {
        match self {
            Number::Zero | Number::Whole | Number::Fraction | Number::Exponent => true,
            Number::Minus | Number::Point | Number::E | Number::Sign => false,
        }
    }
}

impl Default for Check {
    fn default() -> Check {
        Check {
            at: At::Start,
            depth: 0,
            objects: 0,
            is_object: false,
        }
    }
}

impl Check {
    /// Reads the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// How the text stands, if nothing follows.
    pub fn verdict(&self) -> Verdict {
        match self.at {
            At::Broken => Verdict::Broken,
            At::TooDeep => Verdict::TooDeep,
            At::Start => Verdict::Empty,
            At::After if self.depth == 0 => Verdict::Whole,
            At::Number(number) if self.depth == 0 && number.may_end() => Verdict::Whole,
            At::Value
            | At::FirstElement
            | At::FirstKey
            | At::Key
            | At::Colon
            | At::After
            | At::Text { .. }
            | At::Escape { .. }
            | At::Hex { .. }
            | At::Word(_)
            | At::Number(_) => Verdict::Unfinished,
        }
    }

    /// Whether what has begun is an object.
    pub fn is_object(&self) -> bool {
        self.is_object
    }

    /// Reads the next byte.
    pub(crate) fn byte(&mut self, byte: u8) {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at = match self.at {
            At::Broken => At::Broken,
            At::TooDeep => At::TooDeep,
            At::Text { key } => match byte {
                b'"' if key => At::Colon,
                b'"' => At::After,
                b'\\' => At::Escape { key },
                0..b' ' => At::Broken,
                _ => At::Text { key },
            },
            At::Escape { key } => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => At::Text { key },
                b'u' => At::Hex { key, left: 4 },
                _ => At::Broken,
            },
            At::Hex { key, left } if byte.is_ascii_hexdigit() => match left {
                0 | 1 => At::Text { key },
                _ => At::Hex {
                    key,
                    left: left - 1,
                },
            },
            At::Hex { .. } => At::Broken,
            At::Word(left) => match left.split_first() {
                Some((first, [])) if *first == byte => At::After,
                Some((first, rest)) if *first == byte => At::Word(rest),
                _ => At::Broken,
            },
            At::Number(number) => match number.with(byte) {
                Some(more) => At::Number(more),
                None if number.may_end() => self.after(byte, space),
                None => At::Broken,
            },
            // White space parts all else.
            at if space => at,
            At::Start => {
                self.is_object = byte == b'{';
                self.value(byte)
            }
            At::Value => self.value(byte),
            At::FirstElement if byte == b']' => self.close(false),
            At::FirstElement => self.value(byte),
            At::FirstKey if byte == b'}' => self.close(true),
            At::FirstKey | At::Key if byte == b'"' => At::Text { key: true },
            At::FirstKey | At::Key => At::Broken,
            At::Colon if byte == b':' => At::Value,
            At::Colon => At::Broken,
            At::After => self.after(byte, space),
        };
    }

    /// The first byte of a value.
    fn value(&mut self, byte: u8) -> At {
        match byte {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => At::Text { key: false },
            b't' => At::Word(b"rue"),
            b'f' => At::Word(b"alse"),
            b'n' => At::Word(b"ull"),
            b'-' => At::Number(Number::Minus),
            b'0' => At::Number(Number::Zero),
            b'1'..=b'9' => At::Number(Number::Whole),
            _ => At::Broken,
        }
    }

    /// A byte after a value.
    fn after(&mut self, byte: u8, space: bool) -> At {
        match byte {
            _ if space => At::After,
            b',' if self.depth > 0 => match self.in_object() {
                true => At::Key,
                false => At::Value,
            },
            b'}' => self.close(true),
            b']' => self.close(false),
            _ => At::Broken,
        }
    }

    fn open(&mut self, object: bool) -> At {
        if self.depth == DEEPEST {
            return At::TooDeep;
        }
        let bit = 1u128 << self.depth;
        self.depth += 1;
        if object {
            self.objects |= bit;
            At::FirstKey
        } else {
            self.objects &= !bit;
            At::FirstElement
        }
    }

    fn close(&mut self, object: bool) -> At {
        if self.depth == 0 || self.in_object() != object {
            return At::Broken;
        }
        self.depth -= 1;
        At::After
    }

    fn in_object(&self) -> bool {
        let last = self.depth.saturating_sub(1);
        self.objects & (1u128 << last) != 0
    }
}

/// Any bytes, the first of which says how they are cut: the verdict is serde_json's, in any cutting.
#[cfg(any(test, fuzzing))]
pub fn fuzz_json_check(bytes: &[u8]) {
    let Some((step, text)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let mut check = Check::default();
    for piece in text.as_bytes().chunks(usize::from(*step).max(1)) {
        check.feed(piece);
    }
    let mut whole = Check::default();
    whole.feed(text.as_bytes());
    assert_eq!(check.verdict(), whole.verdict());
    let theirs = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match check.verdict() {
        Verdict::Whole => assert!(theirs, "{text:?}"),
        Verdict::Empty | Verdict::Unfinished | Verdict::Broken => assert!(!theirs, "{text:?}"),
        Verdict::TooDeep => {}
    }
}

#[cfg(test)]
mod tests;
