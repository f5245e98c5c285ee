//! The inside of a JSON string.
//!
//! In: the bytes between the quotes, already known to be well escaped. Out: comparisons and plain text.
//! A string without an escape is never copied to be compared.

/// A JSON string as it stands in the text, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    raw: &'a [u8],
    at: usize,
    escaped: bool,
}

impl<'a> Text<'a> {
    pub(super) fn new(raw: &'a [u8], at: usize, escaped: bool) -> Text<'a> {
        Text { raw, at, escaped }
    }

    /// A text that stands nowhere.
    pub(crate) fn word(word: &'static str) -> Text<'static> {
        Text::new(word.as_bytes(), 0, false)
    }

    /// Where the bytes between the quotes stand in the text.
    pub(super) fn span(self) -> std::ops::Range<usize> {
        self.at..self.at + self.raw.len()
    }

    pub(super) fn escaped(self) -> bool {
        self.escaped
    }

    /// The bytes as they stand between the quotes.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// The bytes, if none of them belongs to an escape: then they are the text itself.
    #[inline]
    pub fn plain(self) -> Option<&'a [u8]> {
        (!self.escaped).then_some(self.raw)
    }

    /// Whether the string is `""`.
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// Whether the string, read by its escapes, is `word`.
    #[inline]
    pub fn is(self, word: &str) -> bool {
        match self.plain() {
            Some(raw) => raw == word.as_bytes(),
            // An escape is at most six bytes for one of UTF-8, so a longer text cannot be the word.
            None => {
                self.raw.len() <= word.len().saturating_mul(6)
                    && self.decode().as_deref() == Some(word)
            }
        }
    }

    /// The string read by its escapes, or nothing if it is longer than `longest` bytes as it stands or not UTF-8.
    /// Half a surrogate pair becomes U+FFFD.
    pub fn to_text(self, longest: usize) -> Option<Box<str>> {
        if self.raw.len() > longest {
            return None;
        }
        match self.plain() {
            Some(raw) => std::str::from_utf8(raw).ok().map(Box::from),
            None => self.decode().map(String::into_boxed_str),
        }
    }

    /// Calls `each` with the bytes of the string read by its escapes, but that a character past ASCII that is escaped is
    /// the one byte 0x80.
    pub(crate) fn each_byte(self, mut each: impl FnMut(u8)) {
        let mut rest = self.raw;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            if *first != b'\\' {
                each(*first);
                continue;
            }
            let Some((letter, after)) = rest.split_first() else {
                return;
            };
            rest = after;
            each(match letter {
                b'b' => 0x08,
                b'f' => 0x0c,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    let (hex, after) = rest.split_at_checked(4).unwrap_or((rest, &[]));
                    rest = after;
                    let unit = std::str::from_utf8(hex).ok();
                    let unit = unit.and_then(|hex| u16::from_str_radix(hex, 16).ok());
                    let ascii = unit.and_then(|unit| u8::try_from(unit).ok());
                    ascii.filter(u8::is_ascii).unwrap_or(0x80)
                }
                other => *other,
            });
        }
    }

    fn decode(self) -> Option<String> {
        let mut rest = std::str::from_utf8(self.raw).ok()?;
        let mut text = String::with_capacity(rest.len());
        // Half a pair that waits for its other half.
        let mut units: Vec<u16> = Vec::new();
        loop {
            let (plain, escape) = match rest.split_once('\\') {
                Some((plain, escape)) => (plain, Some(escape)),
                None => (rest, None),
            };
            if !plain.is_empty() || escape.is_none() {
                flush(&mut units, &mut text);
                text.push_str(plain);
            }
            let Some(escape) = escape else {
                return Some(text);
            };
            let mut letters = escape.chars();
            let letter = letters.next()?;
            rest = letters.as_str();
            if letter == 'u' {
                let (hex, after) = rest.split_at_checked(4)?;
                units.push(u16::from_str_radix(hex, 16).ok()?);
                rest = after;
                continue;
            }
            flush(&mut units, &mut text);
            text.push(match letter {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            });
        }
    }
}

fn flush(units: &mut Vec<u16>, text: &mut String) {
    text.extend(
        char::decode_utf16(units.drain(..)).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)),
    );
}

/// As [`plain`], but looks at the first eight bytes alone.
#[inline]
pub(super) fn short(bytes: &[u8]) -> usize {
    let Some(word) = bytes.first_chunk::<WORD>() else {
        return 0;
    };
    match stops(u64::from_le_bytes(*word)) {
        0 => WORD,
        stops => (stops.trailing_zeros() / 8) as usize,
    }
}

/// How many bytes from the start are plain string text: no quote, no backslash, no control character.
///
/// Most strings of a stream are short, so the first words are looked at eight bytes at a time; what is longer is
/// a prompt, and worth a vector search.
pub(super) fn plain(bytes: &[u8]) -> usize {
    let mut done = 0;
    for chunk in bytes.chunks_exact(WORD).take(WORDS) {
        let Ok(word) = <[u8; WORD]>::try_from(chunk) else {
            break;
        };
        let stops = stops(u64::from_le_bytes(word));
        if stops != 0 {
            return done + (stops.trailing_zeros() / 8) as usize;
        }
        done += WORD;
    }
    if done == WORD * WORDS {
        return done + far(bytes.get(done..).unwrap_or_default());
    }
    let rest = bytes.get(done..).unwrap_or_default();
    done + rest
        .iter()
        .position(|byte| stop(*byte))
        .unwrap_or(rest.len())
}

const WORD: usize = 8;
const WORDS: usize = 4;
/// Small enough that the second look at a stretch finds it in the nearest cache.
const STRETCH: usize = 4096;

fn far(bytes: &[u8]) -> usize {
    let mut done = 0;
    for stretch in bytes.chunks(STRETCH) {
        let end = memchr::memchr2(b'"', b'\\', stretch).unwrap_or(stretch.len());
        let run = stretch.get(..end).unwrap_or_default();
        if run.iter().fold(false, |found, byte| found | (*byte < b' ')) {
            return done + run.iter().position(|byte| *byte < b' ').unwrap_or(end);
        }
        done += end;
        if end < stretch.len() {
            break;
        }
    }
    done
}

fn stop(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The high bit of the lowest byte of `word` that ends plain text; bits above the lowest set one may be wrong.
///
/// `(x - 1) & !x` has its high bit set where a byte is zero, and `(x - n) & !x` where it is below `n`; a borrow
/// can spoil only the bytes above one that is truly found.
#[inline]
fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let quotes = quote.wrapping_sub(ONES) & !quote;
    let slashes = slash.wrapping_sub(ONES) & !slash;
    let controls = word.wrapping_sub(ONES * b' ' as u64) & !word;
    (quotes | slashes | controls) & HIGH
}
