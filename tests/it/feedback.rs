//! Whether answers were of use: judged when they end, and by their callers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "feedback/bounds.rs"]
mod bounds;

use std::path::PathBuf;
use std::sync::Arc;

use greylag::record::Record;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::admin::{JSON, get, problem};
use crate::hand::Hand;
use crate::harness::{Answer, Greylag, engines};
use crate::talk::{Talk, ask, comes_true};

const MARK: &str = "xyzzy-never-told";
const PLAIN: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;

// A Greylag in front of an engine that answers as each test says.
struct Stage {
    runtime: Runtime,
    hand: Hand,
    greylag: Greylag,
}

impl Stage {
    fn with(keys: &str) -> Stage {
        let runtime = Runtime::new().unwrap();
        let hand = runtime.block_on(Hand::start());
        let rules = engines(&[("stable", hand.address())]).to_string();
        let greylag = Greylag::with(keys, &rules);
        Stage {
            runtime,
            hand,
            greylag,
        }
    }

    // Asks under this id and answers with this status and message; returns once the exchange is in the ring.
    fn exchange(&mut self, id: &str, body: &str, status: &str, message: &Value) {
        let before = self.greylag.records();
        let mut client = Talk::with(self.greylag.address());
        client.send(asked(id, body));
        let answer =
            json!({ "choices": [{ "index": 0, "finish_reason": "stop", "message": message }] });
        let answer = answer.to_string();
        let (length, hand) = (answer.len(), &mut self.hand);
        self.runtime.block_on(async {
            let (mut engine, _) = hand.request().await;
            let head = format!("content-type: application/json\r\ncontent-length: {length}");
            let end = "connection: close\r\n\r\n";
            let all = format!("HTTP/1.1 {status}\r\n{head}\r\n{end}{answer}");
            engine.send(&all).await;
        });
        assert_eq!(client.answer().text(), answer);
        self.newer_than(&before);
    }

    fn newer_than(&self, before: &[Arc<Record>]) {
        let last = before.last().map(|record| record.started);
        assert!(comes_true(|| {
            let newest = self.greylag.records().pop();
            newest.is_some_and(|newest| Some(newest.started) > last)
        }));
    }

    // An exchange that nothing speaks against.
    fn good(&mut self, id: &str) {
        self.exchange(
            id,
            PLAIN,
            "200 OK",
            &json!({ "role": "assistant", "content": "hello" }),
        );
    }

    fn say(&self, body: &str) -> Answer {
        let admin = self.greylag.app().admin;
        ask(admin, "POST", "/v1/feedback", &[JSON], body)
    }

    fn shown(&self, id: &str) -> Value {
        get(self.greylag.app().admin, &format!("/v1/exchanges/{id}")).json()
    }

    fn page(&self) -> String {
        get(self.greylag.app().observe, "/metrics").text()
    }

    fn value(&self, series: &str) -> Option<u64> {
        let page = self.page();
        let mut values = page
            .lines()
            .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        values.next().map(|value| value.parse().unwrap())
    }

    // How many were judged, and how many failed for each reason.
    fn judged(&self) -> (u64, [u64; 4]) {
        let labels = "gray_tag=\"stable\",leg=\"primary\",model_name=\"other\"";
        let exchanges = format!("greylag_biz_exchanges_total{{{labels},traffic=\"real\"}}");
        let failures = ["outcome", "json", "tool_arguments", "feedback"].map(|reason| {
            let series = format!(
                "greylag_biz_failures_total{{{labels},reason=\"{reason}\",traffic=\"real\"}}"
            );
            self.value(&series).unwrap()
        });
        (self.value(&exchanges).unwrap(), failures)
    }
}

