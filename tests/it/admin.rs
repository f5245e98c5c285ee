//! The admin API and the observe listener.

use std::net::SocketAddr;

use greylag_sim::{Engine, Settings};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::harness::{Answer, Client, Greylag, ask, comes_true};

const JSON: &str = "content-type: application/json";
const DEAD: &str =
    "engines: { stable: { kind: vllm, url: \"http://127.0.0.1:9\" } }\ndefault_engine: stable";

fn get(address: SocketAddr, target: &str) -> Answer {
    ask(address, "GET", target, &[], "")
}

fn put(address: SocketAddr, target: &str, fields: &[&str], body: &str) -> Answer {
    ask(address, "PUT", target, fields, body)
}

// A problem document of this code; its detail is returned.
fn problem(answer: &Answer, status: u16, code: &str) -> String {
    let json = answer.json();
    assert_eq!(answer.status, status, "{json}");
    assert_eq!(
        answer.field("content-type"),
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
    let answer = get(greylag.admin(), "/v1/rules");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    assert_eq!(answer.field("x-greylag-rules-version"), Some("1"));
    assert_eq!(answer.field("x-greylag-rules-hash").unwrap().len(), 16);
    let tag = answer.field("etag").unwrap();
    assert!(tag.starts_with('"') && tag.ends_with("-1\""), "{tag}");
    assert_eq!(
        answer.json()["engines"]["stable"]["url"],
        "http://127.0.0.1:9"
    );
    assert_eq!(answer.json()["default_engine"], "stable");

    // What is shown can be sent back, and is the same.
    let again = put(greylag.admin(), "/v1/rules", &[JSON], answer.text());
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(
        again.field("x-greylag-rules-hash"),
        answer.field("x-greylag-rules-hash")
    );
}

#[test]
fn a_get_changes_nothing() {
    let greylag = Greylag::start(DEAD);
    let before = get(greylag.admin(), "/v1/rules");
    for target in [
        "/v1/rules?dry_run=true",
        "/v1/rules",
        "/v1/exchanges",
        "/v1/exchanges/x",
        "/nothing",
    ] {
        let body = before.text().replace("stable", "other");
        ask(greylag.admin(), "GET", target, &[JSON], &body);
    }
    let head = ask(greylag.admin(), "HEAD", "/v1/rules", &[], "");
    assert_eq!(
        (head.status, head.field("etag")),
        (200, before.field("etag"))
    );
    let after = get(greylag.admin(), "/v1/rules");
    assert_eq!(after.field("etag"), before.field("etag"));
    assert_eq!(after.body, before.body);
}

#[test]
fn a_put_is_refused_when_other_rules_are_in_force_by_now() {
    let greylag = Greylag::start(DEAD);
    let first = get(greylag.admin(), "/v1/rules");
    let rules = first.text();
    let tag = format!("if-match: {}", first.field("etag").unwrap());

    let second = put(greylag.admin(), "/v1/rules", &[JSON, &tag], rules);
    assert_eq!(second.status, 200, "{}", second.text());
    let expected =
        json!({ "version": 2, "hash": first.field("x-greylag-rules-hash"), "dry_run": false });
    assert_eq!(second.json(), expected);
    assert_ne!(second.field("etag"), first.field("etag"));

    let late = put(greylag.admin(), "/v1/rules", &[JSON, &tag], rules);
    let detail = problem(&late, 412, "conflict");
    assert!(detail.contains(second.field("etag").unwrap()), "{detail}");
    let nonsense = put(greylag.admin(), "/v1/rules", &[JSON, "if-match: 2"], rules);
    problem(&nonsense, 412, "conflict");
    assert_eq!(
        get(greylag.admin(), "/v1/rules").field("etag"),
        second.field("etag")
    );

    // Without the field, and with a star, the last writer wins.
    assert_eq!(
        put(greylag.admin(), "/v1/rules", &[JSON], rules).json()["version"],
        3
    );
    let any = put(greylag.admin(), "/v1/rules", &[JSON, "if-match: *"], rules);
    assert_eq!(any.json()["version"], 4);

    let page = get(greylag.observe(), "/metrics");
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
    let first = get(greylag.admin(), "/v1/rules");
    let changed = first
        .text()
        .replace("http://127.0.0.1:9", "http://127.0.0.1:10");
    let tried = put(greylag.admin(), "/v1/rules?dry_run=true", &[JSON], &changed);
    assert_eq!(tried.status, 200, "{}", tried.text());
    assert_eq!(
        (&tried.json()["version"], &tried.json()["dry_run"]),
        (&json!(2), &json!(true))
    );
    assert_ne!(
        tried.json()["hash"],
        first.field("x-greylag-rules-hash").unwrap()
    );
    assert_eq!(tried.field("etag"), first.field("etag"));

    let stale = put(
        greylag.admin(),
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
        &put(greylag.admin(), "/v1/rules?dry_run=true", &[JSON], &bad),
        422,
        "invalid_rules",
    );

    assert_eq!(get(greylag.admin(), "/v1/rules").body, first.body);
    // What the dry run said comes true.
    let done = put(
        greylag.admin(),
        "/v1/rules?dry_run=false",
        &[JSON],
        &changed,
    );
    assert_eq!(done.json()["hash"], tried.json()["hash"]);
}

#[test]
fn what_is_not_rules_is_refused_with_what_was_found_and_what_is_allowed() {
    let greylag = Greylag::start(DEAD);
    let first = get(greylag.admin(), "/v1/rules");
    let refused =
        |target: &str, fields: &[&str], body: &str, status: u16, code: &str, part: &str| {
            let answer = put(greylag.admin(), target, fields, body);
            let detail = problem(&answer, status, code);
            assert!(detail.contains(part), "{detail}");
            answer.json()
        };
    let rules = first.text();
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
        get(greylag.admin(), "/v1/rules").field("etag"),
        first.field("etag")
    );
    let page = get(greylag.observe(), "/metrics");
    let line = "greylag_rules_reload_total{result=\"invalid\"} 7";
    assert!(page.text().contains(line), "{}", page.text());
}

