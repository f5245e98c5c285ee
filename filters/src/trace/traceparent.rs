//! The `traceparent` header (<https://www.w3.org/TR/trace-context/>).
//!
//! ```text
//! 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//! │  │                                │                └ flags: 01 sampled, 02 the trace id is random
//! │  └ trace id, not all zero         └ parent id, not all zero
//! └ version; ff is invalid, a later one is read by these four fields
//! ```
//!
//! More than one `traceparent`, or a malformed one, counts as none.

use http::HeaderMap;

use super::begin::{Caller, RANDOM, SAMPLED, Trace, field, once};

/// What the header says, if it is there once and valid.
pub(super) fn read(headers: &HeaderMap) -> Option<Caller> {
    let (version, rest) = field::<1>(once(headers, "traceparent")?)?;
    let (trace_id, rest) = field::<16>(rest.strip_prefix(b"-")?)?;
    let (parent, rest) = field::<8>(rest.strip_prefix(b"-")?)?;
    let ([flags], rest) = field::<1>(rest.strip_prefix(b"-")?)?;
    let known = match version {
        [0xff] => return None,
        [0] if rest.is_empty() => SAMPLED | RANDOM,
        [0] => return None,
        // Of a later version only the sampled flag is known, and more may follow after a hyphen.
        [_] if rest.is_empty() || rest.starts_with(b"-") => SAMPLED,
        [_] => return None,
    };
    if trace_id == [0; 16] || parent == [0; 8] {
        return None;
    }
    Some(Caller {
        trace_id,
        parent,
        flags: Some(flags & known),
    })
}

/// The header's value, with the exchange's own span as the parent.
pub(super) fn write(trace: &Trace) -> [u8; 55] {
    let mut text = [b'-'; 55];
    let bytes = [0_u8]
        .iter()
        .chain(&trace.trace_id)
        .chain(&trace.span)
        .chain([&trace.flags]);
    let digits = bytes.flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)]);
    let hyphens = [2, 35, 52];
    let places = text
        .iter_mut()
        .enumerate()
        .filter(|(place, _)| !hyphens.contains(place));
    for ((_, place), digit) in places.zip(digits) {
        *place = digit;
    }
    text
}

/// The digit of a number below 16.
fn digit(value: u8) -> u8 {
    match value {
        0..=9 => b'0' + value,
        _ => b'a' + value - 10,
    }
}
