//! What a field of a log line says.
//!
//! In: a value, borrowed where it lies. Out: JSON. Times are seconds, ids hexadecimal digits.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use greylag_filters::meter::FinishReasons;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::{Value, json};

/// What a field holds, for its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Words, one or more.
    Words,
    /// A whole number, 0 or more.
    Whole,
    /// Seconds, 0 or more.
    Seconds,
    /// A share above 0 and at most 1.
    Share,
    /// True or false.
    Flag,
    /// A moment, RFC 3339.
    Time,
}

impl Kind {
    /// Its JSON Schema.
    pub fn schema(self) -> Value {
        match self {
            Kind::Text => json!({ "type": "string" }),
            Kind::OneOf(words) => json!({ "enum": words }),
            Kind::Words => {
                json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": FinishReasons::MOST_WORDS })
            }
            Kind::Whole => json!({ "type": "integer", "minimum": 0 }),
            Kind::Seconds => json!({ "type": "number", "minimum": 0 }),
            Kind::Share => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Time => json!({ "type": "string", "format": "date-time" }),
        }
    }
}

/// What a field says.
#[derive(Debug, Clone, Copy)]
pub enum Said<'a> {
    /// A text.
    Text(&'a str),
    /// An address.
    Ip(IpAddr),
    /// Eight bytes as digits.
    Hex8([u8; 8]),
    /// Sixteen bytes as digits.
    Hex16([u8; 16]),
    /// Why choices ended.
    Words(Words),
    /// A count.
    Whole(u64),
    /// A time, in seconds.
    Seconds(Duration),
    /// A share.
    Share(f64),
    /// Yes or no.
    Flag(bool),
    /// A moment.
    Time(SystemTime),
}

/// A word for each choice that ended.
#[derive(Debug, Clone, Copy)]
pub struct Words(pub FinishReasons);

impl Serialize for Said<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Said::Text(text) => serializer.serialize_str(text),
            Said::Ip(address) => serializer.collect_str(address),
            Said::Hex8(bytes) => hex(serializer, bytes),
            Said::Hex16(bytes) => hex(serializer, bytes),
            Said::Words(Words(reasons)) => {
                let mut list = serializer.serialize_seq(None)?;
                for word in reasons.words() {
                    list.serialize_element(word)?;
                }
                list.end()
            }
            Said::Whole(count) => serializer.serialize_u64(*count),
            Said::Seconds(time) => serializer.serialize_f64(time.as_secs_f64()),
            Said::Share(share) => serializer.serialize_f64(*share),
            Said::Flag(flag) => serializer.serialize_bool(*flag),
            Said::Time(time) => serializer.collect_str(&humantime::format_rfc3339_micros(*time)),
        }
    }
}

// Bytes, at most 16, as lower-case hexadecimal digits.
pub(in crate::telemetry) fn hex<S: Serializer>(
    serializer: S,
    bytes: &[u8],
) -> Result<S::Ok, S::Error> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    let text = std::str::from_utf8(&text[..2 * bytes.len()]).unwrap_or_default();
    serializer.serialize_str(text)
}
