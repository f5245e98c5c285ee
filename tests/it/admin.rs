//! The rules through the admin API.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::harness::{Answer, Greylag};
use crate::talk::{Talk, ask};

/// What a PUT needs.
pub const JSON: &str = "content-type: application/json";
/// Rules of one engine that is not there.
pub const DEAD: &str =
    "engines: { stable: { kind: vllm, url: \"http://127.0.0.1:9\" } }\ndefault_engine: stable";

pub fn get(address: SocketAddr, target: &str) -> Answer {
    ask(address, "GET", target, &[], "")
}

pub fn put(address: SocketAddr, target: &str, fields: &[&str], body: &str) -> Answer {
    ask(address, "PUT", target, fields, body)
}

/// Holds an answer to be a problem document of this code; returns its detail.
pub fn problem(answer: &Answer, status: u16, code: &str) -> String {
    let json = answer.json();
    assert_eq!(answer.status, status, "{json}");
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(
        json["type"],
        format!("urn:greylag:problem:{code}"),
        "{json}"
    );
    assert_eq!(json["status"], status);
    assert!(
        json["title"]
            .as_str()
            .is_some_and(|title| !title.is_empty())
    );
    json["detail"].as_str().unwrap().to_owned()
}

#[test]
fn the_rules_are_shown_as_they_are_written() {
    let greylag = Greylag::start(DEAD);
    let answer = get(greylag.app().admin, "/v1/rules");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-greylag-rules-version"), Some("1"));
    assert_eq!(answer.header("x-greylag-rules-hash").unwrap().len(), 16);
    let tag = answer.header("etag").unwrap();
    assert!(tag.starts_with('"') && tag.ends_with("-1\""), "{tag}");
    assert_eq!(
        answer.json()["engines"]["stable"]["url"],
        "http://127.0.0.1:9"
    );
    assert_eq!(answer.json()["default_engine"], "stable");

    // What is shown can be sent back, and is the same.
    let again = put(greylag.app().admin, "/v1/rules", &[JSON], &answer.text());
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(
        again.header("x-greylag-rules-hash"),
        answer.header("x-greylag-rules-hash")
    );
}

#[test]
fn a_get_changes_nothing() {
    let greylag = Greylag::start(DEAD);
    let before = get(greylag.app().admin, "/v1/rules");
    for target in [
        "/v1/rules?dry_run=true",
        "/v1/rules",
        "/v1/exchanges",
        "/v1/exchanges/x",
        "/nothing",
    ] {
        let body = before.text().replace("stable", "other");
        ask(greylag.app().admin, "GET", target, &[JSON], &body);
    }
    let head = ask(greylag.app().admin, "HEAD", "/v1/rules", &[], "");
    assert_eq!(
        (head.status, head.header("etag")),
        (200, before.header("etag"))
    );
    let after = get(greylag.app().admin, "/v1/rules");
    assert_eq!(after.header("etag"), before.header("etag"));
    assert_eq!(after.body, before.body);
}

#[test]
fn a_put_is_refused_when_other_rules_are_in_force_by_now() {
    let greylag = Greylag::start(DEAD);
    let first = get(greylag.app().admin, "/v1/rules");
    let rules = &first.text();
    let tag = format!("if-match: {}", first.header("etag").unwrap());

    let second = put(greylag.app().admin, "/v1/rules", &[JSON, &tag], rules);
    assert_eq!(second.status, 200, "{}", second.text());
    let expected = json!({
        "version": 2, "hash": first.header("x-greylag-rules-hash"), "dry_run": false, "diff": { "changes": [] }
    });
    assert_eq!(second.json(), expected);
    assert_ne!(second.header("etag"), first.header("etag"));

    let late = put(greylag.app().admin, "/v1/rules", &[JSON, &tag], rules);
    let detail = problem(&late, 412, "conflict");
    assert!(detail.contains(second.header("etag").unwrap()), "{detail}");
    let nonsense = put(
        greylag.app().admin,
        "/v1/rules",
        &[JSON, "if-match: 2"],
        rules,
    );
    problem(&nonsense, 412, "conflict");
    assert_eq!(
        get(greylag.app().admin, "/v1/rules").header("etag"),
        second.header("etag")
    );

    // Without the field, and with a star, the last writer wins.
    assert_eq!(
        put(greylag.app().admin, "/v1/rules", &[JSON], rules).json()["version"],
        3
    );
    let any = put(
        greylag.app().admin,
        "/v1/rules",
        &[JSON, "if-match: *"],
        rules,
    );
    assert_eq!(any.json()["version"], 4);

    let page = get(greylag.app().observe, "/metrics");
    for line in [
        "greylag_rules_version 4",
        "greylag_rules_reload_total{result=\"ok\"} 3",
        "greylag_rules_reload_total{result=\"conflict\"} 2",
    ] {
        assert!(
            page.text().lines().any(|found| found == line),
            "{line} is not in {}",
            page.text()
        );
    }
}

