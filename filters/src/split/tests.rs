use std::fmt::Display;
use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;
use serde_json::json;

use crate::facts;
use crate::route::Route;
use crate::rules::{How, Request, Rules, Ruleset, compile};

/// Rules with engines `a`, `b` (tag `v2`) and `c`, and one split, given as JSON text so that order is kept.
fn ruleset(split: impl Display) -> Ruleset {
    let rules: Rules = serde_json::from_str(&format!(
        r#"{{
            "engines": {{
                "a": {{ "kind": "vllm", "url": "http://a" }},
                "b": {{ "kind": "vllm", "url": "http://b", "tag": "v2" }},
                "c": {{ "kind": "vllm", "url": "http://c" }}
            }},
            "default_engine": "a",
            "splits": [{split}]
        }}"#
    ))
    .unwrap();
    compile(&rules).unwrap()
}

/// A caller as the tests see one.
struct Caller<'a> {
    headers: &'a [(&'static str, &'a str)],
    body: Option<&'a str>,
    client: Option<&'a str>,
    trusted: bool,
    path: &'a str,
}

const NOBODY: Caller<'_> = Caller {
    headers: &[],
    body: None,
    client: None,
    trusted: true,
    path: "/v1/chat/completions",
};

fn decide(ruleset: &Ruleset, caller: &Caller<'_>, id: &[u8]) -> (String, How) {
    let headers: HeaderMap = caller
        .headers
        .iter()
        .map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (HeaderName::from_static(name), value)
        })
        .collect();
    let body = caller
        .body
        .map(|body| facts::scan(body.as_bytes(), ruleset.wanted_body_keys()).unwrap());
    let decision = ruleset.decide(
        &Request {
            method: &Method::POST,
            path: caller.path,
            route: Route::of(caller.path),
            headers: &headers,
            body: body.as_ref(),
            client: caller.client.map(|ip| ip.parse::<IpAddr>().unwrap()),
            trusted: caller.trusted,
        },
        |_| true,
        1,
        id,
    );
    let engine = ruleset.engine(decision.engine).unwrap();
    (engine.name.to_string(), decision.how)
}

fn user(ruleset: &Ruleset, user: &str) -> String {
    let headers = [("x-user-id", user)];
    let caller = Caller {
        headers: &headers,
        ..NOBODY
    };
    let (engine, how) = decide(ruleset, &caller, b"");
    assert_eq!(how, How::Sticky);
    engine
}

fn weights(a: u32, b: u32, c: u32) -> Ruleset {
    ruleset(json!({
        "name": "s",
        "weights": { "a": a, "b": b, "c": c },
        "sticky": [{ "header": "x-user-id" }],
    }))
}

