//! WebSockets, as a client meets them.

use super::DEADLINE;
use super::client::{Client, End};
use crate::{Ending, Engine, Settings};

fn upgrade(order: &str) -> Vec<u8> {
    format!("GET /v1/realtime HTTP/1.1\r\nHost: engine\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nx-sim: {order}\r\n\r\n").into_bytes()
}

async fn opened(order: &str) -> (Engine, Client) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    let answer = client.ask(&upgrade(order)).await;
    assert_eq!(answer.status, 101);
    let accept = answer.header("sec-websocket-accept");
    assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    (engine, client)
}

#[tokio::test]
async fn every_byte_comes_back() {
    let (engine, mut client) = opened("").await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    client.send(&bytes).await;
    assert!(
        client
            .read_until(|unread| unread.len() >= bytes.len())
            .await
    );
    assert!(client.unread() == bytes);
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    let seen = engine.seen();
    assert_eq!(seen.requests[0].received, 100_000);
    let ending = seen.requests[0].ended.unwrap().ending;
    assert_eq!(ending, Ending::ClientClosed { after_events: 0 });
}

#[tokio::test]
async fn data_may_come_with_the_head_and_be_sent_ahead_of_it() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client
        .send(&[upgrade("greeting=5"), b"early".to_vec()].concat())
        .await;
    assert!(
        client
            .read_until(|unread| unread.ends_with(b"\r\n\r\nxxxxxearly"))
            .await
    );
}

#[tokio::test]
async fn a_tunnel_is_cut_and_stalled_where_that_is_ordered() {
    for (how, end) in [("fin", End::Fin), ("rst", End::Rst)] {
        let (engine, mut client) = opened(&format!("cut=3;how={how}")).await;
        client.send(b"abcdef").await;
        assert_eq!(client.rest().await, (b"abc".to_vec(), end));
        assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
        let ending = engine.seen().requests[0].ended.unwrap().ending;
        assert_eq!(ending, Ending::Broken { after_events: 0 });
    }
    let (_engine, mut client) = opened("stall=2;for=20ms;cut=4").await;
    client.send(b"abcdef").await;
    assert_eq!(client.rest().await, (b"abcd".to_vec(), End::Fin));
    let (engine, mut client) = opened("stall=2").await;
    client.send(b"abcdef").await;
    assert!(client.read_until(|unread| unread == b"ab").await);
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
}

#[tokio::test]
async fn a_tunnel_is_refused_or_never_answered() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    assert_eq!(client.ask(&upgrade("status=400")).await.status, 400);
    let keyless = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
    assert_eq!(
        client.ask(keyless).await.status,
        400,
        "the connection goes on"
    );
    client.send(&upgrade("hang")).await;
    assert!(engine.wait_for(|seen| seen.count == 3, DEADLINE).await);
    assert!(client.unread().is_empty());
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 3, DEADLINE).await);
}
