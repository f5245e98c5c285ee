//! When a request goes out a second time, and when it must not; and which connections are used again.

use greylag::reply::Reason;
use greylag_filters::outcome::Outcome;
use greylag_sim::{Engine, Settings};

use crate::hand::Hand;
use crate::harness::{Client, Greylag, asked, connections, engines};

const CHAT: &str = "/v1/chat/completions";
const PLAIN: &str = r#"{"model":"tiny","messages":[],"max_tokens":1}"#;
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A Greylag whose pool has one connection to the engine, whose other end is returned.
async fn pooled() -> (Hand, Greylag, Client, Client) {
    let mut hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    client.ask("GET /warm", &[], "").await;
    let (mut engine, _) = hand.request().await;
    engine.send(OK).await;
    assert_eq!(client.answer().await.text(), "ok");
    (hand, greylag, client, engine)
}

#[tokio::test]
async fn a_request_on_a_stale_connection_goes_out_once_more() {
    for reset in [false, true] {
        for body in ["", PLAIN] {
            let (mut hand, greylag, mut client, mut engine) = pooled().await;
            client.ask(&format!("POST {CHAT}"), &[], body).await;
            let first = engine.request().await;
            if reset {
                engine.socket.set_zero_linger().unwrap();
            }
            drop(engine);
            let (mut engine, second) = hand.request().await;
            assert_eq!((&first.head, &first.body), (&second.head, &second.body));
            assert_eq!(second.body, body.as_bytes());
            engine.send(OK).await;
            let answer = client.answer().await;
            assert_eq!((answer.status, &*answer.text()), (200, "ok"));
            let records = greylag.records_of(2).await;
            assert_eq!((records[0].attempts, records[0].reused), (1, false));
            assert_eq!((records[1].attempts, records[1].reused), (2, false));
            assert_eq!(records[1].outcome, Outcome::Ok);
            assert_eq!(greylag.metric("greylag_retried_total").await, Some(1.0));
        }
    }
}

#[tokio::test]
async fn no_request_goes_out_a_third_time() {
    let (mut hand, greylag, mut client, mut engine) = pooled().await;
    client.ask(&format!("POST {CHAT}"), &[], PLAIN).await;
    engine.request().await;
    drop(engine);
    let (engine, _) = hand.request().await;
    drop(engine);
    let answer = client.answer().await;
    assert_eq!(answer.header("x-greylag-reason"), Some("engine_closed"));
    let records = greylag.records_of(2).await;
    assert_eq!(records[1].attempts, 2);
    assert!(!hand.is_called());
}

#[tokio::test]
async fn an_engine_that_had_begun_to_answer_is_not_asked_again() {
    for (said, reason) in [
        ("HTTP/1.1 103 Early Hints\r\n\r\n", Reason::EngineClosed),
        ("HTTP/1.1 100 Continue\r\n\r\n", Reason::EngineClosed),
        ("HTTP/1.1 2", Reason::EngineClosed),
        ("what is this\r\n\r\n", Reason::EngineGarbage),
    ] {
        let (hand, greylag, mut client, mut engine) = pooled().await;
        client.ask(&format!("POST {CHAT}"), &[], PLAIN).await;
        engine.request().await;
        engine.send(said).await;
        if said.contains("103") {
            assert_eq!(client.head().await.status, 103);
        }
        drop(engine);
        let answer = client.answer().await;
        let found = (answer.status, answer.header("x-greylag-reason"));
        assert_eq!(found, (502, Some(reason.code())), "{said:?}");
        let records = greylag.records_of(2).await;
        assert_eq!(
            (records[1].attempts, records[1].reused),
            (1, true),
            "{said:?}"
        );
        assert_eq!(records[1].outcome, Outcome::EngineReset);
        assert!(!hand.is_called(), "{said:?}");
    }
}

