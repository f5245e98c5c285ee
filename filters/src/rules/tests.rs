use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{How, Request, Rules, compile, fuzz_rules_json};
use crate::facts;
use crate::route::Route;

/// Every key of the rules, none with its default.
const FULL: &str = r#"
engines:
  stable: { kind: vllm, url: "http://127.0.0.1:8100" }
  candidate:
    kind: sglang
    url: "http://[::1]"
    tag: v2-canary
    set: { model: llama-3.1-8b-v2, temperature: 0, stop: [a, null], extra: { x: 0.5 } }
    usage: inject
    host: engine
    timeouts: { connect: 1s, first_byte: 1m30s, idle: 500ms, total: 1h }
  "123": { kind: openai, url: "http://other.svc:80" }
default_engine: stable
splits:
  - name: chat
    match:
      paths: ["/v1/chat/*"]
      methods: [POST]
      headers: { x-tier: ["gold", "~^silver"] }
      models: [llama*]
      stream: true
    weights: { stable: 90, candidate: 10 }
    sticky: [{ header: x-user-id }, { body: user }, client_ip]
    force: { header: x-gray-strategy }
    salt: 2026-11
  - { name: rest, weights: { candidate: 0, 123: 1 }, sticky: [{ body: session }, { body: user }] }
traffic: { test: { header: x-class, value: load } }
trace: { inject: false, share: 12.5% }
routes: { /invocations: chat, "/apps/*": json }
"#;

fn yaml(text: &str) -> Result<Rules, String> {
    serde_saphyr::from_str(text).map_err(|fault| fault.to_string())
}