#[test]
fn a_dry_run_says_what_would_be_and_changes_nothing() {
    let greylag = Greylag::start(DEAD);
    let first = get(greylag.app().admin, "/v1/rules");
    let changed = first
        .text()
        .replace("http://127.0.0.1:9", "http://127.0.0.1:10");
    let tried = put(
        greylag.app().admin,
        "/v1/rules?dry_run=true",
        &[JSON],
        &changed,
    );
    assert_eq!(tried.status, 200, "{}", tried.text());
    assert_eq!(
        (&tried.json()["version"], &tried.json()["dry_run"]),
        (&json!(2), &json!(true))
    );
    assert_ne!(
        tried.json()["hash"],
        first.header("x-greylag-rules-hash").unwrap()
    );
    assert_eq!(tried.header("etag"), first.header("etag"));

    let stale = put(
        greylag.app().admin,
        "/v1/rules?dry_run=true",
        &[JSON, "if-match: \"0-0\""],
        &changed,
    );
    problem(&stale, 412, "conflict");
    let bad = changed.replace(
        "\"default_engine\":\"stable\"",
        "\"default_engine\":\"none\"",
    );
    problem(
        &put(greylag.app().admin, "/v1/rules?dry_run=true", &[JSON], &bad),
        422,
        "invalid_rules",
    );

    assert_eq!(get(greylag.app().admin, "/v1/rules").body, first.body);
    // What the dry run said comes true.
    let done = put(
        greylag.app().admin,
        "/v1/rules?dry_run=false",
        &[JSON],
        &changed,
    );
    assert_eq!(done.json()["hash"], tried.json()["hash"]);
}

#[test]
fn what_is_not_rules_is_refused_with_what_was_found_and_what_is_allowed() {
    let greylag = Greylag::start(DEAD);
    let first = get(greylag.app().admin, "/v1/rules");
    let refused =
        |target: &str, fields: &[&str], body: &str, status: u16, code: &str, part: &str| {
            let answer = put(greylag.app().admin, target, fields, body);
            let detail = problem(&answer, status, code);
            assert!(detail.contains(part), "{detail}");
            answer.json()
        };
    let rules = &first.text();
    refused("/v1/rules", &[], rules, 415, "not_json", "application/json");
    refused(
        "/v1/rules",
        &["content-type: text/plain"],
        rules,
        415,
        "not_json",
        "\"text/plain\"",
    );
    refused(
        "/v1/rules",
        &["content-type: application/jsonx"],
        rules,
        415,
        "not_json",
        "jsonx",
    );
    refused(
        "/v1/rules?dry-run=true",
        &[JSON],
        rules,
        400,
        "bad_query",
        "allowed: dry_run",
    );
    refused(
        "/v1/rules?dry_run=yes",
        &[JSON],
        rules,
        400,
        "bad_query",
        "true and false",
    );
    refused(
        "/v1/rules?dry_run=true&dry_run=true",
        &[JSON],
        rules,
        400,
        "bad_query",
        "twice",
    );
    let large = format!("{rules}{}", " ".repeat(1 << 20));
    refused(
        "/v1/rules",
        &[JSON],
        &large,
        413,
        "body_too_large",
        "1048576 bytes",
    );

    let json = refused(
        "/v1/rules",
        &[JSON],
        "{\n  \"engine\": {} }",
        400,
        "bad_json",
        "unknown field `engine`",
    );
    assert_eq!((&json["line"], &json["column"]), (&json!(2), &json!(10)));
    refused(
        "/v1/rules",
        &[JSON],
        "{",
        400,
        "bad_json",
        "line 1, column 1: EOF",
    );
    refused("/v1/rules", &[JSON], "", 400, "bad_json", "EOF");
    refused(
        "/v1/rules",
        &[JSON],
        &format!("{rules}x"),
        400,
        "bad_json",
        "trailing characters",
    );
    refused(
        "/v1/rules",
        &[JSON],
        &"[".repeat(10_000),
        400,
        "bad_json",
        "line 1",
    );
    let weight = rules.replace(
        "\"default_engine\"",
        "\"splits\":[{\"name\":\"s\",\"weights\":{\"stable\":-1}}],\"default_engine\"",
    );
    refused(
        "/v1/rules",
        &[JSON],
        &weight,
        400,
        "bad_json",
        "0 to 1000000; found -1",
    );

    let bad = json!({
        "engines": { "stable": { "kind": "vllm", "url": "http://a", "timeouts": { "idle": "0s" } } },
        "default_engine": "other",
        "splits": [{ "name": "s", "weights": { "candidate": 1 } }],
    });
    let json = refused(
        "/v1/rules",
        &[JSON],
        &bad.to_string(),
        422,
        "invalid_rules",
        "3 problems",
    );
    let paths: Vec<&Value> = json["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| &problem["path"])
        .collect();
    let expected = [
        "rules.engines.stable.timeouts.idle",
        "rules.default_engine",
        "rules.splits[0].weights.candidate",
    ];
    assert_eq!(paths, expected);
    let what = json["problems"][1]["what"].as_str().unwrap();
    assert_eq!(
        what,
        "engine \"other\" is not defined (defined: \"stable\")"
    );

    assert_eq!(
        get(greylag.app().admin, "/v1/rules").header("etag"),
        first.header("etag")
    );
    let page = get(greylag.app().observe, "/metrics");
    let line = "greylag_rules_reload_total{result=\"invalid\"} 11";
    assert!(page.text().contains(line), "{}", page.text());
}

#[test]
fn a_body_that_is_chunked_and_too_long_is_refused_too() {
    let greylag = Greylag::start(DEAD);
    let mut client = Talk::with(greylag.app().admin);
    client.send(format!(
        "PUT /v1/rules HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\n"
    ));
    // One byte more than is read; the rest of the chunk is never sent, so nothing is left to be reset.
    client.send(format!("{:x}\r\n{}", 2 << 20, " ".repeat((1 << 20) + 1)));
    problem(&client.answer(), 413, "body_too_large");
}
