//! The access log: one JSON line an exchange, and nowhere a word of what was asked or answered.

use std::path::PathBuf;

use greylag::telemetry::log::line;
use greylag_sim::{Engine, Settings};
use serde_json::Value;

use crate::harness::{Client, Greylag, engines};

const MARK: &str = "xyzzy-never-told";

fn path(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    dir.join(format!("{name}-{}.log", std::process::id()))
}

#[tokio::test]
async fn each_exchange_is_one_line_without_a_word_of_its_text() {
    let file = path("access");
    let engine = Engine::start(Settings::default()).await.unwrap();
    let rules = engines(&[("stable", engine.address())]).to_string();
    let keys = format!(
        "telemetry: {{ log: {{ path: {:?} }} }}",
        file.display().to_string()
    );
    let greylag = Greylag::with(&keys, &rules);
    let mut client = Client::to(greylag.address()).await;
    let text = format!(
        r#"{{"model":"tiny","user":"{MARK}","messages":[{{"role":"user","content":"{MARK}"}}],"max_tokens":5"#
    );
    let plain = format!("{text}}}");
    let stream = format!(r#"{text},"stream":true,"stream_options":{{"include_usage":true}}}}"#);
    let secret = format!("authorization: Bearer {MARK}");
    let said = client
        .chat(&["x-request-id: one", "x-trace-id: tr-1", &secret], &stream)
        .await;
    client.chat(&["x-request-id: two"], &plain).await;
    client
        .chat(&["x-request-id: three", "x-sim: status=500"], &plain)
        .await;
    client
        .chat(&["x-request-id: four", "x-sim: close"], &stream)
        .await;
    client
        .chat(&["x-request-id: five", "x-sim: error=1"], &stream)
        .await;
    client
        .chat(&["x-request-id: six"], &format!("{{\"{MARK}\""))
        .await;
    client.get(&format!("/version?key={MARK}")).await;
    let mut cut = Client::to(greylag.address()).await;
    cut.chat(&["x-request-id: eight", "x-sim: cut=2"], &stream)
        .await;
    greylag.records_of(8).await;
    let mut observe = Client::to(greylag.app().observe).await;
    let metrics = observe.get("/metrics").await.text();
    let ring = format!("{:?}", greylag.records());
    greylag.stop();

    let log = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let answered = said.text();
    let word = answered
        .split("\"content\":\"")
        .nth(2)
        .and_then(|rest| rest.split('"').next());
    let word = word.filter(|word| word.trim().len() > 3);
    for (name, page) in [("log", &log), ("metrics", &metrics), ("ring", &ring)] {
        assert!(!page.contains(MARK), "the {name} has the prompt: {page}");
        if let Some(word) = word {
            assert!(
                !page.contains(word),
                "the {name} has the answer's {word:?}: {page}"
            );
        }
    }
    assert!(log.ends_with('\n'));
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 8);
    let schema = jsonschema::validator_for(&line::schema()).unwrap();
    for line in &lines {
        if let Err(error) = schema.validate(line) {
            panic!("{error} in {line}");
        }
    }
    let line = |id: &str| {
        let found = lines
            .iter()
            .filter(|line| line["greylag.request_id"] == id)
            .collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{id}");
        found[0]
    };
    let one = line("one");
    for (key, expected) in [
        ("http.request.method", "POST"),
        ("url.path", "/v1/chat/completions"),
        ("http.route", "/v1/chat/completions"),
        ("client.address", "127.0.0.1"),
        ("gen_ai.request.model", "tiny"),
        ("greylag.traffic", "real"),
        ("greylag.leg", "primary"),
        ("greylag.engine", "stable"),
        ("gray.tag", "stable"),
        ("greylag.how", "default"),
        ("greylag.outcome", "ok"),
        ("greylag.end", "complete"),
    ] {
        assert_eq!(one[key], expected, "{key}");
    }
    for (key, expected) in [
        ("http.response.status_code", 200),
        ("greylag.engine_status", 200),
        ("greylag.attempts", 1),
        ("greylag.rules_version", 1),
    ] {
        assert_eq!(one[key], expected, "{key}");
    }
    assert_eq!(one["gen_ai.request.stream"], true);
    assert_eq!(one["http.request.body.size"], stream.len());
    assert_eq!(one["http.response.body.size"], said.body.len());
    assert_eq!(one["gen_ai.usage.output_tokens"], 5);
    assert_eq!(one["greylag.terminated"], true);
    assert_eq!(
        one["gen_ai.response.finish_reasons"],
        serde_json::json!(["length"])
    );
    assert_eq!(one["greylag.reason"], Value::Null);
    assert_eq!(one["trace_id"].as_str().map(str::len), Some(32));
    assert_eq!(one["span_id"].as_str().map(str::len), Some(16));
    assert_eq!(one["greylag.x_trace_id"], "tr-1");
    assert!(one["greylag.sampled"].is_boolean());
    let moments = ["request", "connected", "written", "head", "ended"];
    let at: Vec<f64> = moments
        .iter()
        .map(|key| one[&format!("greylag.at.{key}")].as_f64().unwrap())
        .collect();
    assert!(at.is_sorted(), "{at:?}");
    for key in ["ttft", "at.first_token", "e2e"] {
        assert!(one[&format!("greylag.{key}")].is_number(), "{key}");
    }
    for (id, outcome, end, status, code) in [
        ("two", "ok", "complete", 200, None),
        (
            "three",
            "engine_error",
            "complete",
            500,
            Some("engine.answer.failed"),
        ),
        (
            "four",
            "engine_reset",
            "engine_closed",
            502,
            Some("engine.connection.reset"),
        ),
        (
            "five",
            "error_in_stream",
            "complete",
            200,
            Some("engine.stream.error"),
        ),
        (
            "six",
            "engine_error",
            "complete",
            400,
            Some("engine.answer.rejected"),
        ),
        (
            "eight",
            "truncated",
            "engine_closed",
            200,
            Some("engine.stream.closed"),
        ),
    ] {
        let line = line(id);
        let found = (
            line["greylag.outcome"].as_str(),
            line["greylag.end"].as_str(),
            line["http.response.status_code"].as_u64(),
        );
        assert_eq!(found, (Some(outcome), Some(end), Some(status)), "{id}");
        assert_eq!(line["error.code"].as_str(), code, "{id}");
        let is_good = code.is_none();
        assert_eq!(line["severity_text"] == "INFO", is_good, "{id}");
        assert_eq!(line.get("root_cause").is_none(), is_good, "{id}");
        assert_eq!(line.get("grade").is_none(), is_good, "{id}");
    }
    assert_eq!(line("four")["greylag.reason"], "engine_closed");
    assert!(
        lines
            .iter()
            .any(|line| line["url.path"] == "/version" && line["http.route"] == "other")
    );
}

