//! The nouns of the API: splits, overlays, history, events, reset; and the document that says how all of them look.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "nouns/document.rs"]
mod document;
#[path = "nouns/events.rs"]
mod events;

use serde_json::{Value, json};

use crate::admin::{JSON, get, problem, put};
use crate::harness::Greylag;
use crate::talk::{Talk, ask};

const RULES: &str = r#"{
    "engines": {
        "stable": { "kind": "vllm", "url": "http://127.0.0.1:9", "headers": { "x-key": "s3cret-value" } },
        "candidate": { "kind": "vllm", "url": "http://127.0.0.1:9", "tag": "v2" }
    },
    "default_engine": "stable",
    "splits": [
        { "name": "canary", "weights": { "stable": 90, "candidate": 10 }, "force": { "header": "x-gray" } },
        { "name": "plain", "match": { "paths": ["/v1/completions"] }, "weights": { "candidate": 1 } }
    ]
}"#;

// The first split would hide the second.
fn rules() -> Value {
    let mut rules: Value = serde_json::from_str(RULES).unwrap();
    rules["splits"].as_array_mut().unwrap().swap(0, 1);
    rules
}

fn start() -> Greylag {
    Greylag::start(&rules().to_string())
}

const WEIGHTS: &str = "/v1/splits/canary/weights";
const FORCE: &str = "/v1/splits/canary/force";

#[test]
fn a_split_is_moved_seen_and_put_back() {
    let greylag = start();
    let admin = greylag.app().admin;
    let before = get(admin, WEIGHTS);
    assert_eq!(before.json(), json!({ "stable": 90, "candidate": 10 }));
    let even = r#"{"candidate":50,"stable":50}"#;
    let target = format!("{WEIGHTS}?reason=half%20of%20it");
    let moved = put(admin, &target, &[JSON], even);
    let changes = json!({ "changes": [
        { "path": "rules.splits.canary.weights.candidate", "before": 10, "after": 50 },
        { "path": "rules.splits.canary.weights.stable", "before": 90, "after": 50 },
    ] });
    assert_eq!((moved.status, &moved.json()["diff"]), (200, &changes));
    assert_eq!(moved.json()["version"], 2);
    assert_ne!(moved.header("etag"), before.header("etag"));

    let split = get(admin, "/v1/splits/canary").json();
    let engines = json!([
        { "engine": "candidate", "tag": "v2", "weight": 50, "share": 0.5 },
        { "engine": "stable", "tag": "stable", "weight": 50, "share": 0.5 },
    ]);
    assert_eq!(split["engines"], engines);
    assert_eq!(split["overlays"], json!(["weights:canary"]));
    let list = get(admin, "/v1/splits").json();
    assert_eq!(
        (&list["splits"][1], list["splits"].as_array().unwrap().len()),
        (&split, 2)
    );

    // It lies on the base, which is as it was.
    assert_eq!(
        get(admin, "/v1/rules").json()["splits"][1]["weights"]["stable"],
        90
    );
    let all = get(admin, "/v1/rules?in_force=true").json();
    assert_eq!(all["splits"][1]["weights"]["stable"], 50);
    let overlay = &get(admin, "/v1/overlays").json()["overlays"][0];
    assert_eq!(
        (&overlay["id"], &overlay["owner"], &overlay["reason"]),
        (
            &json!("weights:canary"),
            &json!("loopback"),
            &json!("half of it")
        )
    );

    let lifted = ask(admin, "DELETE", "/v1/overlays/weights:canary", &[], "");
    assert_eq!(
        (lifted.status, lifted.json()["version"].clone()),
        (200, json!(3))
    );
    assert_eq!(get(admin, WEIGHTS).json(), before.json());
    let again = ask(admin, "DELETE", "/v1/overlays/weights:canary", &[], "");
    problem(&again, 404, "not_found");
}

#[test]
fn what_does_not_fit_is_refused_where_it_is_wrong() {
    let greylag = start();
    let admin = greylag.app().admin;
    let check = |target: &str, body: &str, status, code: &str, part: &str| {
        let answer = put(admin, target, &[JSON], body);
        let detail = problem(&answer, status, code);
        let text = answer.text();
        assert!(text.contains(part), "{part} is not in {text} ({detail})");
    };
    check(
        "/v1/splits/other/weights",
        "{\"stable\":1}",
        404,
        "not_found",
        "these splits: plain, canary",
    );
    check(
        WEIGHTS,
        "{\"stable\":1}",
        422,
        "invalid_rules",
        "is given no weight",
    );
    check(
        WEIGHTS,
        "{\"stable\":0,\"candidate\":0}",
        422,
        "invalid_rules",
        "all weights are zero",
    );
    check(
        WEIGHTS,
        "{\"stable\":1,\"candidate\":1,\"x\":1}",
        422,
        "invalid_rules",
        "not one of the split's",
    );
    check(
        WEIGHTS,
        "{\"stable\":-1}",
        400,
        "bad_json",
        "line 1, column",
    );
    check(
        WEIGHTS,
        "{\"stable\":1,\"stable\":1}",
        400,
        "bad_json",
        "twice",
    );
    check(WEIGHTS, "[]", 400, "bad_json", "expected a map");
    check(
        "/v1/splits/plain/force",
        "true",
        404,
        "not_found",
        "names no header",
    );
    check(FORCE, "1", 400, "bad_json", "expected a boolean");
    check(
        &format!("{FORCE}?until=yesterday"),
        "true",
        400,
        "bad_query",
        "a length of time such as",
    );
    check(
        &format!("{FORCE}?until=0s"),
        "true",
        400,
        "bad_query",
        "is not after now",
    );
    check(
        &format!("{FORCE}?until=1999-01-01T00:00:00Z"),
        "true",
        400,
        "bad_query",
        "is not after now",
    );
    check(
        &format!("{FORCE}?reason="),
        "true",
        400,
        "bad_query",
        "found 0 characters",
    );
    check(
        &format!("{FORCE}?dry-run=true"),
        "true",
        400,
        "bad_query",
        "allowed: dry_run, reason, until",
    );
    let stale = ["content-type: application/json", "if-match: \"0-0\""];
    problem(&put(admin, FORCE, &stale, "true"), 412, "conflict");
    problem(
        &put(admin, FORCE, &["content-type: text/plain"], "true"),
        415,
        "not_json",
    );
    assert_eq!(get(admin, "/v1/status").json()["rules"]["version"], 1);
}

