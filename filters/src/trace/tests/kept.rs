//! What is sampled at the head, and what is kept at the end.

use std::time::Duration;

use http::HeaderMap;

use super::{FRESH, headers};
use crate::draw::Draw;
use crate::outcome::Outcome;
use crate::trace::{Always, END, Ended, HEAD, Kept, Limiter, Rule, Trace, begin};
use crate::units::Share;

const LONG: &str = "80f198ee56343ba864fe8b2a57d3eff7";
const SPAN: &str = "e457b5a2e4d86bd1";

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
        let draw = Draw::new(5, HEAD, &number.to_be_bytes());
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
    for name in [HEAD, END] {
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
        let draw = Draw::new(5, HEAD, &number.to_be_bytes());
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