#[test]
fn a_body_that_is_chunked_and_too_long_is_refused_too() {
    let greylag = Greylag::start(DEAD);
    let mut client = Client::connect(greylag.admin());
    client.send(format!(
        "PUT /v1/rules HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\n"
    ));
    // One byte more than is read; the rest of the chunk is never sent, so nothing is left to be reset.
    client.send(format!("{:x}\r\n{}", 2 << 20, " ".repeat((1 << 20) + 1)));
    problem(&client.answer(false), 413, "body_too_large");
}

#[test]
fn whoever_is_not_here_is_turned_away() {
    let greylag = Greylag::start(DEAD);
    let port = greylag.admin().port();
    let asked = |fields: &str| {
        let mut client = Client::connect(greylag.admin());
        client.send(format!("GET /v1/rules HTTP/1.1\r\n{fields}\r\n\r\n"));
        client.answer(false)
    };
    for host in [
        format!("127.0.0.1:{port}"),
        "localhost:1234".to_owned(),
        "[::1]".to_owned(),
    ] {
        assert_eq!(asked(&format!("host: {host}")).status, 200, "{host}");
        let origin = format!("host: {host}\r\norigin: http://{host}");
        assert_eq!(asked(&origin).status, 200, "{origin}");
    }
    for host in [
        "evil.example",
        "evil.example:9901",
        "10.1.2.3",
        "localhost.evil.example",
    ] {
        let answer = asked(&format!("host: {host}"));
        assert!(problem(&answer, 403, "host_not_allowed").contains(host));
    }
    problem(&asked("accept: */*"), 403, "host_not_allowed");
    for origin in [
        "http://evil.example",
        "null",
        "https://localhost",
        "http://localhost:1",
    ] {
        let answer = asked(&format!("host: localhost\r\norigin: {origin}"));
        assert!(problem(&answer, 403, "origin_not_allowed").contains(origin));
        assert_eq!(answer.field("access-control-allow-origin"), None);
    }
    // Nor does a page learn what is there, or change it.
    let mut client = Client::connect(greylag.admin());
    client.send(format!(
        "PUT /v1/nothing HTTP/1.1\r\nhost: evil.example\r\n{JSON}\r\ncontent-length: 2\r\n\r\n{{}}"
    ));
    problem(&client.answer(false), 403, "host_not_allowed");
}

