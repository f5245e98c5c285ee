//! The `baggage` header (<https://www.w3.org/TR/baggage/>): a list of `key=value;property` members.

use http::HeaderMap;

/// The most bytes that all baggage of a request may have, and the most members: what every participant of a
/// trace must be able to pass on.
const MOST_BYTES: usize = 8192;
const MOST_MEMBERS: usize = 64;

/// The caller's baggage as one value with our member in it: put where the caller had one of that key, else last.
///
/// Several headers are joined in order; other members keep their bytes, without the spaces around them. The
/// value is percent-encoded. None, so that the caller's baggage should pass as it is, if the result would break
/// the limits of 64 members or 8192 bytes, or if `key` is no token (RFC 9110).
pub fn baggage(headers: &HeaderMap, key: &str, value: &str) -> Option<Vec<u8>> {
    if key.is_empty() || !key.bytes().all(is_token) {
        return None;
    }
    let mut ours = Vec::with_capacity(key.len() + 1 + value.len());
    ours.extend_from_slice(key.as_bytes());
    ours.push(b'=');
    encode(value, &mut ours);

    let mut out = Vec::new();
    let (mut members, mut said) = (0, false);
    let mut add = |member: &[u8]| {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(member);
        members += 1;
    };
    let values = headers.get_all("baggage").iter();
    for member in values.flat_map(|value| value.as_bytes().split(|b| *b == b',')) {
        let member = member.trim_ascii();
        if member.is_empty() {
            continue;
        }
        if key_of(member) != key.as_bytes() {
            add(member);
        } else if !said {
            add(&ours);
            said = true;
        }
    }
    if !said {
        add(&ours);
    }
    (members <= MOST_MEMBERS && out.len() <= MOST_BYTES).then_some(out)
}

/// The key of a member: what stands before its `=` or its properties.
fn key_of(member: &[u8]) -> &[u8] {
    let end = member.iter().position(|b| matches!(b, b'=' | b';'));
    let (key, _) = member
        .split_at_checked(end.unwrap_or(member.len()))
        .unwrap_or((member, &[]));
    key.trim_ascii()
}

/// Percent-encodes all but the octets that a value may hold, and the percent sign itself.
fn encode(value: &str, out: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    for byte in value.bytes() {
        match byte {
            0x21 | 0x23..=0x24 | 0x26..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e => {
                out.push(byte)
            }
            _ => out.extend([b'%', digit(byte >> 4), digit(byte & 0x0f)]),
        }
    }
}

/// A character of a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
