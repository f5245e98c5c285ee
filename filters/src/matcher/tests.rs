use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use super::{Matcher, Rule};
use crate::facts;
use crate::route::Route;
use crate::rules::Request;
use crate::rules::problem::{Place, Problems};

/// What is wrong with a match, and what it compiles to.
fn compile(rule: Value) -> (Matcher, Vec<String>) {
    let rule: Rule = serde_json::from_value(rule).unwrap();
    let mut problems = Problems::default();
    let matcher = Matcher::compile(&rule, Place::Rules.key("match"), &mut problems);
    let problems = problems
        .into_vec()
        .iter()
        .map(ToString::to_string)
        .collect();
    (matcher, problems)
}

/// Holds `POST /v1/chat/completions` against a match.
fn check(rule: Value, headers: &[(&'static str, &[u8])], body: Option<&str>, fits: bool) {
    let (matcher, problems) = compile(rule.clone());
    assert_eq!(problems, [""; 0], "{rule}");
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            let value = HeaderValue::from_bytes(value).unwrap();
            (HeaderName::from_static(name), value)
        })
        .collect();
    let body = body.map(|body| facts::scan(body.as_bytes(), &[]).unwrap());
    let path = "/v1/chat/completions";
    let request = Request {
        method: &Method::POST,
        path,
        route: Route::of(path),
        headers: &headers,
        body: body.as_ref(),
        client: None,
        trusted: false,
    };
    assert_eq!(matcher.fits(&request), fits, "{rule}");
}

#[test]
fn fields_are_joined_by_and_and_values_by_or() {
    check(json!({}), &[], None, true);
    check(
        json!({ "paths": ["/v1/chat/completions"] }),
        &[],
        None,
        true,
    );
    check(
        json!({ "paths": ["/v1/completions", "/v1/chat/*"] }),
        &[],
        None,
        true,
    );
    check(json!({ "paths": ["/v1/completions"] }), &[], None, false);
    check(json!({ "paths": ["/v1/chat"] }), &[], None, false);
    check(
        json!({ "paths": ["*"], "methods": ["GET", "POST"] }),
        &[],
        None,
        true,
    );
    check(
        json!({ "paths": ["*"], "methods": ["GET"] }),
        &[],
        None,
        false,
    );
    check(
        json!({ "paths": ["/x"], "methods": ["POST"] }),
        &[],
        None,
        false,
    );
}

#[test]
fn a_regular_expression_is_searched_for() {
    check(json!({ "paths": ["~chat"] }), &[], None, true);
    check(json!({ "paths": ["~^chat"] }), &[], None, false);
    check(
        json!({ "paths": ["~^/v[0-9]+/(chat/)?completions$"] }),
        &[],
        None,
        true,
    );
    check(json!({ "paths": [r"~\*"] }), &[], None, false);
}

#[test]
fn any_of_the_lines_of_a_header_may_fit() {
    let lines: &[(&'static str, &[u8])] = &[
        ("x-tier", b"free"),
        ("x-tier", b"gold-2"),
        ("x-raw", b"\xff\xfe"),
    ];
    check(
        json!({ "headers": { "X-Tier": ["gold*"] } }),
        lines,
        None,
        true,
    );
    check(
        json!({ "headers": { "x-tier": ["gold"] } }),
        lines,
        None,
        false,
    );
    check(
        json!({ "headers": { "x-tier": ["*"], "x-none": ["*"] } }),
        lines,
        None,
        false,
    );
    check(json!({ "headers": { "x-raw": ["*"] } }), lines, None, true);
    // What is not UTF-8 fits no regular expression.
    check(json!({ "headers": { "x-raw": ["~"] } }), lines, None, false);
}

#[test]
fn a_long_text_is_kept_from_regular_expressions() {
    let (longest, longer) = ([b'a'; 8192], [b'a'; 8193]);
    check(
        json!({ "headers": { "x": ["~a$"] } }),
        &[("x", &longest)],
        None,
        true,
    );
    check(
        json!({ "headers": { "x": ["~a$"] } }),
        &[("x", &longer)],
        None,
        false,
    );
    check(
        json!({ "headers": { "x": ["a*"] } }),
        &[("x", &longer)],
        None,
        true,
    );
}

#[test]
fn a_body_that_was_not_read_says_nothing() {
    let body = Some(r#"{"model":"llama-8b","stream":true}"#);
    check(
        json!({ "models": ["llama*"], "stream": true }),
        &[],
        body,
        true,
    );
    check(
        json!({ "models": ["llama*"], "stream": false }),
        &[],
        body,
        false,
    );
    check(json!({ "models": ["~^qwen"] }), &[], body, false);
    check(json!({ "models": ["*"] }), &[], Some("{}"), false);
    check(json!({ "stream": false }), &[], Some("{}"), true);
    check(json!({ "stream": false }), &[], None, false);
    check(json!({ "models": ["*"] }), &[], None, false);
}

#[test]
fn what_could_never_fit_is_a_problem() {
    let check = |rule: Value, expected: &[&str]| {
        let (_, problems) = compile(rule.clone());
        assert_eq!(problems.len(), expected.len(), "{rule}: {problems:?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{problem}");
        }
    };
    check(
        json!({ "paths": [] }),
        &["rules.match.paths: no value is given"],
    );
    check(
        json!({ "paths": ["a*b", "ok", "~("], "methods": ["post"] }),
        &[
            "rules.match.paths[0]: a \"*\" stands only at the end of a value; found \"a*b\"",
            "rules.match.paths[2]: \"(\" is no regular expression: ",
            "rules.match.methods[0]: methods are written in upper case; found \"post\"",
        ],
    );
    check(
        json!({ "headers": { "x y": ["1"], "X-A": [], "x-a": ["1"] } }),
        &[
            "rules.match.headers.X-A: no value is given",
            "rules.match.headers[\"x y\"]: \"x y\" is no header name",
            "rules.match.headers.x-a: the header is written twice",
        ],
    );
    check(
        json!({ "models": ["~(((a{100}){100}){100}){100}"] }),
        &["rules.match.models[0]: "],
    );
}

#[test]
fn a_match_of_everything_is_known_as_such() {
    let check = |rule: Value, everything: bool| {
        let rule: Rule = serde_json::from_value(rule).unwrap();
        assert_eq!(rule.is_everything(), everything, "{rule:?}");
    };
    check(json!({}), true);
    check(
        json!({ "paths": ["/v1/x", "*"], "methods": ["*"], "headers": {} }),
        true,
    );
    check(json!({ "paths": ["/*"] }), false);
    check(json!({ "headers": { "x": ["*"] } }), false);
    check(json!({ "models": ["*"] }), false);
    check(json!({ "stream": true }), false);
}