#[tokio::test]
async fn of_good_lines_a_share_is_written_and_of_bad_ones_all() {
    const GOOD: usize = 1000;
    let file = path("thinned");
    let engine = Engine::start(Settings::default()).await.unwrap();
    let rules = engines(&[("stable", engine.address())]).to_string();
    let keys = format!("telemetry: {{ log: {{ path: {file:?}, share: 10% }} }}");
    let greylag = Greylag::with(&keys, &rules);
    let mut client = Client::to(greylag.address()).await;
    for _ in 0..GOOD {
        assert_eq!(client.get("/version").await.status, 200);
    }
    for _ in 0..20 {
        let answer = client
            .chat(&["x-sim: status=503"], "{\"messages\":[]}")
            .await;
        assert_eq!(answer.status, 503);
    }
    greylag.records_of(GOOD + 20).await;
    greylag.stop();
    let log = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (good, bad): (Vec<&Value>, Vec<&Value>) = lines
        .iter()
        .partition(|line| line["severity_text"] == "INFO");
    assert_eq!(bad.len(), 20);
    assert!(
        bad.iter()
            .all(|line| line.get("greylag.log_share").is_none())
    );
    assert!(good.iter().all(|line| line["greylag.log_share"] == 0.1));
    // Three standard deviations are 28.5.
    assert!((72..=128).contains(&good.len()), "{}", good.len());
}

/// What is asked, in turn: well, badly, of engines that misbehave, and of what is no inference.
const ORDERS: [&str; 8] = [
    "tokens=3",
    "tokens=3;itl=0ms",
    "status=500",
    "status=429",
    "error=1;tokens=3",
    "cut=1;tokens=3",
    "close",
    "usage=omit;tokens=2",
];

#[tokio::test]
async fn ten_thousand_lines_fit_the_schema_and_tell_no_text() {
    const CLIENTS: usize = 8;
    const EACH: usize = 1250;
    let file = path("many");
    let engine = Engine::start(Settings::default()).await.unwrap();
    let rules = engines(&[("stable", engine.address())]).to_string();
    let keys = format!("telemetry: {{ log: {{ path: {file:?} }} }}");
    let greylag = Greylag::with(&keys, &rules);
    let address = greylag.address();
    let asking = (0..CLIENTS).map(|number| {
        tokio::spawn(async move {
            let mut client = Client::to(address).await;
            for turn in 0..EACH {
                let order = format!("x-sim: {}", ORDERS[(turn + number) % ORDERS.len()]);
                let stream = turn % 3 == 0;
                let body = format!(
                    r#"{{"model":"tiny","user":"{MARK}","messages":[{{"role":"user","content":"{MARK}"}}],"stream":{stream}}}"#
                );
                let answer = client.chat(&[&order, "traceparent: 00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"], &body).await;
                // A connection that has ended is not used again.
                if !answer.whole || answer.header("connection") == Some("close") {
                    client = Client::to(address).await;
                }
            }
        })
    });
    for asking in asking.collect::<Vec<_>>() {
        asking.await.unwrap();
    }
    crate::harness::eventually("nothing in flight", || {
        (greylag.app().shared.telemetry.in_flight() == 0).then_some(())
    })
    .await;
    let dropped = greylag.metric("greylag_log_dropped_total").await;
    assert_eq!(dropped, Some(0.0));
    let mut observe = Client::to(greylag.app().observe).await;
    let metrics = observe.get("/metrics").await.text();
    let mut admin = Client::to(greylag.app().admin).await;
    admin
        .send("GET /v1/exchanges?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let shown = admin.answer().await.text();
    greylag.stop();
    let log = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(shown.len() > 100_000, "{}", shown.len());
    for (name, page) in [("log", &log), ("metrics", &metrics), ("API", &shown)] {
        assert!(!page.contains(MARK), "the {name} has the prompt");
    }
    let schema = jsonschema::validator_for(&line::schema()).unwrap();
    let mut outcomes = std::collections::BTreeMap::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Err(error) = schema.validate(&line) {
            panic!("{error} in {line}");
        }
        let outcome = line["greylag.outcome"].as_str().unwrap().to_owned();
        *outcomes.entry(outcome).or_insert(0_usize) += 1;
    }
    let all: usize = outcomes.values().sum();
    assert_eq!(all, CLIENTS * EACH, "{outcomes:?}");
    assert!(outcomes.len() >= 5, "{outcomes:?}");
}
