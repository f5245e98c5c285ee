//! A client that leaves is noticed at once, wherever the engine waits.

use super::DEADLINE;
use super::client::{Client, STREAM, chat, order};
use crate::{Ending, Engine, Settings};

/// Stands in every token event and in no other.
const EVENT: &str = "\"token_ids\":null";

/// Asks under `what`, reads until `until` has come so many `times`, leaves, and waits for the engine to notice. Every
/// wait the order makes is an hour long, so that only the close can end it.
async fn check(what: &str, fields: &str, until: &str, times: u64, reset: bool) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client.send(&chat(&order(what), fields)).await;
    let found =
        |unread: &[u8]| String::from_utf8_lossy(unread).matches(until).count() as u64 >= times;
    assert!(client.read_until(found).await);
    assert!(
        engine
            .wait_for(
                |seen| seen
                    .requests
                    .front()
                    .is_some_and(|request| request.body.is_some()),
                DEADLINE
            )
            .await
    );
    if reset {
        client.stream.set_zero_linger().unwrap();
    }
    drop(client);
    assert!(
        engine
            .wait_for(
                |seen| seen.ended == 1 && seen.open == 0 && seen.running == 0,
                DEADLINE
            )
            .await,
        "{what}"
    );
    let ending = engine.seen().requests[0].ended.unwrap().ending;
    let after_events = if until == EVENT { times } else { 0 };
    assert_eq!(ending, Ending::ClientClosed { after_events }, "{what}");
}

#[tokio::test]
async fn while_it_waits() {
    for reset in [false, true] {
        check("ttft=1h", STREAM, "\r\n\r\n", 1, reset).await;
        check("ttft=1h", "", "", 0, reset).await;
        check("itl=1h", STREAM, EVENT, 1, reset).await;
        check("stall=3", STREAM, EVENT, 3, reset).await;
        check("wait=1h", STREAM, "", 0, reset).await;
        check("stall=3", "", "\r\n\r\n{\"i", 0, reset).await;
        check("hang", STREAM, "", 0, reset).await;
        check("hang_head", STREAM, "HTTP/1.1 200", 1, reset).await;
    }
}

#[tokio::test]
async fn while_it_writes() {
    // More than the socket buffers of both sides hold.
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client
        .send(&chat(&order("huge_event=16777216"), STREAM))
        .await;
    assert!(client.read_until(|unread| unread.len() > 100_000).await);
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    assert!(matches!(
        engine.seen().requests[0].ended.unwrap().ending,
        Ending::ClientClosed { .. }
    ));
}

#[tokio::test]
async fn while_it_reads() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client
        .send(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\nsome")
        .await;
    assert!(engine.wait_for(|seen| seen.count == 1, DEADLINE).await);
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    let seen = engine.seen();
    assert_eq!(
        seen.requests[0].ended.unwrap().ending,
        Ending::ClientClosed { after_events: 0 }
    );
    assert_eq!(seen.requests[0].body, None);
}
