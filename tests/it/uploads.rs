//! Uploads that are passed on as they come, and answers that begin before the upload has ended.

use std::time::Duration;

use greylag_filters::outcome::{End, Outcome};

use crate::hand::Hand;
use crate::harness::{Client, Greylag, asked, engines, sim, within};

/// No inference route: its bodies are passed on as they come.
const UPLOAD: &str = "POST /v1/files HTTP/1.1\r\nhost: test\r\ncontent-length: 100000\r\n\r\nbegin";

async fn start(timeouts: serde_json::Value) -> (Hand, Greylag) {
    let hand = Hand::start().await;
    let mut rules = engines(&[("stable", hand.address())]);
    rules["engines"]["stable"]["timeouts"] = timeouts;
    let greylag = Greylag::start(&rules.to_string());
    (hand, greylag)
}

#[tokio::test]
async fn an_engine_is_not_blamed_for_a_client_that_pauses() {
    let (mut hand, greylag) = start(serde_json::json!({ "first_byte": "200ms" })).await;
    let mut client = Client::to(greylag.address()).await;
    client.send(UPLOAD).await;
    let mut engine = hand.accept().await;
    engine.until("begin").await;
    // Longer than the engine may take for its first byte, which it owes only after the request's last one.
    tokio::time::sleep(Duration::from_millis(700)).await;
    client.send(vec![b'a'; 100_000 - "begin".len()]).await;
    engine.request().await;
    engine
        .send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await;
    assert_eq!(client.answer().await.text(), "ok");

    // Once it has all, it owes an answer.
    client.send(UPLOAD).await;
    client.send(vec![b'a'; 100_000 - "begin".len()]).await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.header("x-greylag-reason")),
        (504, Some("first_byte_timeout"))
    );
}

#[tokio::test]
async fn no_byte_of_an_early_answer_waits_for_a_later_one() {
    for framing in [
        "content-length: 10\r\n\r\nhello",
        "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let (mut hand, greylag) = start(serde_json::json!({})).await;
        let mut client = Client::to(greylag.address()).await;
        client.send(UPLOAD).await;
        let mut engine = hand.accept().await;
        engine.until("begin").await;
        engine.send(format!("HTTP/1.1 200 OK\r\n{framing}")).await;
        client.until("hello").await;
        // What the client goes on to send is of no use to anybody, and harms nobody.
        client.send(vec![b'a'; 50_000]).await;
        let rest = if framing.contains("chunked") {
            "5\r\nworld\r\n0\r\n\r\n"
        } else {
            "world"
        };
        engine.send(rest).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.whole, &*answer.text()),
            (true, "helloworld"),
            "{framing}"
        );
        assert_eq!(answer.header("connection"), Some("close"));
        let record = greylag.records_of(1).await.remove(0);
        assert_eq!(record.outcome, Outcome::Ok);
    }
}

#[tokio::test]
async fn a_client_that_leaves_an_upload_that_is_answered_frees_the_engine() {
    for whole in [false, true] {
        let (mut hand, greylag) = start(serde_json::json!({})).await;
        let mut client = Client::to(greylag.address()).await;
        client.send(UPLOAD).await;
        let mut engine = hand.accept().await;
        engine.until("begin").await;
        engine
            .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
            .await;
        client.until("hello").await;
        if whole {
            client.send(vec![b'a'; 100_000 - "begin".len()]).await;
        }
        drop(client);
        within("the engine to be let go", async {
            while engine.more().await {}
        })
        .await;
        let record = greylag.records_of(1).await.remove(0);
        assert_eq!(record.end, End::ClientGone);
    }
}

#[tokio::test]
async fn an_interim_answer_does_not_end_an_upload() {
    for path in ["/v1/files", "/v1/chat/completions"] {
        for interim in [
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        ] {
            let (mut hand, greylag) = start(serde_json::json!({ "first_byte": "2s" })).await;
            let mut client = Client::to(greylag.address()).await;
            let body = vec![b'a'; 20_000_000];
            let length = body.len();
            let sending = tokio::spawn(async move {
                client.ask(&format!("POST {path}"), &[], &body).await;
                client
            });
            let mut engine = hand.accept().await;
            engine.send(interim).await;
            // Until the interim answer is there and no more of the body can be taken.
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(
                engine.request().await.body.len(),
                length,
                "{path} {interim}"
            );
            engine
                .send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await;
            let mut client = sending.await.expect("it is sent");
            let mut answer = client.head().await;
            if interim.contains("103") {
                assert_eq!(answer.status, 103);
                answer = client.head().await;
            }
            assert_eq!(answer.status, 200);
        }
    }
}

#[tokio::test]
async fn a_body_that_memory_could_never_hold_is_passed_on() {
    let engine = sim().await;
    let greylag = Greylag::with(
        "limits: { drain_wait: 0s, drain: 5s, memory: 4KiB, ring: 0B }",
        &engines(&[("stable", engine.address())]).to_string(),
    );
    let text = "word ".repeat(10_000);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],"max_tokens":1}}"#);
    let mut client = Client::to(greylag.address()).await;
    assert_eq!(client.chat(&[], &body).await.status, 200);
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n";
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    client
        .send(format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}"))
        .await;
    assert_eq!(client.answer().await.status, 200);
    let requests = asked(&engine);
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(request.body.as_deref() == Some(body.as_bytes()));
    }
}