fn asked(id: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\nx-request-id: {id}\r\n{JSON}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn said(id: &str, metric: &str, value: impl Into<Value>) -> String {
    let value: Value = value.into();
    json!({ "request_id": id, "metric": metric, "value": value }).to_string()
}

#[test]
fn an_answer_is_judged_when_it_ends_without_anybody_being_asked() {
    let mut stage = Stage::with("");
    let asks = |key: &str, value: Value| {
        let mut body: Value = serde_json::from_str(PLAIN).unwrap();
        body[key] = value;
        body.to_string()
    };
    let text = |text: &str| json!({ "role": "assistant", "content": text });
    let call = |arguments: &str| {
        let function = json!({ "name": "f", "arguments": arguments });
        json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": function }] })
    };
    let wants_json = asks("response_format", json!({ "type": "json_object" }));
    let has_tools = asks(
        "tools",
        json!([{ "type": "function", "function": { "name": "f" } }]),
    );
    let mut check = |id: &str, body: &str, status: &str, message: Value, flaw: Option<&str>| {
        stage.exchange(id, body, status, &message);
        let shown = stage.shown(id);
        assert_eq!(shown["success"], flaw.is_none(), "{id}: {shown}");
        assert_eq!(shown["flaw"].as_str(), flaw, "{id}: {shown}");
        assert_eq!(shown.get("feedback"), None, "{id}: {shown}");
    };
    check("text", PLAIN, "200 OK", text("hello"), None);
    check("json", &wants_json, "200 OK", text("{\"a\":1}"), None);
    check(
        "prose",
        &wants_json,
        "200 OK",
        text("Sure! {}"),
        Some("json"),
    );
    check("call", &has_tools, "200 OK", call("{\"a\":1}"), None);
    check(
        "cut",
        &has_tools,
        "200 OK",
        call("{\"a\":"),
        Some("tool_arguments"),
    );
    check("error", &wants_json, "500 No", text("no"), Some("outcome"));
    check("mistake", PLAIN, "400 No", text("no"), Some("outcome"));
    assert_eq!(stage.judged(), (7, [2, 1, 1, 0]));
    // The list shows the same.
    let all = get(stage.greylag.app().admin, "/v1/exchanges").json();
    let flaws: Vec<&Value> = all["exchanges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["flaw"])
        .collect();
    assert_eq!(
        json!(flaws),
        json!([
            "outcome",
            "outcome",
            "tool_arguments",
            null,
            "json",
            null,
            null
        ])
    );
}

#[test]
fn who_leaves_proves_nothing_until_he_says_so() {
    let mut stage = Stage::with("");
    stage.good("first");
    for (id, value) in [("left", true), ("cross", false)] {
        let before = stage.greylag.records();
        let mut client = Talk::with(stage.greylag.address());
        client.send(asked(id, PLAIN));
        let hand = &mut stage.hand;
        let engine = stage.runtime.block_on(hand.request());
        drop(client);
        stage.newer_than(&before);
        drop(engine);
        let judged = stage.judged();
        let shown = stage.shown(id);
        assert_eq!(shown["outcome"], "client_gone", "{shown}");
        assert_eq!(
            (shown.get("success"), shown.get("flaw")),
            (None, None),
            "{shown}"
        );
        let known = stage.say(&said(id, "thumbs", value)).json();
        assert_eq!(known["success"], value, "{known}");
        assert_eq!(stage.judged().0, judged.0 + 1);
        assert_eq!(stage.judged().1[3], judged.1[3] + u64::from(!value));
    }
    assert_eq!(stage.judged(), (3, [0, 0, 0, 1]));
}

#[test]
fn what_asks_for_no_inference_is_not_judged() {
    let mut stage = Stage::with("");
    stage.good("chat");
    stage.good("both");
    let before = stage.greylag.records();
    for (path, id) in [
        ("/version", "page"),
        ("/version", "both"),
        ("/v1/chat/completions", "get"),
    ] {
        let mut client = Talk::with(stage.greylag.address());
        client.send(format!(
            "GET {path} HTTP/1.1\r\nhost: test\r\nx-request-id: {id}\r\n\r\n"
        ));
        let hand = &mut stage.hand;
        stage.runtime.block_on(async {
            let (mut engine, _) = hand.request().await;
            let page = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
            engine.send(page).await;
        });
        assert_eq!(client.answer().text(), "ok");
    }
    assert!(comes_true(
        || stage.greylag.records().len() == before.len() + 3
    ));
    assert_eq!(stage.judged(), (2, [0; 4]));
    for id in ["page", "get"] {
        assert_eq!(stage.shown(id).get("success"), None);
        problem(&stage.say(&said(id, "thumbs", true)), 404, "not_found");
    }
    // The page of the same id is newer, and nothing that can be judged.
    assert_eq!(stage.say(&said("both", "thumbs", false)).status, 200);
    assert_eq!(stage.shown("both").get("feedback"), None);
    let all = get(stage.greylag.app().admin, "/v1/exchanges?id=both").json();
    assert_eq!(all["exchanges"][1]["feedback"], json!({ "thumbs": false }));
}

#[test]
fn a_caller_makes_a_good_answer_bad_once_and_for_all() {
    let mut stage = Stage::with("");
    stage.good("one");
    assert_eq!(stage.judged(), (1, [0; 4]));
    let check = |stage: &Stage, metric: &str, value: Value, expected: Value, failures: u64| {
        let answer = stage.say(&said("one", metric, value));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json(), expected);
        let shown = stage.shown("one");
        for key in ["id", "success", "flaw", "feedback"] {
            assert_eq!(shown.get(key), expected.get(key), "{key}");
        }
        assert_eq!(stage.judged(), (1, [0, 0, 0, failures]));
    };
    let good = json!({ "id": "one", "success": true, "feedback": { "thumbs": true } });
    check(&stage, "thumbs", json!(true), good, 0);
    let good =
        json!({ "id": "one", "success": true, "feedback": { "thumbs": true, "stars": 0.0 } });
    check(&stage, "stars", json!(0), good, 0);
    let bad = |thumbs: bool, stars: f64| json!({ "id": "one", "success": false, "flaw": "feedback", "feedback": { "thumbs": thumbs, "stars": stars } });
    check(&stage, "thumbs", json!(false), bad(false, 0.0), 1);
    check(&stage, "stars", json!(-0.5), bad(false, -0.5), 1);
    check(&stage, "thumbs", json!(true), bad(true, -0.5), 1);
    check(&stage, "stars", json!(5), bad(true, 5.0), 1);
    check(&stage, "thumbs", json!(false), bad(false, 5.0), 1);

    // What is bad already fails for its own reason alone.
    let no = json!({ "role": "assistant", "content": "no" });
    stage.exchange("two", PLAIN, "500 No", &no);
    let known = stage.say(&said("two", "thumbs", false)).json();
    assert_eq!(known["flaw"], "outcome");
    assert_eq!(stage.judged(), (2, [1, 0, 0, 1]));

    // Two of one id, of which the newest is meant.
    stage.good("one");
    assert_eq!(
        stage.say(&said("one", "again", false)).json()["feedback"],
        json!({ "again": false })
    );
    assert_eq!(stage.judged(), (3, [1, 0, 0, 2]));
    let heard = |metric: &str, judgement: &str| {
        stage.value(&format!(
            "greylag_feedback_total{{judgement=\"{judgement}\",metric=\"{metric}\"}}"
        ))
    };
    assert_eq!(heard("thumbs", "bad"), Some(3));
    assert_eq!(heard("thumbs", "good"), Some(2));
    assert_eq!(heard("stars", "bad"), Some(1));
    assert_eq!(heard("stars", "good"), Some(2));
    assert_eq!(heard("again", "bad"), Some(1));
    assert_eq!(heard("again", "good"), None);
}

#[test]
fn what_is_no_judgement_changes_nothing_and_is_told_what_is_allowed() {
    let mut stage = Stage::with("");
    stage.good("one");
    let check = |body: &str, status: u16, code: &str, part: &str| {
        let detail = problem(&stage.say(body), status, code);
        assert!(detail.contains(part), "{body}: {detail}");
    };
    check("", 400, "bad_json", "line 1, column 0");
    check("{", 400, "bad_json", "EOF");
    check(
        "[\"one\",\"a\",true]",
        400,
        "bad_json",
        "an object with `request_id`, `metric` and `value`",
    );
    check("{\"request_id\":\"one\"}", 400, "bad_json", "missing field");
    let more =
        json!({ "request_id": "one", "metric": "a", "value": false, "comment": MARK }).to_string();
    check(
        &more,
        400,
        "bad_json",
        "unknown field `comment`, expected one of `request_id`, `metric`, `value`",
    );
    check(
        &said("one", "Bad Name", false),
        400,
        "bad_json",
        "1 to 64 lower-case letters",
    );
    check(
        &said("one", "a", MARK),
        400,
        "bad_json",
        "a finite number, true or false",
    );
    check(
        &said("one", "a", Value::Null),
        400,
        "bad_json",
        "a finite number, true or false",
    );
    let endless = said("one", "a", 7).replace('7', "-1e999");
    check(&endless, 400, "bad_json", "out of range");
    check(&said("", "a", false), 400, "bad_json", "1 to 256 bytes");
    check(
        &said("none", "a", false),
        404,
        "not_found",
        "\"none\" is not among the last ones",
    );
    check(&said("none", "a", false), 404, "not_found", "limits.ring");
    let long = said("one", &"m".repeat(5000), false);
    check(&long, 413, "body_too_large", "4096");

    let admin = stage.greylag.app().admin;
    let body = said("one", "a", false);
    for fields in [
        &[][..],
        &["content-type: text/plain"],
        &["content-type: application/x-www-form-urlencoded"],
    ] {
        let answer = ask(admin, "POST", "/v1/feedback", fields, &body);
        problem(&answer, 415, "not_json");
    }
    let foreign = [JSON, "origin: http://evil.example"];
    problem(
        &ask(admin, "POST", "/v1/feedback", &foreign, &body),
        403,
        "origin_not_allowed",
    );
    problem(
        &ask(admin, "POST", "/v1/feedback?id=one", &[JSON], &body),
        400,
        "bad_query",
    );

    assert_eq!(stage.judged(), (1, [0; 4]));
    assert_eq!(stage.shown("one").get("feedback"), None);
    assert!(!stage.page().contains("greylag_feedback_total{"));
}

#[test]
fn no_word_of_a_prompt_or_a_refused_judgement_is_kept() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join(format!("feedback-{}.log", std::process::id()));
    let path = file.display().to_string();
    let mut stage = Stage::with(&format!("telemetry: {{ log: {{ path: {path:?} }} }}"));
    let body = json!({ "model": "tiny", "messages": [{ "role": "user", "content": MARK }], "response_format": { "type": "json_object" } });
    let answer = json!({ "role": "assistant", "content": format!("no JSON, but {MARK}") });
    stage.exchange("one", &body.to_string(), "200 OK", &answer);
    assert_eq!(stage.shown("one")["flaw"], "json");
    let bodies = [
        json!({ "request_id": "one", "metric": "a", "value": MARK }).to_string(),
        json!({ "request_id": "one", "metric": MARK, "value": true }).to_string(),
        json!({ "request_id": "one", "metric": "a", "value": true, MARK: MARK }).to_string(),
        json!({ "request_id": MARK, "metric": "a", "value": true }).to_string(),
    ];
    for body in bodies {
        assert_ne!(stage.say(&body).status, 200, "{body}");
    }
    assert_eq!(stage.say(&said("one", "thumbs", true)).status, 200);
    let all = get(stage.greylag.app().admin, "/v1/exchanges").text();
    let ring = format!("{:?}", stage.greylag.app().shared.telemetry.ring);
    let page = stage.page();
    stage.greylag.stop();
    let log = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(log.contains("\"one\"") && ring.contains("thumbs"));
    for (name, text) in [
        ("list", all),
        ("ring", ring),
        ("metrics", page),
        ("log", log),
    ] {
        assert!(!text.contains(MARK), "the {name} has it: {text}");
    }
}