#[test]
fn force_comes_before_sticky_and_sticky_before_the_draw() {
    let ruleset = ruleset(json!({
        "name": "s",
        "weights": { "a": 1, "b": 0 },
        "sticky": [{ "header": "x-user-id" }],
        "force": { "header": "x-gray" },
    }));
    let check = |headers: &[(&'static str, &str)], trusted: bool, engine: &str, how: How| {
        let caller = Caller {
            headers,
            trusted,
            ..NOBODY
        };
        assert_eq!(
            decide(&ruleset, &caller, b"1"),
            (engine.to_owned(), how),
            "{headers:?}"
        );
    };
    check(&[], true, "a", How::Draw);
    check(&[("x-user-id", "u")], true, "a", How::Sticky);
    check(&[("x-user-id", "")], true, "a", How::Draw);
    check(
        &[("x-user-id", "u"), ("x-gray", "b")],
        true,
        "b",
        How::Forced,
    );
    check(&[("x-gray", "v2")], true, "b", How::Forced);
    check(&[("x-gray", "a")], true, "a", How::Forced);
    check(&[("x-gray", "always")], true, "b", How::Forced);
    check(&[("x-gray", "never")], true, "a", How::Forced);
    // An engine outside the split, another spelling and nothing at all say nothing.
    check(&[("x-gray", "c")], true, "a", How::Draw);
    check(&[("x-gray", "B")], true, "a", How::Draw);
    check(&[("x-gray", "")], true, "a", How::Draw);
    check(&[("x-gray", "b")], false, "a", How::Draw);
    check(
        &[("x-user-id", "u"), ("x-gray", "always")],
        false,
        "a",
        How::Sticky,
    );
}

#[test]
fn always_and_never_mean_nothing_among_three() {
    let ruleset = ruleset(json!({
        "name": "s",
        "weights": { "a": 0, "b": 0, "c": 1 },
        "force": { "header": "x-gray" },
    }));
    for word in ["always", "never"] {
        let headers = [("x-gray", word)];
        let caller = Caller {
            headers: &headers,
            ..NOBODY
        };
        assert_eq!(decide(&ruleset, &caller, b""), ("c".to_owned(), How::Draw));
    }
}

#[test]
fn the_first_sticky_key_that_is_there_decides() {
    let ruleset = ruleset(json!({
        "name": "s",
        "weights": { "a": 1, "b": 1 },
        "sticky": [{ "header": "x-user-id" }, { "body": "user" }, "client_ip"],
    }));
    assert_eq!(ruleset.wanted_body_keys(), [Box::from("user")]);
    // Two users on different engines, so that it can be told whose key was taken.
    let mut names = (0..100).map(|n| format!("user-{n}"));
    let on_a = names.find(|name| user(&ruleset, name) == "a").unwrap();
    let on_b = names.find(|name| user(&ruleset, name) == "b").unwrap();
    let check =
        |header: Option<&str>, body: Option<&str>, client, engine: Option<&str>, how: How| {
            let headers: Vec<_> = header
                .into_iter()
                .map(|value| ("x-user-id", value))
                .collect();
            let body = body.map(|user| format!("{{\"user\":\"{user}\"}}"));
            let caller = Caller {
                headers: &headers,
                body: body.as_deref(),
                client,
                ..NOBODY
            };
            let (found, found_how) = decide(&ruleset, &caller, b"id");
            assert_eq!(found_how, how);
            assert!(engine.is_none_or(|engine| engine == found));
        };
    check(Some(&on_a), Some(&on_b), None, Some("a"), How::Sticky);
    check(Some(&on_b), Some(&on_a), None, Some("b"), How::Sticky);
    // The same value in the body goes where it goes in the header.
    check(None, Some(&on_a), Some("10.0.0.1"), Some("a"), How::Sticky);
    check(
        Some(""),
        Some(&on_b),
        Some("10.0.0.1"),
        Some("b"),
        How::Sticky,
    );
    check(None, Some(""), Some("10.0.0.1"), None, How::Sticky);
    check(None, Some(""), None, None, How::Draw);
    check(None, None, None, None, How::Draw);
}

#[test]
fn an_ipv4_address_in_ipv6_is_the_same_caller() {
    let ruleset = ruleset(json!({
        "name": "s", "weights": { "a": 1, "b": 1 }, "sticky": ["client_ip"],
    }));
    let at = |ip: &str| {
        let caller = Caller {
            client: Some(ip),
            ..NOBODY
        };
        decide(&ruleset, &caller, b"").0
    };
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..32 {
        assert_eq!(
            at(&format!("10.0.0.{n}")),
            at(&format!("::ffff:10.0.0.{n}"))
        );
        seen.insert(at(&format!("10.0.0.{n}")));
    }
    assert_eq!(
        seen.len(),
        2,
        "32 addresses on one engine: the address is not hashed"
    );
}

#[test]
fn what_is_not_inference_is_not_split() {
    let ruleset = ruleset(json!({ "name": "s", "weights": { "b": 1 } }));
    let health = Caller {
        path: "/health",
        ..NOBODY
    };
    assert_eq!(
        decide(&ruleset, &health, b""),
        ("a".to_owned(), How::Default)
    );
    assert_eq!(decide(&ruleset, &NOBODY, b""), ("b".to_owned(), How::Draw));
}

/// How many of 100,000 fall on each engine, and whether that is within 3 standard deviations.
fn check_shares(counts: [u32; 3], weights: [u32; 3]) {
    let sum: u32 = weights.iter().sum();
    for (count, weight) in counts.into_iter().zip(weights) {
        let share = f64::from(weight) / f64::from(sum);
        let deviation = (100_000.0 * share * (1.0 - share)).sqrt();
        let off = (f64::from(count) - 100_000.0 * share).abs();
        assert!(off <= 3.0 * deviation, "{counts:?} for {weights:?}");
    }
}

fn count(mut engine: impl FnMut(u32) -> String) -> [u32; 3] {
    let mut counts = [0; 3];
    for n in 0..100_000 {
        let place = ["a", "b", "c"]
            .iter()
            .position(|name| *name == engine(n))
            .unwrap();
        counts[place] += 1;
    }
    counts
}

#[test]
fn shares_follow_the_weights() {
    for [a, b, c] in [[90, 10, 0], [2, 1, 1], [999_999, 1, 0]] {
        let split = weights(a, b, c);
        check_shares(count(|n| user(&split, &format!("user-{n}"))), [a, b, c]);
        let drawn = count(|n| decide(&split, &NOBODY, n.to_string().as_bytes()).0);
        check_shares(drawn, [a, b, c]);
    }
}

#[test]
fn raising_a_weight_moves_only_the_share_that_it_gains() {
    // 80 : 10 : 10 to 80 : 21 : 10, so b grows from 10.000 % to 18.919 %.
    let (before, after) = (weights(80, 10, 10), weights(80, 21, 10));
    let mut movers = 0_u32;
    for n in 0..100_000 {
        let name = format!("user-{n}");
        let (from, to) = (user(&before, &name), user(&after, &name));
        if from != to {
            assert_eq!(to, "b", "{name} left {from} though only b grew");
            movers += 1;
        }
    }
    let gained = 21.0 / 111.0 - 0.1;
    let deviation = (100_000.0_f64 * gained * (1.0 - gained)).sqrt();
    assert!(
        (f64::from(movers) - 100_000.0 * gained).abs() <= 3.0 * deviation,
        "{movers}"
    );
}

#[test]
fn ten_to_twenty_of_a_hundred_moves_ten() {
    let (before, after) = (weights(90, 10, 0), weights(80, 20, 0));
    let movers = (0..100_000).filter(|n| {
        let name = format!("user-{n}");
        let (from, to) = (user(&before, &name), user(&after, &name));
        assert!(
            from == to || (from == "a" && to == "b"),
            "{name} went from {from} to {to}"
        );
        from != to
    });
    // 3 · √(100000 · 0.1 · 0.9) = 285
    assert!(movers.count().abs_diff(10_000) <= 285);
}

#[test]
fn weight_zero_moves_everyone_and_nobody_else() {
    let (before, after) = (weights(60, 20, 20), weights(60, 0, 20));
    for n in 0..10_000 {
        let name = format!("user-{n}");
        let (from, to) = (user(&before, &name), user(&after, &name));
        assert_ne!(to, "b");
        assert!(from == to || from == "b");
    }
}

#[test]
fn a_sticky_share_does_not_drift() {
    let split = weights(90, 10, 0);
    for n in 0..1_000 {
        let name = format!("user-{n}");
        let first = user(&split, &name);
        assert!((0..50).all(|_| user(&split, &name) == first));
    }
}

#[test]
fn the_salt_decides_who_goes_where() {
    let split = |name: &str, salt: Option<&str>| {
        let mut rule = json!({
            "name": name, "weights": { "a": 1, "b": 1 }, "sticky": [{ "header": "x-user-id" }],
        });
        if let Some(salt) = salt {
            rule["salt"] = salt.into();
        }
        let ruleset = ruleset(rule);
        (0..64)
            .map(|n| user(&ruleset, &format!("u{n}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(split("s", None), split("other", Some("s")));
    assert_ne!(split("s", None), split("other", None));
    assert_ne!(split("s", None), split("s", Some("")));
}

#[test]
fn always_is_the_second_listed_and_never_the_first() {
    for (weights, always, never) in [
        (r#"{ "a": 1, "b": 1 }"#, "b", "a"),
        (r#"{ "b": 1, "a": 1 }"#, "a", "b"),
    ] {
        let split = ruleset(format!(
            r#"{{ "name": "s", "weights": {weights}, "force": {{ "header": "x-gray" }} }}"#
        ));
        for (word, engine) in [("always", always), ("never", never)] {
            let headers = [("x-gray", word)];
            let caller = Caller {
                headers: &headers,
                ..NOBODY
            };
            assert_eq!(
                decide(&split, &caller, b""),
                (engine.to_owned(), How::Forced)
            );
        }
    }
}

proptest! {
    #[test]
    fn the_order_of_the_list_does_not_matter(name in "[ -~]{1,40}", a in 0_u32..100, b in 0_u32..100) {
        let split = |weights: String| ruleset(format!(
            r#"{{ "name": "s", "weights": {weights}, "sticky": [{{ "body": "user" }}] }}"#
        ));
        let body = json!({ "user": name }).to_string();
        let caller = Caller { body: Some(&body), ..NOBODY };
        let one = split(format!(r#"{{"c":1,"a":{a},"b":{b}}}"#));
        let other = split(format!(r#"{{"b":{b},"a":{a},"c":1}}"#));
        prop_assert_eq!(decide(&one, &caller, b""), decide(&other, &caller, b""));
    }
}
