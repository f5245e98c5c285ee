use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::{Source, Trace, baggage, begin, fuzz_trace};

mod b3;
mod kept;

const FRESH: [u8; 24] = [0xab; 24];

fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    headers
}

/// What goes upstream: a child of the caller's trace, or a new one (sampled, so that the two differ).
fn check(values: &[&str], upstream: Option<&str>) {
    let trace = begin(&headers("traceparent", values), FRESH, || true);
    let text = String::from_utf8(trace.traceparent().to_vec()).unwrap();
    let fresh = "00-abababababababababababababababab-abababababababab-01";
    assert_eq!(text, upstream.unwrap_or(fresh), "{values:?}");
    assert_eq!(trace.keeps_tracestate(), upstream.is_some(), "{values:?}");
}

#[test]
fn a_valid_caller_is_followed() {
    let id = "0af7651916cd43dd8448eb211c80319c";
    let child = |flags: &str| Some(format!("00-{id}-abababababababab-{flags}"));
    let check = |value: &str, flags: &str| check(&[value], child(flags).as_deref());
    check(&format!("00-{id}-b7ad6b7169203331-00"), "00");
    check(&format!("00-{id}-b7ad6b7169203331-01"), "01");
    check(&format!("00-{id}-b7ad6b7169203331-03"), "03");
    // Flags that this version does not know are sent as zero.
    check(&format!("00-{id}-b7ad6b7169203331-fe"), "02");
    check(&format!("cc-{id}-b7ad6b7169203331-ff"), "01");
    check(
        &format!("cc-{id}-b7ad6b7169203331-01-what-the-future-will-be"),
        "01",
    );
    check(&format!("cc-{id}-b7ad6b7169203331-00-"), "00");
}

#[test]
fn an_invalid_caller_counts_as_none() {
    let ok = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    check(&[], None);
    check(&[ok, ok], None);
    check(&[""], None);
    for bad in [
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-extra",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.extra",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "é0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ] {
        check(&[bad], None);
    }
}

#[test]
fn a_new_trace_has_ids_even_if_chance_gives_zeros() {
    let trace = begin(&HeaderMap::new(), [0; 24], || false);
    assert_ne!(trace.trace_id, [0; 16]);
    assert_ne!(trace.span, [0; 8]);
    assert!(!trace.sampled());
}

fn check_baggage(values: &[&str], expected: Option<&str>) {
    let joined = baggage(&headers("baggage", values), "gray.tag", "v2");
    let joined = joined.map(|joined| String::from_utf8(joined).unwrap());
    assert_eq!(joined.as_deref(), expected, "{values:?}");
}

#[test]
fn our_member_replaces_its_like_or_comes_last() {
    check_baggage(&[], Some("gray.tag=v2"));
    check_baggage(&["a=1"], Some("a=1,gray.tag=v2"));
    check_baggage(
        &["a=1 , b=2;p=3;q", "c=4"],
        Some("a=1,b=2;p=3;q,c=4,gray.tag=v2"),
    );
    check_baggage(&["gray.tag=v1;p, a=1"], Some("gray.tag=v2,a=1"));
    check_baggage(
        &["a=1, gray.tag =v1", "gray.tag=v0"],
        Some("a=1,gray.tag=v2"),
    );
    check_baggage(
        &["gray.tag2=x,GRAY.TAG=y"],
        Some("gray.tag2=x,GRAY.TAG=y,gray.tag=v2"),
    );
    check_baggage(&["", " , ,"], Some("gray.tag=v2"));
    check_baggage(&["gray.tag;p=1"], Some("gray.tag=v2"));
}

#[test]
fn baggage_that_would_not_fit_is_left_alone() {
    let members = |n: usize| vec!["k=v"; n].join(",");
    check_baggage(
        &[&members(63)],
        Some(&format!("{},gray.tag=v2", members(63))),
    );
    check_baggage(&[&members(64)], None);
    let long = |n: usize| format!("k={}", "v".repeat(n - 2));
    let room = 8192 - ",gray.tag=v2".len();
    check_baggage(&[&long(room)], Some(&format!("{},gray.tag=v2", long(room))));
    check_baggage(&[&long(room + 1)], None);
    assert_eq!(baggage(&HeaderMap::new(), "no token", "v"), None);
    assert_eq!(baggage(&HeaderMap::new(), "", "v"), None);
}

#[test]
fn a_value_is_percent_encoded() {
    let joined = baggage(&HeaderMap::new(), "k", "a b,c;d%\"\\é=");
    assert_eq!(joined.unwrap(), b"k=a%20b%2Cc%3Bd%25%22%5C%C3%A9=");
}

#[test]
fn the_fuzz_function_passes_its_seeds() {
    for seed in [
        &b""[..],
        b"t00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"tcc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x\nba=1",
        b"t\nt\nt",
        b"ba=1,gray.tag=2;p\nb\xff,,=;",
        b"bgray.tag=1,gray.tag=2,\t gray.tag\t=\t3",
        b"380f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90",
        b"3d",
        b"i80f198ee56343ba8\nse457b5a2e4d86bd1\nd0\nf1",
    ] {
        fuzz_trace(seed);
    }
}

proptest! {
    #[test]
    fn a_child_keeps_the_trace_and_has_a_span_of_its_own(
        trace_id: [u8; 16], parent: [u8; 8], span: [u8; 8], flags in 0_u8..4, fresh: [u8; 24],
    ) {
        prop_assume!(trace_id != [0; 16] && span != [0; 8]);
        let caller = Trace {
            trace_id, parent: Some(parent), span, flags, source: Source::TraceParent, is_told: true,
        };
        let text = caller.traceparent();
        let headers = headers("traceparent", &[str::from_utf8(&text).unwrap()]);
        let child = begin(&headers, fresh, || false);
        prop_assert_eq!((child.trace_id, child.parent, child.flags), (trace_id, Some(span), flags));
        prop_assert_ne!(child.span, [0; 8]);
        // Written with the caller's span instead, it is what the caller wrote.
        let back = Trace { span: child.parent.unwrap(), ..child };
        prop_assert_eq!(back.traceparent(), text);
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        fuzz_trace(&bytes);
    }

    #[test]
    fn no_text_that_looks_like_headers_panics(text in "(t[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-x)?\n|3[0-9a-f]{16}([0-9a-f]{16})?-[0-9a-f]{16}(-[01dx])?(-[0-9a-f]{16})?\n|[isdf][0-9a-f]{0,32}\n|b[a=;, gry.t]{0,40}\n){0,4}") {
        fuzz_trace(text.as_bytes());
    }
}
