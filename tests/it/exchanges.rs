//! The last exchanges through the admin API, and which rules they saw.

use greylag_sim::{Engine, Settings};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::admin::{DEAD, JSON, get, problem, put};
use crate::harness::Greylag;
use crate::talk::{Talk, comes_true};

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
    let mut client = Talk::with(greylag.address());
    let chat = |client: &mut Talk, id: &str| {
        let body = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":4}"#;
        let id = format!("x-request-id: {id}");
        let answer = client.ask("POST", "/v1/chat/completions", &[JSON, &id], body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("x-greylag-engine").unwrap().to_owned()
    };
    assert_eq!(chat(&mut client, "one"), "stable");

    let written = get(greylag.app().admin, "/v1/rules");
    let moved = written.text().replace(
        "\"weights\":{\"stable\":1,\"candidate\":0}",
        "\"weights\":{\"stable\":0,\"candidate\":1}",
    );
    assert_ne!(moved, written.text());
    assert_eq!(
        put(greylag.app().admin, "/v1/rules", &[JSON], &moved).status,
        200
    );
    assert_eq!(chat(&mut client, "two"), "candidate");
    // Two of one id, of which the newest is meant.
    assert_eq!(chat(&mut client, "one"), "candidate");

    let admin = greylag.app().admin;
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
        get(admin, "/v1/rules").header("x-greylag-rules-hash")
    );
}

#[test]
fn exchanges_are_asked_for_in_known_words() {
    let greylag = Greylag::start(DEAD);
    assert_eq!(
        get(greylag.app().admin, "/v1/exchanges").json(),
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
            &get(greylag.app().admin, &format!("/v1/exchanges?{query}")),
            400,
            "bad_query",
        );
        assert!(detail.contains(part), "{detail}");
    }
    let detail = problem(
        &get(greylag.app().admin, "/v1/exchanges/a%2Fb"),
        404,
        "not_found",
    );
    assert!(detail.contains("\"a/b\""), "{detail}");
    problem(
        &get(greylag.app().admin, "/v1/exchanges/x?limit=1"),
        400,
        "bad_query",
    );
}
