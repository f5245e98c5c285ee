//! What may be open to one engine, as its rules say.

use greylag_filters::outcome::Outcome;
use greylag_filters::rules::How;
use serde_json::json;

use crate::h2::{self, Peer};
use crate::hand::Hand;
use crate::harness::{Client, Greylag, connections, engines, sim};

const CHAT: &str = "/v1/chat/completions";
const PLAIN: &str = r#"{"model":"tiny","messages":[],"max_tokens":1}"#;
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn an_engine_has_no_more_requests_at_a_time_than_it_may() {
    let mut hand = Hand::start().await;
    let mut rules = engines(&[("stable", hand.address())]);
    rules["engines"]["stable"]["pool"] = json!({ "requests": 1 });
    let greylag = Greylag::start(&rules.to_string());
    let mut first = Client::to(greylag.address()).await;
    first.ask(&format!("POST {CHAT}"), &[], PLAIN).await;
    let (mut engine, _) = hand.request().await;
    assert_eq!(greylag.engine("stable").await["requests"], 1);
    let mut second = Client::to(greylag.address()).await;
    let refused = second.chat(&[], PLAIN).await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("1"))
    );
    assert_eq!(refused.header("x-greylag-reason"), Some("engine_full"));
    assert!(
        refused.text().contains("pool.requests"),
        "{}",
        refused.text()
    );
    engine.send(OK).await;
    assert_eq!(first.answer().await.status, 200);
    greylag.records_of(2).await;
    assert_eq!(greylag.engine("stable").await["requests"], 0);
    // A client that leaves frees the place too.
    second.ask(&format!("POST {CHAT}"), &[], PLAIN).await;
    engine.request().await;
    drop(second);
    greylag.records_of(3).await;
    first.ask(&format!("POST {CHAT}"), &[], PLAIN).await;
    let (mut engine, _) = hand.request().await;
    engine.send(OK).await;
    assert_eq!(first.answer().await.status, 200);
    let records = greylag.records_of(4).await;
    assert_eq!(records[0].outcome, Outcome::Refused);
    // It is not down: it has enough to do.
    assert_eq!(greylag.engine("stable").await["state"], "up");
}

#[tokio::test]
async fn what_a_full_engine_cannot_take_goes_elsewhere_where_the_split_says_so() {
    let (mut one, two) = (Hand::start().await, sim().await);
    let mut rules = engines(&[("one", one.address()), ("two", two.address())]);
    rules["engines"]["one"]["pool"] = json!({ "requests": 1 });
    rules["splits"] = json!([{ "name": "s", "weights": { "one": 1, "two": 1 }, "force": { "header": "x-force" }, "retry_on": [503] }]);
    let greylag = Greylag::start(&rules.to_string());
    let mut first = Client::to(greylag.address()).await;
    first
        .ask(&format!("POST {CHAT}"), &["x-force: one"], PLAIN)
        .await;
    let (mut engine, _) = one.request().await;
    let mut second = Client::to(greylag.address()).await;
    assert_eq!(second.chat(&["x-force: one"], PLAIN).await.status, 200);
    let record = greylag.records_of(1).await[0].clone();
    assert_eq!(record.engine.as_deref(), Some("two"));
    assert_eq!(
        (record.how, record.outcome),
        (Some(How::Fallback), Outcome::Ok)
    );
    engine.send(OK).await;
    assert_eq!(first.answer().await.status, 200);
}

#[tokio::test]
async fn no_more_connections_are_kept_than_the_rules_say() {
    for (pool, expected) in [
        (json!({ "idle": 0 }), 3),
        (json!({ "idle_for": "0s" }), 3),
        (json!({}), 1),
    ] {
        let engine = sim().await;
        let mut rules = engines(&[("stable", engine.address())]);
        rules["engines"]["stable"]["pool"] = pool.clone();
        let greylag = Greylag::start(&rules.to_string());
        let mut client = Client::to(greylag.address()).await;
        for _ in 0..3 {
            assert_eq!(client.chat(&[], PLAIN).await.status, 200);
        }
        assert_eq!(connections(&engine), expected, "{pool}");
    }
}

#[tokio::test]
async fn an_http_2_connection_has_no_more_streams_than_the_rules_say() {
    let mut hand = h2::Hand::start().await;
    let mut rules = engines(&[("stable", hand.address())]);
    rules["engines"]["stable"]["grpc"] = format!("http://{}", hand.address()).into();
    rules["engines"]["stable"]["pool"] = json!({ "streams": 2 });
    let keys = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";
    let greylag = Greylag::with(keys, &rules.to_string());
    let mut peer = Peer::to(greylag.address()).await;
    let grpc = ("content-type", "application/grpc");
    let (mut asking, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        asking.push(peer.ask("POST", "/test.Echo/Say", &[grpc]).await);
        calls.push(hand.call().await);
    }
    let shown = greylag.engine("stable").await["grpc"].clone();
    assert_eq!(
        (&shown["pool"]["http2"], &shown["pool"]["streams"]),
        (&json!(3), &json!(5))
    );
    assert_eq!(shown["requests"], 5);
}
