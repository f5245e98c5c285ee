//! The `traceparent` header (<https://www.w3.org/TR/trace-context/>).
//!
//! ```text
//! 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//! │  │                                │                └ flags: 01 sampled, 02 the trace id is random
//! │  └ trace id, not all zero         └ parent id, not all zero
//! └ version; ff is invalid, a later one is read by these four fields
//! ```

use http::HeaderMap;

/// The place of an exchange in its trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trace {
    /// The trace; never all zero.
    pub trace_id: [u8; 16],
    /// The caller's span; none if the trace begins here. Never all zero.
    pub parent: Option<[u8; 8]>,
    /// The exchange's own span; never all zero.
    pub span: [u8; 8],
    /// The flags to send: `01` sampled, `02` the trace id is random.
    pub flags: u8,
}

/// The caller may have recorded the trace, and asks others to do so.
const SAMPLED: u8 = 0x01;
/// The trace id is random (Trace Context level 2). It says something about the id, so it is passed with it.
const RANDOM: u8 = 0x02;

/// The trace of a request: the caller's, with a new span in it, or a new one.
///
/// `fresh` is 16 random bytes for a trace id and 8 for a span id; `sample` says whether a new trace is sampled.
/// More than one `traceparent`, or a malformed one, counts as none; `tracestate` must then not be passed
/// on either, see [`Trace::keeps_tracestate`].
pub fn begin(headers: &HeaderMap, fresh: [u8; 24], sample: bool) -> Trace {
    let [fresh_trace @ .., s0, s1, s2, s3, s4, s5, s6, s7] = fresh;
    let span = not_zero([s0, s1, s2, s3, s4, s5, s6, s7]);
    let mut given = headers.get_all("traceparent").iter();
    let caller = match (given.next(), given.next()) {
        (Some(one), None) => read(one.as_bytes()),
        (None, _) | (Some(_), Some(_)) => None,
    };
    match caller {
        Some(caller) => Trace {
            trace_id: caller.trace_id,
            parent: Some(caller.parent),
            span,
            flags: caller.flags,
        },
        None => Trace {
            trace_id: not_zero(fresh_trace),
            parent: None,
            span,
            flags: if sample { SAMPLED } else { 0 },
        },
    }
}

impl Trace {
    /// The value to send upstream, with this exchange's span as the parent.
    pub fn traceparent(&self) -> [u8; 55] {
        let mut text = [b'-'; 55];
        let bytes = [0_u8]
            .iter()
            .chain(&self.trace_id)
            .chain(&self.span)
            .chain([&self.flags]);
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

    /// Whether the trace is sampled.
    pub fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Whether the caller's `tracestate` may be passed on: only beside a valid `traceparent`.
    pub fn keeps_tracestate(&self) -> bool {
        self.parent.is_some()
    }
}

/// What a valid `traceparent` says.
struct Caller {
    trace_id: [u8; 16],
    parent: [u8; 8],
    flags: u8,
}

fn read(text: &[u8]) -> Option<Caller> {
    let (version, rest) = field::<1>(text)?;
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
        flags: flags & known,
    })
}

/// `N` bytes as hexadecimal digits in lower case, and what follows them.
fn field<const N: usize>(text: &[u8]) -> Option<([u8; N], &[u8])> {
    let mut bytes = [0; N];
    let mut rest = text;
    for byte in &mut bytes {
        let ([high, low], after) = rest.split_first_chunk::<2>()?;
        *byte = value(*high)? << 4 | value(*low)?;
        rest = after;
    }
    Some((bytes, rest))
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The digit of a number below 16.
fn digit(value: u8) -> u8 {
    match value {
        0..=9 => b'0' + value,
        _ => b'a' + value - 10,
    }
}

/// All zero means "invalid" in both ids; a generator may give it all the same.
fn not_zero<const N: usize>(mut id: [u8; N]) -> [u8; N] {
    if id == [0; N]
        && let Some(last) = id.last_mut()
    {
        *last = 1;
    }
    id
}