#[test]
fn what_is_not_there_is_a_problem_too() {
    let greylag = Greylag::start(DEAD);
    for target in [
        "/",
        "/v1",
        "/v1/rules/",
        "/v2/rules",
        "/v1/rules/x",
        "/metrics",
        "/%ff",
        "/v1/exchanges/%ff",
    ] {
        problem(&get(greylag.admin(), target), 404, "not_found");
    }
    for (method, target, allowed) in [
        ("POST", "/v1/rules", "GET,HEAD,PUT"),
        ("DELETE", "/v1/rules", "GET,HEAD,PUT"),
        ("OPTIONS", "/v1/rules", "GET,HEAD,PUT"),
        ("PUT", "/v1/exchanges", "GET,HEAD"),
        ("PATCH", "/v1/exchanges/x", "GET,HEAD"),
    ] {
        let answer = ask(greylag.admin(), method, target, &[], "");
        problem(&answer, 405, "method_not_allowed");
        assert_eq!(answer.field("allow"), Some(allowed), "{method} {target}");
    }
}

#[test]
fn a_put_is_seen_by_the_next_exchange_of_an_open_connection() {
    let runtime = Runtime::new().unwrap();
    let engine = |model: &str| {
        let settings = Settings {
            model: model.into(),
            ..Settings::default()
        };
        runtime.block_on(Engine::start(settings)).unwrap()
    };
    let (stable, candidate) = (engine("tiny"), engine("tiny"));
    let rules = format!(
        "engines:\n  stable: {{ kind: vllm, url: \"http://{}\" }}\n  candidate: {{ kind: vllm, url: \"http://{}\" }}\n\
         default_engine: stable\n\
         splits: [{{ name: s, weights: {{ stable: 1, candidate: 0 }} }}]",
        stable.address(),
        candidate.address()
    );
    let greylag = Greylag::start(&rules);
    let mut client = Client::connect(greylag.address());
    let chat = |client: &mut Client, id: &str| {
        let body = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":4}"#;
        let id = format!("x-request-id: {id}");
        let answer = client.ask("POST", "/v1/chat/completions", &[JSON, &id], body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.field("x-greylag-engine").unwrap().to_owned()
    };
    assert_eq!(chat(&mut client, "one"), "stable");

    let written = get(greylag.admin(), "/v1/rules");
    let moved = written.text().replace(
        "\"weights\":{\"stable\":1,\"candidate\":0}",
        "\"weights\":{\"stable\":0,\"candidate\":1}",
    );
    assert_ne!(moved, written.text());
    assert_eq!(
        put(greylag.admin(), "/v1/rules", &[JSON], &moved).status,
        200
    );
    assert_eq!(chat(&mut client, "two"), "candidate");
    // Two of one id, of which the newest is meant.
    assert_eq!(chat(&mut client, "one"), "candidate");

    let admin = greylag.admin();
    let ids = |query: &str| -> Vec<String> {
        let json = get(admin, &format!("/v1/exchanges{query}")).json();
        let all = json["exchanges"].as_array().unwrap();
        all.iter()
            .map(|entry| entry["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(comes_true(|| ids("").len() == 3));
    assert_eq!(ids(""), ["one", "two", "one"]);
    assert_eq!(ids("?limit=2"), ["one", "two"]);
    assert_eq!(ids("?engine=stable"), ["one"]);
    assert_eq!(ids("?id=two&engine=candidate"), ["two"]);
    assert_eq!(ids("?outcome=ok").len(), 3);
    assert_eq!(ids("?outcome=timeout").len(), 0);
    let newest = get(admin, "/v1/exchanges/one").json();
    assert_eq!(
        (&newest["engine"], &newest["rules_version"]),
        (&json!("candidate"), &json!(2))
    );
    assert_eq!(
        (&newest["outcome"], &newest["split"]),
        (&json!("ok"), &json!("s"))
    );
    assert_eq!(
        newest["rules_hash"].as_str(),
        get(admin, "/v1/rules").field("x-greylag-rules-hash")
    );
}

#[test]
fn exchanges_are_asked_for_in_known_words() {
    let greylag = Greylag::start(DEAD);
    assert_eq!(
        get(greylag.admin(), "/v1/exchanges").json(),
        json!({ "exchanges": [] })
    );
    for (query, part) in [
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("limit=ten", "\"ten\""),
        ("outcome=good", "allowed: ok, truncated"),
        ("limits=1", "allowed: limit, engine, outcome, id"),
        ("limit=1&limit=2", "twice"),
    ] {
        let detail = problem(
            &get(greylag.admin(), &format!("/v1/exchanges?{query}")),
            400,
            "bad_query",
        );
        assert!(detail.contains(part), "{detail}");
    }
    let detail = problem(
        &get(greylag.admin(), "/v1/exchanges/a%2Fb"),
        404,
        "not_found",
    );
    assert!(detail.contains("\"a/b\""), "{detail}");
    problem(
        &get(greylag.admin(), "/v1/exchanges/x?limit=1"),
        400,
        "bad_query",
    );
}

#[test]
fn probes_are_answered_under_any_host() {
    let greylag = Greylag::start(DEAD);
    let observe = greylag.observe();
    let mut client = Client::connect(observe);
    client.send("GET /readyz HTTP/1.1\r\nhost: 10.1.2.3:9902\r\n\r\n");
    let ready = client.answer(false);
    assert_eq!((ready.status, ready.text().trim_end()), (200, "ready"));
    assert_eq!(get(observe, "/livez").status, 200);
    let page = get(observe, "/metrics");
    assert_eq!(
        (page.status, page.field("content-type")),
        (200, Some("text/plain; version=0.0.4"))
    );
    assert!(page.text().contains("greylag_build_info"));
    for target in ["/", "/v1/rules", "/metrics/", "/drain"] {
        assert_eq!(get(observe, target).status, 404, "{target}");
    }
    assert_eq!(ask(observe, "POST", "/metrics", &[], "").status, 405);
}

#[test]
fn it_is_not_ready_from_the_moment_it_is_stopped() {
    let greylag = Greylag::start_from(&format!(
        "listen: [{{ address: \"127.0.0.1:0\" }}]\n\
         admin: {{ address: \"127.0.0.1:0\" }}\n\
         observe: {{ address: \"127.0.0.1:0\" }}\n\
         telemetry: {{ log: {{ format: \"off\" }} }}\n\
         limits: {{ drain: 1s, drain_wait: 1s }}\n\
         rules:\n  {}\n",
        DEAD.replace('\n', "\n  ")
    ));
    let observe = greylag.observe();
    let mut client = Client::connect(observe);
    assert_eq!(client.ask("GET", "/readyz", &[], "").status, 200);
    let stopping = std::thread::spawn(move || greylag.stop());
    let mut last = None;
    assert!(comes_true(|| {
        let answer = client.ask("GET", "/readyz", &[], "");
        last = Some((answer.status, answer.text().trim_end().to_owned()));
        answer.status == 503
    }));
    assert_eq!(last, Some((503, "draining".to_owned())));
    assert_eq!(client.ask("GET", "/livez", &[], "").status, 200);
    assert_eq!(stopping.join().unwrap(), 0);
}
