//! Traces: W3C Trace Context, Baggage and B3 in, W3C out; and which exchanges' spans are kept.
//!
//! In: headers, fresh random bytes, draws, offsets, what became of an exchange. Out: the place of this exchange in its
//! trace, header values to write, and why its span is kept, if it is. A caller's sampling decision is never changed; a
//! malformed header counts as none.

mod b3;
mod baggage;
mod begin;
mod keep;
mod limiter;
mod traceparent;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use baggage::baggage;
pub use begin::{Source, Trace, begin};
pub use keep::{Always, Ended, Kept};
pub use limiter::Limiter;

use crate::draw::Draw;
use crate::rules::problem::{Place, Problems};
use crate::units::{Period, Share};

/// The name under which a new trace draws, see [`Draw`]. No rule can have it: a split of the same name would choose the
/// engine of all that is sampled.
pub const HEAD: &str = "trace:head";
/// The name under which a span draws that is kept at the end all the same; no rule can have this one either.
pub const END: &str = "trace:end";

/// How exchanges are traced.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Trace")]
pub struct Rule {
    /// Whether `traceparent` and baggage are sent to engines, continuing the caller's trace or beginning one.
    /// Off: the caller's own headers pass as they are, and spans are kept all the same. Some servers record every request
    /// that carries a trace context, whatever its sampled flag says. Default: `true`.
    pub inject: bool,
    /// The share of new traces that are sampled; a caller's decision stands. Default: `1%`.
    pub share: Share,
    /// The most new traces that are sampled in a second, 0 to 10000: with more of them the share falls. What is kept at
    /// the end all the same has as many again. Default: 20.
    pub max_per_second: u32,
    /// Whose spans are kept at the end though they were not sampled. Default: `[error, fault, slow]`.
    pub always: Vec<Always>,
    /// How long the first token, or a plain answer, may take before an exchange is slow. Default: `5s`.
    pub slow: Period,
}

/// The most that `max_per_second` may be.
const MOST: u32 = 10_000;

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            inject: true,
            share: Share::percent(1),
            max_per_second: 20,
            always: vec![Always::Error, Always::Fault, Always::Slow],
            slow: Duration::from_secs(5).into(),
        }
    }
}

impl Rule {
    /// What is wrong with it.
    pub(crate) fn check(&self, place: Place<'_>, problems: &mut Problems) {
        if self.max_per_second > MOST {
            let found = self.max_per_second;
            problems.add(
                place.key("max_per_second"),
                format_args!("found {found}, allowed are 0 to {MOST}"),
            );
        }
        if self.slow.get().is_zero() || self.slow.get() > Period::LONGEST {
            let found = self.slow;
            problems.add(
                place.key("slow"),
                format_args!("it is longer than 0s and at most 365d; found {found}"),
            );
        }
        for (index, always) in self.always.iter().enumerate() {
            if self.always.iter().take(index).any(|other| other == always) {
                problems.add(
                    place.key("always").entry(index),
                    format_args!("`{}` is there already", always.label()),
                );
            }
        }
    }

    /// Whether a new trace is sampled. `admit` is the cap's word, see [`Limiter::admit`]; it is asked only about what the
    /// share has taken.
    pub fn samples(&self, draw: Draw, admit: impl FnOnce(f64) -> bool) -> bool {
        // What falls into the share is spread evenly over it.
        self.share.hits(draw) && admit(draw.ratio() / self.share.ratio())
    }

    /// The cap on a second's spans, as the limiter counts.
    pub fn most(&self) -> u16 {
        u16::try_from(self.max_per_second.min(MOST)).unwrap_or(u16::MAX)
    }
}

/// What a fuzzer feeds: lines that are taken for headers. No bytes may panic, and what goes out must be valid.
#[cfg(any(test, fuzzing))]
pub fn fuzz_trace(bytes: &[u8]) {
    use http::header::{HeaderMap, HeaderName, HeaderValue};

    let mut headers = HeaderMap::new();
    for line in bytes.split(|b| *b == b'\n') {
        let (kind, value) = line.split_first().unwrap_or((&0, &[]));
        let name = match kind {
            b't' => "traceparent",
            b'3' => "b3",
            b'i' => "x-b3-traceid",
            b's' => "x-b3-spanid",
            b'd' => "x-b3-sampled",
            b'f' => "x-b3-flags",
            _ => "baggage",
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let trace = begin(&headers, [7; 24], || true);
    // The limiter is asked only where the caller has left it open, so without one the answer is the same twice.
    assert_eq!(trace, begin(&headers, [7; 24], || true));
    let mut upstream = HeaderMap::new();
    let value =
        HeaderValue::from_bytes(&trace.traceparent()).expect("hexadecimal digits and hyphens");
    upstream.insert("traceparent", value);
    let next = begin(&upstream, [9; 24], || !trace.sampled());
    assert_eq!(next.trace_id, trace.trace_id);
    assert_eq!(next.parent, Some(trace.span));
    assert_eq!(next.sampled(), trace.sampled());
    if let Some(joined) = baggage(&headers, "gray.tag", "v 2,é") {
        assert!(joined.len() <= 8192);
        upstream.insert(
            "baggage",
            HeaderValue::from_bytes(&joined).expect("parts of header values"),
        );
        // Said once more, it changes nothing.
        assert_eq!(baggage(&upstream, "gray.tag", "v 2,é"), Some(joined));
    }
}

#[cfg(test)]
mod tests;