#[test]
fn a_dry_run_shows_what_would_change() {
    let greylag = start();
    let admin = greylag.app().admin;
    put(admin, FORCE, &[JSON], "false");
    let before = get(admin, "/v1/rules");
    let mut other = before.json();
    other["splits"].as_array_mut().unwrap().pop();
    other["engines"]["candidate"]["url"] = json!("http://127.0.0.1:8");
    let tried = put(admin, "/v1/rules?dry_run=true", &[JSON], &other.to_string());
    let found = tried.json();
    assert_eq!(
        (tried.status, &found["version"], &found["dry_run"]),
        (200, &json!(3), &json!(true))
    );
    let paths: Vec<&str> = found["diff"]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["rules.engines.candidate.url", "rules.splits.canary"]
    );
    assert_eq!(found["dropped"][0]["id"], "force:canary");
    assert!(!tried.text().contains("s3cret"), "{}", tried.text());
    let after = get(admin, "/v1/rules");
    assert_eq!(
        (&after.body, after.header("etag")),
        (&before.body, before.header("etag"))
    );
    assert_eq!(
        get(admin, "/v1/overlays").json()["overlays"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_version_of_the_history_can_be_restored() {
    let greylag = start();
    let admin = greylag.app().admin;
    put(
        admin,
        &format!("{WEIGHTS}?reason=more"),
        &[JSON],
        r#"{"stable":1,"candidate":1}"#,
    );
    let mut other = get(admin, "/v1/rules").json();
    other["default_engine"] = json!("candidate");
    put(admin, "/v1/rules", &[JSON], &other.to_string());
    let list = get(admin, "/v1/history").json();
    let told: Vec<(u64, &str)> = list["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["version"].as_u64().unwrap(),
                one["what"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (3, "rules replaced"),
            (2, "weights of split \"canary\": stable=1 candidate=1"),
            (1, "start with the file's rules"),
        ]
    );
    assert_eq!(
        get(admin, "/v1/history?limit=1").json()["versions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let second = get(admin, "/v1/history/2").json();
    assert_eq!(
        (&second["reason"], &second["base"]),
        (&json!("more"), &json!("file"))
    );
    assert_eq!(second["diff"]["changes"].as_array().unwrap().len(), 2);
    assert!(!second.to_string().contains("s3cret"), "{second}");
    let restored = ask(admin, "POST", "/v1/history/1/restore?reason=undo", &[], "");
    assert_eq!(
        (restored.status, &restored.json()["version"]),
        (200, &json!(4))
    );
    assert_eq!(
        get(admin, WEIGHTS).json(),
        json!({ "stable": 90, "candidate": 10 })
    );
    assert_eq!(get(admin, "/v1/status").json()["rules"]["base"], "file");
    // Secrets are put back with the rest.
    let shared = &greylag.app().shared;
    let rules = serde_json::to_string(&shared.store.current().layers.base).unwrap();
    assert!(rules.contains("s3cret-value"), "{rules}");
    for version in ["0", "99", "x", "-1"] {
        problem(
            &get(admin, &format!("/v1/history/{version}")),
            404,
            "not_found",
        );
        let target = format!("/v1/history/{version}/restore");
        problem(&ask(admin, "POST", &target, &[], ""), 404, "not_found");
    }
}

#[test]
fn a_reset_leaves_alone_who_may_choose() {
    let greylag = start();
    let admin = greylag.app().admin;
    put(admin, FORCE, &[JSON], "true");
    let reset = ask(admin, "POST", "/v1/reset", &[], "");
    assert_eq!((reset.status, reset.json()), (200, json!({ "off": [] })));
    assert_eq!(get(admin, FORCE).json(), json!(true));
    assert_eq!(get(admin, "/v1/status").json()["rules"]["version"], 2);
}

#[test]
fn nothing_is_changed_by_a_get() {
    let greylag = start();
    let admin = greylag.app().admin;
    for target in ["/v1/reset", "/v1/history/1/restore"] {
        let answer = get(admin, target);
        problem(&answer, 405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    let mut tried = 0;
    for operation in greylag::admin::operations() {
        let target = operation
            .path
            .replace("{name}", "canary")
            .replace("{id}", "x")
            .replace("{version}", "1");
        if operation.method == "GET" && target != "/v1/events" {
            let answer = get(admin, &target);
            assert!(answer.status < 500, "{target}: {}", answer.text());
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried}");
    assert_eq!(get(admin, "/v1/status").json()["rules"]["version"], 1);
}

#[test]
fn a_connection_can_be_asked_many_things() {
    let greylag = start();
    let mut talk = Talk::with(greylag.app().admin);
    for number in 1..=5 {
        let body = format!("{{\"stable\":{number},\"candidate\":1}}");
        assert_eq!(
            talk.ask("PUT", WEIGHTS, &[JSON], &body).json()["version"],
            number + 1
        );
        assert_eq!(talk.ask("GET", WEIGHTS, &[], "").json()["stable"], number);
    }
}