#[tokio::test]
async fn a_short_body_of_any_route_is_in_memory_and_sent_again() {
    let (mut hand, greylag, mut client, mut engine) = pooled().await;
    client.ask("POST /tokenize", &[], PLAIN).await;
    engine.request().await;
    drop(engine);
    let (mut engine, again) = hand.request().await;
    assert_eq!(again.body, PLAIN.as_bytes());
    engine.send(OK).await;
    assert_eq!(client.answer().await.status, 200);
    let records = greylag.records_of(2).await;
    assert_eq!((records[1].attempts, records[1].reused), (2, false));
}

#[tokio::test]
async fn a_body_that_cannot_be_sent_again_takes_no_connection_that_may_be_stale() {
    for chunked in [false, true] {
        let (mut hand, greylag, mut client, engine) = pooled().await;
        let body = "x".repeat(20 << 10);
        if chunked {
            let head = "POST /v1/files HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
            client.send(format!("{head}{chunk}")).await;
        } else {
            client.ask("POST /v1/files", &[], &body).await;
        }
        let (mut fresh, asked) = hand.request().await;
        assert!(asked.body.len() >= body.len());
        fresh.send(OK).await;
        assert_eq!(client.answer().await.status, 200);
        let records = greylag.records_of(2).await;
        assert_eq!((records[1].attempts, records[1].reused), (1, false));
        drop(engine);
    }
}

#[tokio::test]
async fn an_engine_that_dies_late_may_have_died_of_the_request() {
    let (hand, greylag, mut client, mut engine) = pooled().await;
    client.ask(&format!("POST {CHAT}"), &[], PLAIN).await;
    engine.request().await;
    // A stale connection shows itself within a second.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    drop(engine);
    let answer = client.answer().await;
    assert_eq!(answer.header("x-greylag-reason"), Some("engine_closed"));
    let records = greylag.records_of(2).await;
    assert_eq!((records[1].attempts, records[1].reused), (1, true));
    assert!(!hand.is_called());
}

#[tokio::test]
async fn a_fresh_connection_that_fails_is_not_tried_again() {
    let mut hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    client.ask(&format!("POST {CHAT}"), &[], PLAIN).await;
    let (engine, _) = hand.request().await;
    drop(engine);
    assert_eq!(client.answer().await.status, 502);
    let records = greylag.records_of(1).await;
    assert_eq!((records[0].attempts, records[0].reused), (1, false));
    assert!(!hand.is_called());
}

#[tokio::test]
async fn an_engine_that_closes_between_requests_is_not_noticed_by_clients() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    for i in 0..50 {
        let answer = client.chat(&["x-sim: close_after"], PLAIN).await;
        assert_eq!((answer.status, answer.whole), (200, true), "{i}");
    }
    let records = greylag.records_of(50).await;
    assert!(records.iter().all(|record| record.outcome == Outcome::Ok));
    // None was answered twice.
    assert_eq!(asked(&engine).len(), 50);
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_whole_answer_only() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    let stream = PLAIN.replace('}', ",\"stream\":true}");
    for i in 0..20 {
        let mut client = Client::to(greylag.address()).await;
        let body = if i % 2 == 0 { PLAIN } else { &stream };
        assert!(client.chat(&[], body).await.whole);
        assert_eq!(client.get("/version").await.status, 200);
    }
    assert_eq!((asked(&engine).len(), connections(&engine)), (40, 1));
    // A cut answer ends its connection, and so does a client that leaves in the middle.
    let mut client = Client::to(greylag.address()).await;
    assert!(!client.chat(&["x-sim: cut=1"], &stream).await.whole);
    let mut client = Client::to(greylag.address()).await;
    assert!(client.chat(&[], PLAIN).await.whole);
    assert_eq!(connections(&engine), 2);
    let fields = ["content-type: application/json", "x-sim: stall=1"];
    client.ask(&format!("POST {CHAT}"), &fields, &stream).await;
    client.until("data: ").await;
    drop(client);
    greylag.records_of(43).await;
    let mut client = Client::to(greylag.address()).await;
    assert!(client.chat(&[], PLAIN).await.whole);
    assert_eq!(connections(&engine), 3);
    let records = greylag.records_of(44).await;
    assert!(records.iter().all(|record| record.attempts == 1));
}
