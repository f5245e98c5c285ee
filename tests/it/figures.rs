//! What is counted as inference, and under which model.

use serde_json::json;

use crate::hand::Hand;
use crate::harness::{Client, Greylag, engines, sim};

const CHAT: &str = "/v1/chat/completions";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn a_preflight_is_no_inference() {
    let mut hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    client.ask(&format!("OPTIONS {CHAT}"), &[], "").await;
    let (mut engine, _) = hand.request().await;
    engine
        .send("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nOK")
        .await;
    assert_eq!(client.answer().await.text(), "OK");
    let record = greylag.records_of(1).await.remove(0);
    assert!(record.figures.is_none());
    assert_eq!(record.e2e(), None);
    let unparsable = greylag.metric("greylag_unmetered_total{reason=\"unparsable\"}");
    assert_eq!(unparsable.await, None);
}

#[tokio::test]
async fn a_declared_path_is_split_and_measured_by_its_dialect() {
    let mut hand = Hand::start().await;
    let mut rules = engines(&[("stable", hand.address()), ("candidate", hand.address())]);
    rules["routes"] = json!({ "/invocations": "chat", "/search/*": "json" });
    rules["splits"] = json!([{ "name": "all", "weights": { "candidate": 1 } }]);
    let greylag = Greylag::start(&rules.to_string());
    let mut client = Client::to(greylag.address()).await;
    let mut check = async |path: &str, media_type: &str, answer: &str| {
        client.ask(&format!("POST {path}"), &[], "{}").await;
        let (mut engine, _) = hand.request().await;
        let length = answer.len();
        let head = format!("content-type: {media_type}\r\ncontent-length: {length}\r\n");
        engine
            .send(&format!("HTTP/1.1 200 OK\r\n{head}\r\n{answer}"))
            .await;
        assert_eq!(client.answer().await.text(), answer);
    };
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#;
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    check("/invocations", "text/event-stream", &stream).await;
    check("/search/docs", "application/json", "[1]").await;
    check("/health", "text/plain", "OK").await;
    let records = greylag.records_of(3).await;
    let found = |path: &str| {
        let record = records.iter().find(|record| &*record.path == path);
        let record = record.expect("a record for each");
        let figures = record.figures.as_ref();
        (
            record.route.label(),
            record.engine.as_deref().unwrap_or_default().to_owned(),
            figures.map(|figures| (figures.token_events, figures.terminated)),
        )
    };
    let candidate = "candidate".to_owned();
    assert_eq!(
        found("/invocations"),
        ("declared", candidate.clone(), Some((1, true)))
    );
    assert_eq!(
        found("/search/docs"),
        ("declared", candidate, Some((0, true)))
    );
    assert_eq!(found("/health"), ("other", "stable".to_owned(), None));
}

#[tokio::test]
async fn a_model_that_rules_name_is_a_label_however_silent_an_engine_is() {
    // It takes connections, and says nothing on them.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("loopback has a port");
    let silent_address = silent.local_addr().expect("it is bound");
    let mut hand = Hand::start().await;
    let mut rules = engines(&[("a-silent", silent_address), ("stable", hand.address())]);
    rules["default_engine"] = json!("stable");
    rules["engines"]["stable"]["set"] = json!({ "model": "named" });
    let greylag = Greylag::start(&rules.to_string());
    let mut client = Client::to(greylag.address()).await;
    let body = r#"{"model":"named","messages":[]}"#;
    client.ask(&format!("POST {CHAT}"), &[], body).await;
    let (mut engine, _) = hand.request().await;
    engine.send(OK).await;
    assert_eq!(client.answer().await.status, 200);
    greylag.records_of(1).await;
    let series = "greylag_outcomes_total{gray_tag=\"stable\",leg=\"primary\",model_name=\"named\",outcome=\"ok\",route=\"/v1/chat/completions\",traffic=\"real\"}";
    assert_eq!(greylag.metric(series).await, Some(1.0));
}

#[tokio::test]
async fn what_greylag_itself_takes_is_measured() {
    let engine = sim().await;
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    let body = r#"{"model":"tiny","messages":[],"stream":true,"max_tokens":100}"#;
    let answer = client.chat(&["x-sim: itl=1ms;tokens=100"], body).await;
    assert!(answer.whole);
    let record = greylag.records_of(1).await.remove(0);
    let count = |part: &str| format!("greylag_overhead_seconds_count{{part=\"{part}\"}}");
    assert_eq!(greylag.metric(&count("request")).await, Some(1.0));
    // The first, and of the reads after it every 64th; several tokens may have come in one.
    let reads = record.timeline.events().len() as f64;
    let timed = greylag.metric(&count("token")).await.unwrap_or_default();
    assert!(
        (1.0..=(reads / 64.0).ceil()).contains(&timed),
        "{timed} of {reads}"
    );
    greylag
        .metric_reaches("greylag_stall_seconds_count", 3.0)
        .await;
}
