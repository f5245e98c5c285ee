//! B3 headers, as Zipkin's tracers and older meshes send them (<https://github.com/openzipkin/b3-propagation>).
//!
//! ```text
//! b3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1[-05e3ac9a4f6e3b90]
//!     │                                │                │  └ the caller's own parent: of no use here
//!     │ trace id, 32 or 16 digits      └ the caller's span
//!     └ or the decision alone          └ 0, 1, d (debug: sampled); left out: whoever comes next decides
//! ```
//!
//! The same in headers of their own: `x-b3-traceid`, `x-b3-spanid`, `x-b3-sampled`, `x-b3-flags: 1` (debug). They are read
//! where there is no `b3`. What is malformed or there twice counts as none.

use http::HeaderMap;

use super::begin::{Caller, SAMPLED, field, once};

/// What B3 headers say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Said {
    /// A trace to be continued.
    Place(Caller),
    /// Of a trace that begins here: its flags, if they are decided.
    Flags(Option<u8>),
}

/// Reads them; where there are none it is `Flags(None)`.
pub(super) fn read(headers: &HeaderMap) -> Said {
    let single = once(headers, "b3").and_then(single);
    single
        .or_else(|| several(headers))
        .unwrap_or(Said::Flags(None))
}

fn single(text: &[u8]) -> Option<Said> {
    if let Some(flags) = decision(text) {
        return Some(Said::Flags(Some(flags)));
    }
    let mut parts = text.split(|byte| *byte == b'-');
    let trace_id = trace_id(parts.next()?)?;
    let parent = span_id(parts.next()?)?;
    let flags = match parts.next() {
        Some(text) => Some(decision(text)?),
        None => None,
    };
    if let Some(before) = parts.next() {
        span_id(before)?;
    }
    parts.next().is_none().then_some(Said::Place(Caller {
        trace_id,
        parent,
        flags,
    }))
}

fn several(headers: &HeaderMap) -> Option<Said> {
    let is_debug = once(headers, "x-b3-flags") == Some(b"1");
    let flags = match once(headers, "x-b3-sampled") {
        _ if is_debug => Some(SAMPLED),
        Some(b"true") => Some(SAMPLED),
        Some(b"false") => Some(0),
        Some(text) => decision(text),
        None => None,
    };
    let ids = once(headers, "x-b3-traceid").zip(once(headers, "x-b3-spanid"));
    let ids = ids.and_then(|(trace, span)| Some((trace_id(trace)?, span_id(span)?)));
    match (ids, flags) {
        (Some((trace_id, parent)), flags) => Some(Said::Place(Caller {
            trace_id,
            parent,
            flags,
        })),
        (None, Some(flags)) => Some(Said::Flags(Some(flags))),
        (None, None) => None,
    }
}

fn decision(text: &[u8]) -> Option<u8> {
    match text {
        b"0" => Some(0),
        b"1" | b"d" => Some(SAMPLED),
        _ => None,
    }
}

// A short id is the end of a long one that begins with zeros.
fn trace_id(text: &[u8]) -> Option<[u8; 16]> {
    let id = match field::<16>(text) {
        Some((id, [])) => id,
        Some(_) => return None,
        None => {
            let (short, []) = field::<8>(text)? else {
                return None;
            };
            let mut id = [0; 16];
            for (to, from) in id.iter_mut().skip(8).zip(short) {
                *to = from;
            }
            id
        }
    };
    (id != [0; 16]).then_some(id)
}

fn span_id(text: &[u8]) -> Option<[u8; 8]> {
    match field::<8>(text) {
        Some((id, [])) if id != [0; 8] => Some(id),
        Some(_) | None => None,
    }
}
