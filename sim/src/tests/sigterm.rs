//! An engine that is told to end, as its clients see it.

use std::time::Duration;

use tokio::time::timeout;

use super::DEADLINE;
use super::client::{Answer, Client, End, STREAM, chat, order, post};
use super::http2_client::Http2;
use crate::{Ending, Engine, Settings, Sigterm};

/// Stands in every token event and in no other.
const EVENT: &str = "\"token_ids\":null";

/// A stream under this order that has its first token event.
async fn streaming(what: &str) -> (Engine, Client) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client.send(&chat(&order(what), STREAM)).await;
    let first = |unread: &[u8]| String::from_utf8_lossy(unread).contains(EVENT);
    assert!(client.read_until(first).await);
    (engine, client)
}

#[tokio::test]
async fn streams_end_with_an_error_and_done() {
    let (engine, mut client) = streaming("tokens=3;itl=1h").await;
    engine.sigterm(Sigterm::Aborts);
    let answer = client.answer(true).await;
    let events = answer.events();
    assert!(answer.status == 200 && answer.whole);
    assert!(
        events[events.len() - 2].contains("\"code\": 500"),
        "{events:?}"
    );
    assert_eq!(
        (events.last().unwrap().as_str(), answer.pieces.len()),
        ("[DONE]", 4)
    );
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    let ending = engine.seen().requests[0].ended.unwrap().ending;
    assert_eq!(ending, Ending::Answered { events: 1 });
}

#[tokio::test]
async fn streams_fall_silent() {
    let (engine, mut client) = streaming("tokens=100000;itl=2ms").await;
    engine.sigterm(Sigterm::Hangs);
    let silent = Duration::from_millis(100);
    let mut read = 0;
    // Without the signal an event would come every two milliseconds, for minutes.
    while let Ok(true) = timeout(silent, client.read_until(|unread| unread.len() > read)).await {
        read = client.unread().len();
    }
    assert_eq!(engine.seen().open, 1);
    let events = String::from_utf8_lossy(client.unread())
        .matches(EVENT)
        .count() as u64;
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    let ending = engine.seen().requests[0].ended.unwrap().ending;
    assert_eq!(
        ending,
        Ending::ClientClosed {
            after_events: events
        }
    );
}

async fn finished(client: &mut Client) {
    let answer: Answer = client.answer(true).await;
    assert!(
        answer.whole && answer.text().ends_with("data: [DONE]\n\n"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn streams_go_on_while_health_says_no() {
    let (engine, mut client) = streaming("tokens=3;itl=30ms").await;
    engine.sigterm(Sigterm::Serves);
    let mut other = Client::connect(engine.address()).await;
    assert_eq!(other.ask(b"GET /health HTTP/1.1\r\n\r\n").await.status, 503);
    assert_eq!(other.ask(&chat("", "")).await.status, 200);
    finished(&mut client).await;
}

#[tokio::test]
async fn streams_go_on_while_new_connections_are_reset() {
    let (engine, mut client) = streaming("tokens=3;itl=30ms").await;
    engine.sigterm(Sigterm::Resets);
    let mut other = Client::connect(engine.address()).await;
    assert_eq!(other.rest().await, (Vec::new(), End::Rst));
    finished(&mut client).await;
}

#[tokio::test]
async fn triton_has_no_done_and_http_2_ends_cleanly_too() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    let path = "/v2/models/words/generate_stream";
    client.send(&post(path, &order("itl=1h"), b"{}")).await;
    let http2 = Http2::connect(engine.open(crate::Door::http2()).await.unwrap()).await;
    let other = http2.ask(path, &[("x-sim", "itl=1h")], "{}");
    let ends = async {
        assert!(engine.wait_for(|seen| seen.running == 2, DEADLINE).await);
        engine.sigterm(Sigterm::Aborts);
    };
    let (other, ()) = tokio::join!(other, ends);
    let answer = client.answer(true).await;
    assert!(answer.whole && answer.events().last().unwrap().starts_with("{\"error\""));
    assert!(
        other.broken.is_none() && other.text().contains("{\"error\""),
        "{other:?}"
    );
}
