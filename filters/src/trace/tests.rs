use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use std::time::Duration;

use super::{Always, Ended, Kept, Limiter, Rule, Source, Trace, baggage, begin, fuzz_trace};
use crate::draw::Draw;
use crate::outcome::Outcome;
use crate::units::Share;

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

#[test]
fn a_share_takes_its_share_and_a_callers_word_is_not_asked_about() {
    let rule = Rule {
        max_per_second: 10_000,
        ..Rule::default()
    };
    let mut limiter = Limiter::default();
    let mut sampled = 0;
    for number in 0..10_000_u32 {
        // A thousand a second: the cap has nothing to say.
        let at = Duration::from_millis(number.into());
        let draw = Draw::new(5, super::HEAD, &number.to_be_bytes());
        let trace = begin(&HeaderMap::new(), FRESH, || {
            rule.samples(draw, |luck| {
                let (next, is_kept) = limiter.admit(at, rule.most(), luck);
                limiter = next;
                is_kept
            })
        });
        sampled += u32::from(trace.sampled());
    }
    // 3 · √(10,000 · 0.01 · 0.99) = 29.8
    assert!(sampled.abs_diff(100) <= 29, "{sampled}");
    for flags in ["00", "01"] {
        let said = format!("00-{LONG}-{SPAN}-{flags}");
        let trace = begin(&headers("traceparent", &[&said]), FRESH, || {
            panic!("nobody asks")
        });
        assert_eq!((trace.sampled(), trace.is_told), (flags == "01", true));
    }
}

#[test]
fn no_rule_draws_as_a_trace_does() {
    for name in [super::HEAD, super::END] {
        assert!(name.parse::<crate::rules::Name>().is_err(), "{name}");
    }
}

#[test]
fn all_traces_under_a_cap_are_sampled_at_the_caps_rate() {
    let rule = Rule {
        share: Share::ALL,
        max_per_second: 20,
        ..Rule::default()
    };
    let mut limiter = Limiter::default();
    let mut sampled = 0_u32;
    for number in 0..20_000_u32 {
        let draw = Draw::new(5, super::HEAD, &number.to_be_bytes());
        sampled += u32::from(rule.samples(draw, |luck| {
            let (next, is_kept) =
                limiter.admit(Duration::from_millis(number.into()), rule.most(), luck);
            limiter = next;
            is_kept
        }));
    }
    assert!((300..=400).contains(&sampled), "{sampled}");
}

#[test]
fn what_is_not_sampled_is_kept_at_the_end_if_it_shows_something() {
    let trace = |flags: &str| {
        begin(
            &headers("traceparent", &[&format!("00-{LONG}-{SPAN}-{flags}")]),
            FRESH,
            || false,
        )
    };
    let ok = Ended {
        outcome: Outcome::Ok,
        is_injected: false,
        waited: Some(Duration::from_millis(10)),
    };
    let check = |rule: &Rule, trace: &Trace, ended: Ended, expected: Option<Kept>| {
        assert_eq!(
            rule.keeps(trace, ended, || true),
            expected,
            "{trace:?} {ended:?}"
        );
    };
    let rule = Rule::default();
    check(&rule, &trace("01"), ok, Some(Kept::Caller));
    check(&rule, &trace("00"), ok, None);
    check(
        &rule,
        &begin(&HeaderMap::new(), FRESH, || true),
        ok,
        Some(Kept::Share),
    );
    check(&rule, &begin(&HeaderMap::new(), FRESH, || false), ok, None);
    let failed = Ended {
        outcome: Outcome::ErrorInStream,
        ..ok
    };
    check(
        &rule,
        &trace("00"),
        failed,
        Some(Kept::Always(Always::Error)),
    );
    check(
        &rule,
        &trace("00"),
        Ended {
            outcome: Outcome::ClientGone,
            ..ok
        },
        None,
    );
    let slow = Ended {
        waited: Some(Duration::from_secs(5)),
        ..ok
    };
    check(&rule, &trace("00"), slow, Some(Kept::Always(Always::Slow)));
    check(
        &rule,
        &trace("00"),
        Ended {
            waited: Some(Duration::from_millis(4999)),
            ..ok
        },
        None,
    );
    check(&rule, &trace("00"), Ended { waited: None, ..ok }, None);
    let injected = Ended {
        is_injected: true,
        ..slow
    };
    check(
        &rule,
        &trace("00"),
        injected,
        Some(Kept::Always(Always::Fault)),
    );
    let never = Rule {
        always: Vec::new(),
        ..Rule::default()
    };
    check(&never, &trace("00"), failed, None);
    // The cap is asked about these alone, and its word counts.
    assert_eq!(rule.keeps(&trace("00"), failed, || false), None);
    assert_eq!(
        rule.keeps(&trace("01"), failed, || panic!("nobody asks")),
        Some(Kept::Caller)
    );
    assert_eq!(rule.keeps(&trace("00"), ok, || panic!("nobody asks")), None);
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
