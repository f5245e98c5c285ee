//! WebSocket: an engine that agrees makes a tunnel of the connection, and bytes go both ways untouched.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use greylag_filters::outcome::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hand::Hand;
use crate::harness::{Client, Greylag, engines, eventually, within};

const ASK: &str = "GET /v1/realtime HTTP/1.1\r\nhost: test\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n";
const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

async fn started() -> (Greylag, Hand) {
    let hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    (greylag, hand)
}

// A tunnel, whose engine has said `first` together with its agreement.
async fn tunnel(greylag: &Greylag, hand: &mut Hand, first: &str) -> (Client, Client) {
    let mut client = Client::to(greylag.address()).await;
    client.send(ASK).await;
    let (mut engine, asked) = hand.request().await;
    assert_eq!(asked.all("upgrade"), ["websocket"]);
    assert_eq!(asked.all("connection"), ["upgrade"]);
    assert_eq!(asked.all("sec-websocket-key"), ["dGhlIHNhbXBsZSBub25jZQ=="]);
    engine.send(format!("{AGREED}{first}")).await;
    client.until("\r\n\r\n").await;
    let head = String::from_utf8(client.take(client.held().len()).await).unwrap();
    let (head, early) = head.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert!(head.contains("x-greylag-engine: stable"));
    let missing = &first[early.len()..];
    assert_eq!(client.take(missing.len()).await, missing.as_bytes());
    (client, engine)
}

#[tokio::test]
async fn every_upgrade_goes_through_however_soon_it_is_agreed_to() {
    let (greylag, mut hand) = started().await;
    for turn in 0..100 {
        let first = if turn % 2 == 0 { "" } else { "hello" };
        let (mut client, mut engine) = tunnel(&greylag, &mut hand, first).await;
        client.send("ping").await;
        assert_eq!(engine.take(4).await, b"ping");
        engine.send("pong").await;
        assert_eq!(client.take(4).await, b"pong");
    }
    let records = greylag.records_of(100).await;
    for record in records {
        assert!(record.is_tunnel);
        assert_eq!((record.status, record.outcome), (Some(101), Outcome::Ok));
        assert_eq!(record.request_bytes, 4);
    }
}

#[tokio::test]
async fn what_is_sent_before_the_agreement_is_not_lost() {
    let (greylag, mut hand) = started().await;
    let mut client = Client::to(greylag.address()).await;
    client.send(format!("{ASK}early")).await;
    let (mut engine, _) = hand.request().await;
    engine.send(AGREED).await;
    assert_eq!(engine.take(5).await, b"early");
    client.send("late").await;
    assert_eq!(engine.take(4).await, b"late");
}

#[tokio::test]
async fn an_echo_of_64_mebibytes_comes_back_whole() {
    const SIZE: usize = 64 << 20;
    let (greylag, mut hand) = started().await;
    let (client, engine) = tunnel(&greylag, &mut hand, "").await;
    let echo = tokio::spawn(async move {
        let (mut read, mut write) = engine.socket.into_split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let (mut read, mut write) = client.socket.into_split();
    let sending = tokio::spawn(async move {
        let piece: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 253) as u8).collect();
        for _ in 0..SIZE >> 20 {
            write.write_all(&piece).await.unwrap();
        }
        write.shutdown().await.unwrap();
    });
    let piece: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 253) as u8).collect();
    let mut come = vec![0; 1 << 20];
    for _ in 0..SIZE >> 20 {
        within("a piece", read.read_exact(&mut come)).await.unwrap();
        assert!(come == piece);
    }
    assert_eq!(within("the end", read.read(&mut come)).await.unwrap(), 0);
    sending.await.unwrap();
    echo.await.unwrap();
    let record = greylag.records_of(1).await[0].clone();
    assert_eq!(
        (record.request_bytes, record.answer_bytes),
        (SIZE as u64, SIZE as u64)
    );
}

#[tokio::test]
async fn who_leaves_ends_the_other_side() {
    let (greylag, mut hand) = started().await;
    let (client, mut engine) = tunnel(&greylag, &mut hand, "").await;
    drop(client);
    assert!(engine.ended().await);
    drop(engine);
    let (mut client, engine) = tunnel(&greylag, &mut hand, "").await;
    drop(engine);
    assert!(client.ended().await);
    drop(client);
    greylag.records_of(2).await;
    eventually("no connection", || {
        (greylag.app().shared.telemetry.in_flight() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_drains_limit_ends_a_tunnel() {
    let hand = &mut Hand::start().await;
    let rules = engines(&[("stable", hand.address())]).to_string();
    let greylag = Greylag::with("limits: { drain_wait: 0s, drain: 100ms }", &rules);
    let (mut client, mut engine) = tunnel(&greylag, hand, "").await;
    let app = greylag.into_app();
    let shared = app.shared.clone();
    let cut = tokio::task::spawn_blocking(move || app.stop())
        .await
        .unwrap();
    assert_eq!(cut, 1);
    assert!(client.ended().await);
    assert!(engine.ended().await);
    assert_eq!(shared.ring_records()[0].outcome, Outcome::Drained);
}

#[tokio::test]
async fn an_engine_that_does_not_agree_answers_as_ever() {
    let (greylag, mut hand) = started().await;
    let mut client = Client::to(greylag.address()).await;
    client.send(ASK).await;
    let (mut engine, _) = hand.request().await;
    engine
        .send("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno")
        .await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.text()), (404, "no".into()));
    // The connection goes on.
    client.ask("GET /x", &[], "").await;
    let asked = engine.request().await;
    assert!(asked.all("upgrade").is_empty());
    engine
        .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn other_upgrades_are_refused_and_a_switch_that_nobody_asked_for_is_too() {
    let (greylag, mut hand) = started().await;
    for (line, upgrade) in [
        ("GET /x", "upgrade: irc"),
        ("POST /x", "upgrade: websocket"),
        ("GET /x", "upgrade: websocket, irc"),
    ] {
        let mut client = Client::to(greylag.address()).await;
        client
            .ask(line, &["connection: upgrade", upgrade], "")
            .await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, answer.header("x-greylag-reason")),
            (501, Some("unsupported"))
        );
    }
    for other in [
        AGREED.replace("upgrade: websocket", "upgrade: irc"),
        AGREED.replace("upgrade: websocket\r\n", ""),
        AGREED.replace("HTTP/1.1", "HTTP/1.0"),
    ] {
        let mut client = Client::to(greylag.address()).await;
        client.send(ASK).await;
        let (mut engine, _) = hand.request().await;
        engine.send(other).await;
        let answer = client.answer().await;
        assert_eq!(answer.header("x-greylag-reason"), Some("engine_garbage"));
    }
    let mut client = Client::to(greylag.address()).await;
    client.ask("GET /x", &[], "").await;
    let (mut engine, _) = hand.request().await;
    engine.send(AGREED).await;
    assert_eq!(
        client.answer().await.header("x-greylag-reason"),
        Some("engine_garbage")
    );
}
