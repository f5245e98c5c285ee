//! Answers that are no HTTP, ambiguous, broken in their framing, or that nobody asked for: an engine played by hand.

use std::sync::Arc;

use greylag::record::Record;
use greylag_filters::outcome::{End, Outcome};

use crate::hand::Hand;
use crate::harness::{Answer, Client, Greylag, engines};

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = r#"{"messages":[],"stream":true}"#;

/// What an engine sends in answer to one request, and then closes; the client's answer and the record.
async fn given(bytes: &str) -> (Answer, Arc<Record>) {
    let mut hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    client.ask(&format!("POST {CHAT}"), &[], STREAM).await;
    let (mut engine, _) = hand.request().await;
    engine.send(bytes).await;
    drop(engine);
    let answer = client.answer().await;
    let records = greylag.records_of(1).await;
    if !answer.whole {
        assert!(client.ended().await, "{bytes:.80}");
    }
    // The next exchange has a connection of its own, and nothing of this one.
    let mut client = Client::to(greylag.address()).await;
    client.ask("GET /next", &[], "").await;
    let (mut engine, asked) = hand.request().await;
    assert!(asked.head.starts_with("GET /next "), "{bytes:.80}");
    engine
        .send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext")
        .await;
    assert_eq!(client.answer().await.text(), "next", "{bytes:.80}");
    (answer, records[0].clone())
}

#[tokio::test]
async fn an_answer_that_is_not_http_or_ambiguous_makes_a_502() {
    let many: String = (0..300).map(|i| format!("x-{i}: a\r\n")).collect();
    for bytes in [
        "SSH-2.0-OpenSSH_9.6\r\n",
        "\x15\x03\x03\0\x02\x02\x46",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nx-a\0: 1\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok!",
        "HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nok!",
        "HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\n{many}content-length: 2\r\n\r\nok"),
        &format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n", "a".repeat(2 << 20)),
    ] {
        let (answer, record) = given(bytes).await;
        let reason = answer.header("x-greylag-reason");
        assert_eq!(
            (answer.status, reason),
            (502, Some("engine_garbage")),
            "{bytes:.80}"
        );
        assert_eq!(
            (record.end, record.outcome),
            (End::EngineReset, Outcome::EngineReset),
            "{bytes:.80}"
        );
        assert_eq!(record.attempts, 1);
    }
    for bytes in [
        "",
        "HTTP/1.1 200 O",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let (answer, record) = given(bytes).await;
        let reason = answer.header("x-greylag-reason");
        assert_eq!(
            (answer.status, reason),
            (502, Some("engine_closed")),
            "{bytes:?}"
        );
        assert_eq!(
            (record.end, record.outcome),
            (End::EngineClosed, Outcome::EngineReset),
            "{bytes:?}"
        );
        assert_eq!(record.attempts, 1);
    }
}

#[tokio::test]
async fn a_body_that_breaks_its_framing_is_not_whole_at_the_client() {
    let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let chunk = format!("{:x}\r\n{token}\r\n", token.len());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    let length = format!("{head}content-length: {}\r\n\r\n", 2 * token.len());
    let garbage = (End::EngineReset, Outcome::EngineReset);
    let closed = (End::EngineClosed, Outcome::Truncated);
    for (bytes, (end, outcome)) in [
        (format!("{chunked}{chunk}zz\r\n"), garbage),
        (format!("{chunked}{chunk}-1\r\n"), garbage),
        (format!("{chunked}{chunk}FFFFFFFFFFFFFFFFFF\r\n"), garbage),
        (format!("{chunked}{chunk}"), closed),
        (format!("{chunked}{chunk}8"), closed),
        (format!("{chunked}{chunk}0\r\n"), closed),
        (format!("{length}{token}"), closed),
    ] {
        let (answer, record) = given(&bytes).await;
        assert_eq!((answer.status, answer.whole), (200, false), "{bytes:?}");
        assert_eq!(answer.text(), token, "{bytes:?}");
        assert_eq!((record.end, record.outcome), (end, outcome), "{bytes:?}");
        assert_eq!(
            record.figures.as_ref().unwrap().token_events,
            1,
            "{bytes:?}"
        );
    }
    // A chunk without its line end is no chunk, so nothing of it need come.
    let unended = chunk.strip_suffix("\r\n").unwrap();
    let (answer, record) = given(&format!("{chunked}{unended}XX")).await;
    assert!(!answer.whole && token.starts_with(&answer.text()));
    assert_eq!((record.end, record.outcome), garbage);
    // Half a chunk is passed on as far as it came.
    let (answer, record) = given(&format!("{chunked}1000\r\n{token}")).await;
    assert_eq!((answer.whole, &*answer.text()), (false, token));
    assert_eq!((record.end, record.outcome), closed);
}

#[tokio::test]
async fn what_an_engine_sends_unasked_reaches_nobody() {
    let poison = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison";
    let good = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    for (first, later) in [
        (format!("{good}{poison}"), ""),
        (format!("{chunked}{poison}"), ""),
        (good.to_owned(), poison),
        (chunked.to_owned(), poison),
        (good.to_owned(), "x"),
        (format!("HTTP/1.1 204 No Content\r\n\r\n{poison}"), ""),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), poison),
    ] {
        let mut hand = Hand::start().await;
        let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
        let mut client = Client::to(greylag.address()).await;
        client.ask("GET /first", &[], "").await;
        let (mut engine, _) = hand.request().await;
        engine.send(&first).await;
        let expected = if first.contains("204") { "" } else { "ok" };
        assert_eq!(client.answer().await.text(), expected);
        if !later.is_empty() {
            engine.send(later).await;
        }
        // The connection is of no use any more, and is closed.
        assert!(engine.ended().await, "{first} {later}");
        client.ask("GET /second", &[], "").await;
        let (mut engine, asked) = hand.request().await;
        assert!(asked.head.starts_with("GET /second "));
        engine
            .send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood")
            .await;
        assert_eq!(client.answer().await.text(), "good");
        let records = greylag.records_of(2).await;
        assert!(
            records
                .iter()
                .all(|record| record.outcome == Outcome::Ok && record.attempts == 1)
        );
    }
}
