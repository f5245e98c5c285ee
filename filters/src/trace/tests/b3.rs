//! B3 headers, and what counts before what.

use http::{HeaderMap, HeaderValue};

use super::{FRESH, headers};
use crate::trace::{Source, begin};

// Of a caller with these headers: trace id, parent and flags that go on; no parent where the trace begins here. `sampled`
// where the caller leaves it open.
fn check_b3(lines: &[(&'static str, &str)], expected: Option<(&str, &str)>, sampled: bool) {
    let mut all = HeaderMap::new();
    for (name, value) in lines {
        all.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let trace = begin(&all, FRESH, || true);
    let text = String::from_utf8(trace.traceparent().to_vec()).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match expected {
        Some((trace_id, parent)) => {
            assert_eq!(text[3..35], *trace_id, "{lines:?}");
            assert_eq!(hex(&trace.parent.unwrap()), parent, "{lines:?}");
            assert_eq!(trace.source, Source::B3, "{lines:?}");
        }
        None => {
            assert_eq!(text[3..35], *"ab".repeat(16), "{lines:?}");
            assert_eq!(
                (trace.parent, trace.source),
                (None, Source::Here),
                "{lines:?}"
            );
        }
    }
    assert_eq!(trace.sampled(), sampled, "{lines:?}");
    // A state of the other standard belongs to no trace of this one.
    assert!(!trace.keeps_tracestate());
}

const LONG: &str = "80f198ee56343ba864fe8b2a57d3eff7";
const SPAN: &str = "e457b5a2e4d86bd1";

#[test]
fn b3_in_one_header_is_followed() {
    let place = Some((LONG, SPAN));
    let check = |text: &str, expected, sampled| check_b3(&[("b3", text)], expected, sampled);
    check(&format!("{LONG}-{SPAN}-1"), place, true);
    check(&format!("{LONG}-{SPAN}-0"), place, false);
    check(&format!("{LONG}-{SPAN}-d"), place, true);
    check(&format!("{LONG}-{SPAN}-0-05e3ac9a4f6e3b90"), place, false);
    // It is left to us.
    check(&format!("{LONG}-{SPAN}"), place, true);
    let short = Some(("000000000000000064fe8b2a57d3eff7", SPAN));
    check(&format!("64fe8b2a57d3eff7-{SPAN}-0"), short, false);
    check("0", None, false);
    check("1", None, true);
    check("d", None, true);
}

#[test]
fn malformed_b3_counts_as_none() {
    for bad in [
        "",
        "2",
        "00",
        "-",
        "--",
        "0-0",
        SPAN,
        LONG,
        &format!("{LONG}-{SPAN}-2"),
        &format!("{LONG}-{SPAN}-"),
        &format!("{LONG}-{SPAN}-0-"),
        &format!("{LONG}-{SPAN}-0-{SPAN}-0"),
        &format!("{LONG}00-{SPAN}-0"),
        &format!("{}-{SPAN}-0", "0".repeat(32)),
        &format!("{LONG}-{}-0", "0".repeat(16)),
        &format!("{}-{SPAN}-0", LONG.to_uppercase()),
    ] {
        check_b3(&[("b3", bad)], None, true);
    }
    let good = format!("{LONG}-{SPAN}-0");
    check_b3(&[("b3", &good), ("b3", &good)], None, true);
}

#[test]
fn b3_in_several_headers_is_followed() {
    let (trace, span) = (("x-b3-traceid", LONG), ("x-b3-spanid", SPAN));
    let place = Some((LONG, SPAN));
    check_b3(&[trace, span, ("x-b3-sampled", "0")], place, false);
    check_b3(&[trace, span, ("x-b3-sampled", "1")], place, true);
    check_b3(&[trace, span, ("x-b3-sampled", "false")], place, false);
    check_b3(
        &[trace, span, ("x-b3-sampled", "0"), ("x-b3-flags", "1")],
        place,
        true,
    );
    check_b3(&[trace, span, ("x-b3-sampled", "maybe")], place, true);
    check_b3(&[trace, span], place, true);
    check_b3(&[("x-b3-sampled", "0")], None, false);
    check_b3(&[trace, ("x-b3-sampled", "0")], None, false);
    check_b3(&[trace], None, true);
    check_b3(&[span], None, true);
    // One header counts before several, and several before one that is malformed.
    let single = format!("{}-{SPAN}-0", "1".repeat(32));
    check_b3(
        &[trace, span, ("b3", &single)],
        Some((&"1".repeat(32), SPAN)),
        false,
    );
    check_b3(
        &[trace, span, ("x-b3-sampled", "0"), ("b3", "?")],
        place,
        false,
    );
}

#[test]
fn traceparent_counts_before_b3() {
    let mut both = headers(
        "traceparent",
        &["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"],
    );
    both.append(
        "b3",
        HeaderValue::from_str(&format!("{LONG}-{SPAN}-1")).unwrap(),
    );
    let trace = begin(&both, FRESH, || true);
    assert_eq!(
        (trace.source, trace.sampled()),
        (Source::TraceParent, false)
    );
    both.append("traceparent", HeaderValue::from_static("another"));
    let trace = begin(&both, FRESH, || false);
    assert_eq!((trace.source, trace.sampled()), (Source::B3, true));
}
