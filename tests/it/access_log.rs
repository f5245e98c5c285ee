//! The access log: one JSON line an exchange, and nowhere a word of what was asked or answered.

use std::path::PathBuf;

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
    let line = |id: &str| {
        let found = lines
            .iter()
            .filter(|line| line["id"] == id)
            .collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{id}");
        found[0]
    };
    let one = line("one");
    for (key, expected) in [
        ("method", "POST"),
        ("path", "/v1/chat/completions"),
        ("route", "/v1/chat/completions"),
        ("client", "127.0.0.1"),
        ("model", "tiny"),
        ("traffic", "real"),
        ("leg", "primary"),
        ("engine", "stable"),
        ("gray_tag", "stable"),
        ("how", "default"),
        ("outcome", "ok"),
        ("end", "complete"),
    ] {
        assert_eq!(one[key], expected, "{key}");
    }
    for (key, expected) in [
        ("status", 200),
        ("engine_status", 200),
        ("attempts", 1),
        ("rules_version", 1),
    ] {
        assert_eq!(one[key], expected, "{key}");
    }
    assert_eq!(one["stream"], true);
    assert_eq!(one["request_bytes"], stream.len());
    assert_eq!(one["answer_bytes"], said.body.len());
    assert_eq!(one["tokens"]["output"], 5);
    assert_eq!(one["tokens"]["terminated"], true);
    assert_eq!(one["tokens"]["finish_reasons"]["length"], 1);
    assert_eq!(one["reason"], Value::Null);
    assert_eq!(one["trace_id"].as_str().map(str::len), Some(32));
    assert_eq!(one["span_id"].as_str().map(str::len), Some(16));
    assert_eq!(one["x_trace_id"], "tr-1");
    assert!(one["sampled"].is_boolean());
    let moments = ["request", "connected", "written", "head", "ended"];
    let at: Vec<f64> = moments
        .iter()
        .map(|key| one["times"][key].as_f64().unwrap())
        .collect();
    assert!(at.is_sorted(), "{at:?}");
    for key in ["ttft", "ttft_from_arrival", "e2e"] {
        assert!(one["times"][key].is_number(), "{key}");
    }
    for (id, outcome, end, status) in [
        ("two", "ok", "complete", 200),
        ("three", "engine_error", "complete", 500),
        ("four", "engine_reset", "engine_closed", 502),
        ("five", "error_in_stream", "complete", 200),
        ("six", "engine_error", "complete", 400),
        ("eight", "truncated", "engine_closed", 200),
    ] {
        let line = line(id);
        let found = (
            line["outcome"].as_str(),
            line["end"].as_str(),
            line["status"].as_u64(),
        );
        assert_eq!(found, (Some(outcome), Some(end), Some(status)), "{id}");
    }
    assert_eq!(line("four")["reason"], "engine_closed");
    assert!(
        lines
            .iter()
            .any(|line| line["path"] == "/version" && line["route"] == "other")
    );
}
