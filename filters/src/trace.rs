//! W3C Trace Context and Baggage: what a caller says, and what is said upstream.
//!
//! In: headers, fresh random bytes, whether a new trace is sampled. Out: the place of this exchange in its trace,
//! and header values to write. A caller's sampling decision is kept; a malformed `traceparent` counts as none.

mod baggage;
mod traceparent;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use baggage::baggage;
pub use traceparent::{Trace, begin};

use crate::units::Share;

/// How exchanges are traced.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Trace")]
pub struct Rule {
    /// Whether `traceparent` and baggage are sent to engines, continuing the caller's trace or beginning one.
    /// Off: the caller's own headers pass as they are. Some servers record every request that carries a trace
    /// context, whatever its sampled flag says. Default: `true`.
    pub inject: bool,
    /// The share of new traces that are sampled; a caller's decision stands. Default: `1%`.
    pub share: Share,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            inject: true,
            share: Share::percent(1),
        }
    }
}

/// What a fuzzer feeds: lines that are taken for headers. No bytes may panic, and what goes out must be valid.
#[cfg(any(test, fuzzing))]
pub fn fuzz_trace(bytes: &[u8]) {
    use http::header::{HeaderMap, HeaderName, HeaderValue};

    let mut headers = HeaderMap::new();
    for line in bytes.split(|b| *b == b'\n') {
        let (kind, value) = line.split_first().unwrap_or((&0, &[]));
        let name = if *kind == b't' {
            "traceparent"
        } else {
            "baggage"
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let trace = begin(&headers, [7; 24], true);
    let mut upstream = HeaderMap::new();
    let value =
        HeaderValue::from_bytes(&trace.traceparent()).expect("hexadecimal digits and hyphens");
    upstream.insert("traceparent", value);
    let next = begin(&upstream, [9; 24], false);
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
