//! The place of an exchange in its trace: the caller's trace with a new span in it, or a new one.
//!
//! In: headers, fresh random bytes, whether a new trace is sampled. Out: a [`Trace`]. `traceparent` counts before `b3`, and
//! `b3` before the `x-b3-` headers; whoever says nothing of sampling leaves it to us.

use http::{HeaderMap, HeaderValue};

use super::{b3, traceparent};

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
    /// Where the trace comes from.
    pub source: Source,
    /// Whether the caller has decided on sampling.
    pub is_told: bool,
}

/// Where a trace comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// It begins here.
    Here,
    /// A `traceparent` header.
    TraceParent,
    /// B3 headers.
    B3,
}

/// The caller may have recorded the trace, and asks others to do so.
pub(super) const SAMPLED: u8 = 0x01;
/// The trace id is random (Trace Context level 2). It says something about the id, so it is passed with it.
pub(super) const RANDOM: u8 = 0x02;

/// What a caller says of its trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Caller {
    pub trace_id: [u8; 16],
    pub parent: [u8; 8],
    /// Absent: whoever comes next decides.
    pub flags: Option<u8>,
}

/// The trace of a request: the caller's, with a new span in it, or a new one.
///
/// `fresh` is 16 random bytes for a trace id and 8 for a span id; `sample` says whether a trace is sampled of which the
/// caller has not decided that, and is asked about no other.
pub fn begin(headers: &HeaderMap, fresh: [u8; 24], sample: impl FnOnce() -> bool) -> Trace {
    let [fresh_trace @ .., s0, s1, s2, s3, s4, s5, s6, s7] = fresh;
    let span = not_zero([s0, s1, s2, s3, s4, s5, s6, s7]);
    let (caller, source) = match traceparent::read(headers) {
        Some(caller) => (b3::Said::Place(caller), Source::TraceParent),
        None => (b3::read(headers), Source::B3),
    };
    let decide = |flags: Option<u8>| flags.unwrap_or_else(|| if sample() { SAMPLED } else { 0 });
    match caller {
        b3::Said::Place(caller) => Trace {
            trace_id: caller.trace_id,
            parent: Some(caller.parent),
            span,
            flags: decide(caller.flags),
            source,
            is_told: caller.flags.is_some(),
        },
        b3::Said::Flags(flags) => Trace {
            trace_id: not_zero(fresh_trace),
            parent: None,
            span,
            flags: decide(flags),
            source: Source::Here,
            is_told: flags.is_some(),
        },
    }
}

impl Trace {
    /// The value to send upstream, with this exchange's span as the parent.
    pub fn traceparent(&self) -> [u8; 55] {
        traceparent::write(self)
    }

    /// Whether the trace is sampled.
    pub fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Whether the caller's `tracestate` may be passed on: only beside a valid `traceparent`.
    pub fn keeps_tracestate(&self) -> bool {
        self.source == Source::TraceParent
    }
}

/// The value of a header that is there once.
pub(super) fn once<'a>(headers: &'a HeaderMap, name: &'static str) -> Option<&'a [u8]> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (Some(one), None) => Some(HeaderValue::as_bytes(one)),
        (None, _) | (Some(_), Some(_)) => None,
    }
}

/// `N` bytes as hexadecimal digits in lower case, and what follows them.
pub(super) fn field<const N: usize>(text: &[u8]) -> Option<([u8; N], &[u8])> {
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

/// All zero means "invalid" in both ids; a generator may give it all the same.
fn not_zero<const N: usize>(mut id: [u8; N]) -> [u8; N] {
    if id == [0; N]
        && let Some(last) = id.last_mut()
    {
        *last = 1;
    }
    id
}