#[test]
fn yaml_and_json_say_the_same() {
    let rules = yaml(FULL).unwrap();
    let printed = serde_json::to_string(&rules).unwrap();
    let again: Rules = serde_json::from_str(&printed).unwrap();
    assert_eq!(rules, again);
    let names: Vec<_> = again.engines.keys().map(super::Name::as_str).collect();
    assert_eq!(names, ["stable", "candidate", "123"]);
    let (one, other) = (compile(&rules).unwrap(), compile(&again).unwrap());
    assert_eq!(one.hash(), other.hash());
    assert_eq!(one.wanted_body_keys(), ["user", "session"].map(Box::from));
    let candidate = &one.engines()[1];
    assert_eq!(
        (&*candidate.name, &*candidate.tag),
        ("candidate", "v2-canary")
    );
    assert_eq!(candidate.address.authority(), "[::1]:80");
    let set: Vec<_> = candidate
        .set
        .iter()
        .map(|(key, json)| (&**key, str::from_utf8(json).unwrap()))
        .collect();
    assert_eq!(
        set,
        [
            ("model", r#""llama-3.1-8b-v2""#),
            ("temperature", "0"),
            ("stop", r#"["a",null]"#),
            ("extra", r#"{"x":0.5}"#),
        ]
    );
    assert_eq!(candidate.timeouts.total.unwrap().as_secs(), 3600);
}

#[test]
fn what_is_left_out_has_its_default() {
    let least = json!({
        "engines": { "a": { "kind": "vllm", "url": "http://a:80" } },
        "default_engine": "a",
    });
    let rules: Rules = serde_json::from_value(least.clone()).unwrap();
    let printed = serde_json::to_value(&rules).unwrap();
    assert_eq!(
        printed,
        json!({
            "engines": { "a": {
                "kind": "vllm", "url": "http://a:80", "usage": "pass", "host": "keep",
                "timeouts": { "connect": "5s", "first_byte": "10m", "idle": "2m" },
                "pool": { "idle": 1024, "idle_for": "4s", "streams": 100 },
                "health": { "interval": "5s", "timeout": "3s" },
            } },
            "default_engine": "a",
            "traffic": { "test": { "header": "x-traffic-class", "value": "test" } },
            "trace": {
                "inject": true, "share": "1%", "max_per_second": 20,
                "always": ["error", "fault", "slow"], "slow": "5s",
            },
        })
    );
    let written_out: Rules = serde_json::from_value(printed).unwrap();
    assert_eq!(
        compile(&rules).unwrap().hash(),
        compile(&written_out).unwrap().hash()
    );
    let mut other = least;
    other["engines"]["a"]["url"] = "http://a:81".into();
    let other: Rules = serde_json::from_value(other).unwrap();
    assert_ne!(
        compile(&rules).unwrap().hash(),
        compile(&other).unwrap().hash()
    );
}

/// Replaces a part of the full rules and reads both as YAML and, printed, as JSON.
fn check_unreadable(part: &str, by: &str, expected: &[&str]) {
    assert!(FULL.contains(part), "{part}");
    let fault = yaml(&FULL.replacen(part, by, 1)).unwrap_err();
    for expected in expected {
        assert!(fault.contains(expected), "{by}: {fault}");
    }
}

#[test]
fn a_slip_in_yaml_is_named_with_its_line() {
    check_unreadable(
        "12.5%",
        "0.125",
        &[
            "a share is written in per cent",
            "found the number 0.125",
            "line 28",
        ],
    );
    check_unreadable(
        "connect: 1s",
        "connect: 1",
        &["a duration needs a unit", "found the number 1", "line 11"],
    );
    check_unreadable(
        "connect: 1s",
        "conect: 1s",
        &["unknown field", "conect", "first_byte", "line 11"],
    );
    check_unreadable(
        "candidate: 10 }",
        "candidate: 1.5 }",
        &["a whole number from 0 to 1000000; found 1.5"],
    );
    check_unreadable(
        "candidate: 10 }",
        "candidate: -1 }",
        &["from 0 to 1000000; found -1"],
    );
    check_unreadable(
        "candidate: 10 }",
        "candidate: 10% }",
        &["from 0 to 1000000; found the text \"10%\""],
    );
    check_unreadable("candidate: 10 }", "stable: 10 }", &["stable"]);
    check_unreadable("  candidate:\n", "  stable:\n", &["stable"]);
    check_unreadable(
        "http://[::1]",
        "ftp://x",
        &["found \"ftp://x\"", "http://HOST:PORT"],
    );
    check_unreadable("kind: sglang", "kind: tgi", &["tgi", "sglang"]);
    check_unreadable("client_ip]", "client]", &["client", "client_ip"]);
    check_unreadable(
        "{ body: user }",
        "{ cookie: user }",
        &["cookie", "client_ip"],
    );
    check_unreadable(
        "v2-canary",
        "\"v2 canary\"",
        &["a tag is 1 to 64 visible ASCII characters"],
    );
    check_unreadable(
        "name: chat",
        "name: chat room",
        &["a name is 1 to 64 letters"],
    );
    check_unreadable("x: 0.5", "x: .nan", &[".nan"]);
    check_unreadable(
        "default_engine: stable\n",
        "",
        &["missing field", "default_engine"],
    );
}

#[test]
fn all_problems_are_named_at_once() {
    let rules = yaml(
        r#"
engines:
  a: { kind: vllm, url: "http://a", tag: b }
  b: { kind: vllm, url: "http://b", set: { n: 2, "": 1, model: m } }
  c: { kind: vllm, url: "http://c", tag: x, timeouts: { idle: 0s, total: 400d } }
  d: { kind: vllm, url: "http://d", tag: x, pool: { requests: 0, idle_for: 1500ms, streams: 0 } }
  e: { kind: vllm, url: "http://e", tag: e }
default_engine: f
splits:
  - { name: one, match: { paths: [/x] }, weights: { a: 0, b: 0 } }
  - { name: two, match: { paths: [/x] }, weights: { z: 1 }, force: { header: "a b" } }
  - { name: all, match: { methods: ["*"] }, weights: { a: 1 }, sticky: [client_ip, client_ip, { header: "" }, { body: "" }] }
  - { name: one, match: { models: ["~["] }, weights: {} }
traffic: { test: { header: "", value: " x" } }
"#,
    )
    .unwrap();
    let problems = compile(&rules).unwrap_err();
    let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let expected = [
        r#"rules.engines.a.tag: "b" is the name of another engine"#,
        r#"rules.engines.b.set.n: "n" may not be set, since that would change what the meter measures (not allowed: "stream", "stream_options", "messages", "prompt", "n")"#,
        r#"rules.engines.b.set[""]: a field of the body has a name of at least one character; found none"#,
        "rules.engines.c.timeouts.idle: a timeout is longer than 0s and at most 365d; found 0s",
        "rules.engines.c.timeouts.total: a timeout is longer than 0s and at most 365d; found 400d",
        "rules.engines.d.pool.requests: found 0, with which the engine would never be asked; at least 1 is needed, or none for no limit",
        "rules.engines.d.pool.idle_for: found 1s500ms; whole seconds are allowed, from 0s to 1h",
        "rules.engines.d.pool.streams: found 0; 1 to 10000 are allowed",
        r#"rules.engines.d.tag: "x" is the tag of engine "c" too"#,
        r#"rules.default_engine: engine "f" is not defined (defined: "a", "b", "c", "d", "e")"#,
        "rules.splits[0].weights: all weights are zero; at least one must be above 0",
        r#"rules.splits[1]: it can never be reached, since split "one" before it takes all that it matches"#,
        r#"rules.splits[1].weights.z: engine "z" is not defined (defined: "a", "b", "c", "d", "e")"#,
        r#"rules.splits[1].force.header: "a b" is no header name"#,
        "rules.splits[2].sticky[1]: the key is written twice",
        r#"rules.splits[2].sticky[2].header: "" is no header name"#,
        "rules.splits[2].sticky[3].body: a field of the body has a name",
        r#"rules.splits[3].name: "one" is the name of an earlier split"#,
        r#"rules.splits[3]: it can never be reached, since split "all" before it"#,
        r#"rules.splits[3].match.models[0]: "[" is no regular expression"#,
        "rules.splits[3].weights: no engine is listed",
        r#"rules.traffic.test.header: "" is no header name"#,
        r#"rules.traffic.test.value: a mark is visible text without spaces at its ends; found " x""#,
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            found.starts_with(expected),
            "found    {found}\nexpected {expected}"
        );
    }
}

#[test]
fn the_first_split_that_fits_decides() {
    let rules = yaml(
        r#"
engines:
  a: { kind: vllm, url: "http://a" }
  b: { kind: vllm, url: "http://b" }
  c: { kind: vllm, url: "http://c" }
default_engine: a
splits:
  - { name: gold, match: { headers: { x-tier: [gold] } }, weights: { b: 1 } }
  - { name: llama, match: { models: [llama*] }, weights: { c: 1 } }
"#,
    )
    .unwrap();
    let ruleset = compile(&rules).unwrap();
    let check =
        |tier: &'static str, model: &str, path: &str, engine: usize, split: Option<usize>| {
            let mut headers = HeaderMap::new();
            headers.insert("x-tier", HeaderValue::from_static(tier));
            let body = json!({ "model": model }).to_string();
            let body = facts::scan(body.as_bytes(), ruleset.wanted_body_keys()).unwrap();
            let request = Request {
                method: &Method::POST,
                path,
                route: Route::of(path),
                headers: &headers,
                body: Some(&body),
                client: None,
                trusted: false,
            };
            let decision = ruleset.decide(&request, |_| true, 1, b"id");
            assert_eq!((decision.engine.index(), decision.split), (engine, split));
            let how = if split.is_some() {
                How::Draw
            } else {
                How::Default
            };
            assert_eq!(decision.how, how);
        };
    let chat = "/v1/chat/completions";
    check("gold", "llama-8b", chat, 1, Some(0));
    check("free", "llama-8b", chat, 2, Some(1));
    check("free", "qwen", chat, 0, None);
    check("gold", "llama-8b", "/v1/models", 0, None);
}

#[test]
fn no_engine_is_a_problem() {
    let rules: Rules =
        serde_json::from_value(json!({ "engines": {}, "default_engine": "a" })).unwrap();
    let problems = compile(&rules).unwrap_err();
    let found: Vec<_> = problems
        .iter()
        .map(|problem| problem.path.as_str())
        .collect();
    assert_eq!(found, ["rules.engines", "rules.default_engine"]);
}

#[test]
fn the_schema_says_what_is_allowed() {
    let schema = serde_json::to_value(schemars::schema_for!(Rules)).unwrap();
    let at = |path: &str| {
        schema
            .pointer(path)
            .unwrap_or_else(|| panic!("no {path} in {schema:#}"))
    };
    assert_eq!(at("/additionalProperties"), false);
    assert_eq!(at("/required"), &json!(["engines", "default_engine"]));
    assert_eq!(at("/properties/engines/type"), "object");
    assert_eq!(
        at("/properties/engines/additionalProperties/$ref"),
        "#/$defs/Engine"
    );
    assert_eq!(at("/properties/engines/propertyNames/$ref"), "#/$defs/Name");
    assert_eq!(at("/$defs/Name/pattern"), "^[A-Za-z0-9._-]{1,64}$");
    assert_eq!(at("/$defs/Share/type"), "string");
    assert_eq!(at("/$defs/Share/examples"), &json!(["10%"]));
    assert_eq!(at("/$defs/Period/type"), "string");
    assert_eq!(at("/$defs/Timeouts/properties/idle/default"), "2m");
    assert_eq!(at("/$defs/Weight/maximum"), 1_000_000);
    let sticky = at("/$defs/Sticky/oneOf").as_array().unwrap();
    assert!(
        sticky.iter().any(|one| one["const"] == "client_ip"),
        "{sticky:?}"
    );
    assert!(
        sticky
            .iter()
            .any(|one| one["required"] == json!(["header"])),
        "{sticky:?}"
    );
    // The descriptions are the manual, so no field may lack one.
    let mut bare = Vec::new();
    let types = schema["$defs"].as_object().unwrap();
    for (name, of) in types.iter().chain([(&"Rules".to_owned(), &schema)]) {
        for (field, about) in of["properties"].as_object().into_iter().flatten() {
            if about.get("description").is_none() {
                bare.push(format!("{name}.{field}"));
            }
        }
    }
    assert_eq!(bare, [""; 0]);
}

#[test]
fn the_fuzz_function_passes_its_seeds() {
    fuzz_rules_json(b"");
    fuzz_rules_json(
        b"{\"engines\":{\"a\":{\"kind\":\"vllm\",\"url\":\"http://a\"}},\"default_engine\":\"a\"}",
    );
    let full = serde_json::to_vec(&yaml(FULL).unwrap()).unwrap();
    fuzz_rules_json(&full);
    // Cut anywhere, and with any one byte changed, it must be refused or hold.
    for place in 0..full.len() {
        fuzz_rules_json(&full[..place]);
        for byte in *b"0\"}~\xff" {
            let mut changed = full.clone();
            changed[place] = byte;
            fuzz_rules_json(&changed);
        }
    }
}

/// Rules with names and values from so small a choice that they often collide, miss and fit.
fn any_rules() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let value = || {
        prop::sample::select(vec![
            "*",
            "llama*",
            "a*b",
            "~^x",
            "~(",
            "",
            "POST",
            "/v1/chat/completions",
        ])
    };
    let header = || prop::sample::select(vec!["x-user", "X-User", "bad name", ""]);
    let period = || prop::sample::select(vec!["0s", "1ms", "5s", "400d", "9999999d"]);
    let engine = (
        prop::option::of(name()),
        prop::option::of(period()),
        prop::collection::btree_map("[a-n]{0,2}|stream", any::<i8>(), 0..3),
    )
        .prop_map(|(tag, total, set)| {
            let mut engine = json!({ "kind": "openai", "url": "http://e:1", "set": set });
            if let Some(tag) = tag {
                engine["tag"] = tag.into();
            }
            if let Some(total) = total {
                engine["timeouts"] = json!({ "total": total });
            }
            engine
        });
    let values = move || prop::option::of(prop::collection::vec(value(), 0..3));
    let fits = (values(), values(), values(), prop::option::of(prop::collection::btree_map(header(), prop::collection::vec(value(), 0..2), 0..3)), any::<Option<bool>>())
        .prop_map(|(paths, methods, models, headers, stream)| {
            json!({ "paths": paths, "methods": methods, "models": models, "headers": headers, "stream": stream })
        });
    let sticky = prop_oneof![
        header().prop_map(|name| json!({ "header": name })),
        "[a-c]?".prop_map(|key| json!({ "body": key })),
        Just(json!("client_ip")),
    ];
    let split = (
        name(),
        prop::option::of(fits),
        prop::collection::btree_map(name(), 0_u32..3, 0..4),
        prop::collection::vec(sticky, 0..3),
        prop::option::of(header()),
    )
        .prop_map(|(name, fits, weights, sticky, force)| {
            json!({
                "name": name, "match": fits, "weights": weights, "sticky": sticky,
                "force": force.map(|header| json!({ "header": header })),
            })
        });
    let path = prop::sample::select(vec!["/x", "/x*", "/*", "x", "/v1/messages"]);
    let dialect = prop::sample::select(vec!["chat", "json", "model_infer", ""]);
    let routes = prop::collection::btree_map(path, dialect, 0..2);
    (prop::collection::btree_map(name(), engine, 0..4), name(), prop::collection::vec(split, 0..4), routes).prop_map(
        |(engines, default_engine, splits, routes)| {
            json!({ "engines": engines, "default_engine": default_engine, "splits": splits, "routes": routes })
        },
    )
}

proptest! {
    #[test]
    fn any_rules_compile_or_say_why(rules in any_rules()) {
        let read: Rules = serde_json::from_value(rules.clone()).unwrap();
        if let Err(problems) = compile(&read) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(problem.path.starts_with("rules."), "{problem}");
                prop_assert!(!problem.what.ends_with('.'), "{problem}");
            }
        }
        fuzz_rules_json(rules.to_string().as_bytes());
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        fuzz_rules_json(&bytes);
    }
}

#[test]
fn a_rule_of_traces_that_makes_no_sense_is_named() {
    let rules: Rules = serde_json::from_value(json!({
        "engines": { "a": { "kind": "vllm", "url": "http://a:80" } },
        "default_engine": "a",
        "trace": { "max_per_second": 10_001, "slow": "0s", "always": ["slow", "error", "slow"] },
    }))
    .unwrap();
    let problems = compile(&rules).unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "rules.trace.max_per_second: found 10001, allowed are 0 to 10000",
            "rules.trace.slow: it is longer than 0s and at most 365d; found 0s",
            "rules.trace.always[2]: `slow` is there already",
        ]
    );
}
