use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Instead, RetryOn};
use crate::route::Route;
use crate::rules::{Decision, EngineId, How, Request, Rules, Ruleset, compile};

fn rules(keys: &Value) -> Rules {
    let mut split = json!({
        "name": "s",
        "weights": { "a": 2, "b": 1, "c": 1, "spare": 0 },
        "sticky": [{ "header": "x-user-id" }],
        "force": { "header": "x-gray" },
    });
    for (key, value) in keys.as_object().unwrap() {
        split[key] = value.clone();
    }
    let engine = |name: &str| json!({ "kind": "vllm", "url": format!("http://{name}") });
    serde_json::from_value(json!({
        "engines": {
            "a": engine("a"), "b": engine("b"), "c": engine("c"), "spare": engine("spare"),
        },
        "default_engine": "a",
        "splits": [split],
    }))
    .unwrap()
}

fn ruleset(keys: Value) -> Ruleset {
    compile(&rules(&keys)).unwrap()
}

fn decide(ruleset: &Ruleset, fields: &[(&'static str, &str)], path: &str) -> Decision {
    let headers: HeaderMap = fields
        .iter()
        .map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (http::HeaderName::from_static(name), value)
        })
        .collect();
    let request = Request {
        method: &Method::POST,
        path,
        route: Route::of(path),
        headers: &headers,
        body: None,
        client: None,
        trusted: true,
    };
    ruleset.decide(&request, |_| true, 1, b"id")
}

const CHAT: &str = "/v1/chat/completions";

fn user(ruleset: &Ruleset, user: &str) -> Decision {
    decide(ruleset, &[("x-user-id", user)], CHAT)
}

fn name(ruleset: &Ruleset, engine: EngineId) -> &str {
    &ruleset.engines()[engine.index()].name
}

#[test]
fn a_split_whose_engines_are_all_down_counts_them_as_up() {
    for keys in [json!({}), json!({ "on_unhealthy": "fail" })] {
        let ruleset = ruleset(keys);
        let decision = user(&ruleset, "u");
        assert_eq!(ruleset.instead(&decision, |_| false), Instead::Stay);
        // An engine of weight 0 takes nobody's place.
        let only_spare = |engine: EngineId| name(&ruleset, engine) == "spare";
        assert_eq!(ruleset.instead(&decision, only_spare), Instead::Stay);
    }
}

#[test]
fn fail_answers_where_fallback_would_have_gone_elsewhere() {
    let ruleset = ruleset(json!({ "on_unhealthy": "fail" }));
    let decision = user(&ruleset, "u");
    let others = |engine| engine != decision.engine;
    assert_eq!(ruleset.instead(&decision, others), Instead::Fail);
    let next = ruleset.next(&decision, decision.engine, RetryOn::Connect, others);
    assert_eq!(next, None);
}

#[test]
fn forced_requests_fall_back_too_and_the_default_engine_does_not() {
    let ruleset = ruleset(json!({}));
    let forced = decide(&ruleset, &[("x-gray", "spare")], CHAT);
    assert_eq!(forced.how, How::Forced);
    let up = |engine: EngineId| matches!(name(&ruleset, engine), "b");
    let Instead::To(engine) = ruleset.instead(&forced, up) else {
        panic!("b is up");
    };
    assert_eq!(name(&ruleset, engine), "b");
    let other = decide(&ruleset, &[], "/v1/models");
    assert_eq!(other.how, How::Default);
    assert_eq!(ruleset.instead(&other, up), Instead::Stay);
    let next = ruleset.next(&other, other.engine, RetryOn::Connect, up);
    assert_eq!(next, None);
}

#[test]
fn an_exchange_in_hand_goes_on_for_what_the_split_names() {
    let check = |keys: Value, connect: bool, busy: bool| {
        let ruleset = ruleset(keys.clone());
        let decision = user(&ruleset, "u");
        for (on, expected) in [(RetryOn::Connect, connect), (RetryOn::Busy, busy)] {
            let next = ruleset.next(&decision, decision.engine, on, |_| true);
            assert_eq!(next.is_some(), expected, "{keys} {on:?}");
            assert_ne!(next, Some(decision.engine));
        }
    };
    check(json!({}), true, false);
    check(json!({ "retry_on": [] }), false, false);
    check(json!({ "retry_on": [503] }), false, true);
    check(json!({ "retry_on": ["connect", "503"] }), true, true);
    check(
        json!({ "weights": { "a": 1 }, "retry_on": ["connect", 503] }),
        false,
        false,
    );
}

#[test]
fn with_all_others_down_one_of_them_is_tried_all_the_same() {
    let ruleset = ruleset(json!({}));
    let decision = user(&ruleset, "u");
    let next = |is_up: &dyn Fn(EngineId) -> bool| {
        ruleset.next(&decision, decision.engine, RetryOn::Connect, is_up)
    };
    assert_eq!(next(&|_| false), next(&|_| true));
}

#[test]
fn what_does_not_fit_is_a_problem() {
    let check = |keys: Value, path: &str| {
        let problems = compile(&rules(&keys)).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].path, path);
    };
    check(
        json!({ "retry_on": ["connect", "connect"] }),
        "rules.splits[0].retry_on[1]",
    );
    check(
        json!({ "on_unhealthy": "fail", "retry_on": [503] }),
        "rules.splits[0].retry_on",
    );
    for bad in [json!(["timeout"]), json!([500]), json!([-1]), json!(503)] {
        assert!(serde_json::from_value::<Vec<RetryOn>>(bad).is_err());
    }
}

proptest! {
    // Taking an engine down moves its own users and nobody else's, to where they would go if its weight were 0.
    #[test]
    fn the_same_hash_chooses_next(id in "[a-z0-9]{1,12}", down in 0_usize..3) {
        let weights = |down: Option<usize>| {
            let weight = |place: usize, weight: u32| if down == Some(place) { 0 } else { weight };
            json!({ "weights": { "a": weight(0, 2), "b": weight(1, 1), "c": weight(2, 1) } })
        };
        let (all, rest) = (ruleset(weights(None)), ruleset(weights(Some(down))));
        let decision = user(&all, &id);
        let expected = user(&rest, &id).engine;
        if decision.engine.index() == down {
            let is_up = |engine: EngineId| engine.index() != down;
            prop_assert_eq!(all.instead(&decision, is_up), Instead::To(expected));
            let next = all.next(&decision, decision.engine, RetryOn::Connect, |_| true);
            prop_assert_eq!(next, Some(expected));
        } else {
            prop_assert_eq!(decision.engine, expected);
        }
    }
}
