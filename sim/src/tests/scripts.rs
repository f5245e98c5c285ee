//! Scripted answers reach the client byte for byte, cut as told.

use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::DEADLINE;
use super::client::{Client, End, STREAM, chat, within};
use crate::{Cuts, Ending, Engine, Script, Step};

const RAW: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[tokio::test]
async fn scripts_are_played_in_order_and_then_the_engine_is_honest() {
    let scripts = [Cuts::Whole, Cuts::ByteByByte, Cuts::At(vec![17, 39])]
        .map(|cuts| Script::capture(RAW, cuts));
    let engine = Engine::scripted(scripts).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    for _ in 0..3 {
        assert_eq!(client.ask(&chat("", "")).await.text(), "hello");
        assert_eq!(
            client.ask(b"GET /health HTTP/1.1\r\n\r\n").await.text(),
            "",
            "a probe takes no script"
        );
    }
    assert!(
        client
            .ask(&chat("", ""))
            .await
            .text()
            .contains("chat.completion")
    );
}

#[tokio::test]
async fn a_named_script_is_played_to_who_names_it() {
    let engine = Engine::scripted([]).await.unwrap();
    engine.add_script("hello", Script::capture(RAW, Cuts::Whole));
    let mut client = Client::connect(engine.address()).await;
    for _ in 0..2 {
        assert_eq!(
            client
                .ask(&chat("x-sim-script: hello\r\n", ""))
                .await
                .text(),
            "hello"
        );
    }
    assert_ne!(client.ask(&chat("", "")).await.text(), "hello");
    let unknown = client.ask(&chat("x-sim-script: helo\r\n", "")).await;
    assert!(unknown.status == 400 && unknown.text().contains("helo"));
}

#[tokio::test]
async fn pieces_with_a_pause_between_them_arrive_one_by_one() {
    let pieces = [
        b"HTTP/1.1 ".to_vec(),
        b"200 OK\r\n".to_vec(),
        b"\r\nbody".to_vec(),
    ];
    let steps = pieces
        .iter()
        .cloned()
        .map(Step::Bytes)
        .chain([Step::Fin])
        .collect();
    let engine = Engine::scripted([Script(steps).paced(Duration::from_millis(50))])
        .await
        .unwrap();
    let mut client = Client::connect(engine.address()).await;
    client.send(&chat("", STREAM)).await;
    for piece in pieces {
        let mut read = vec![0; 1_000];
        let length = within(client.stream.read(&mut read)).await.unwrap();
        assert_eq!(read[..length], piece);
    }
}

#[tokio::test]
async fn a_script_ends_its_connection_as_told() {
    for (step, end) in [(Step::Fin, End::Fin), (Step::Rst, End::Rst)] {
        let engine = Engine::scripted([Script::capture(b"HTTP/1.1 2", Cuts::Whole).then(step)])
            .await
            .unwrap();
        let mut client = Client::connect(engine.address()).await;
        client.send(&chat("", STREAM)).await;
        assert_eq!(client.rest().await, (b"HTTP/1.1 2".to_vec(), end));
    }
}

#[tokio::test]
async fn a_script_waits_for_the_client() {
    let script = Script(vec![
        Step::Bytes(b"a".to_vec()),
        Step::WaitForByte,
        Step::Bytes(b"b".to_vec()),
        Step::ReadRequest,
    ]);
    let script = script
        .then(Step::Bytes(b"c".to_vec()))
        .then(Step::WaitForClose);
    let engine = Engine::scripted([script]).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client.send(&chat("", STREAM)).await;
    assert!(client.read_until(|unread| unread == b"a").await);
    client.send(b"GET / HT").await;
    assert!(client.read_until(|unread| unread == b"ab").await);
    client.send(b"TP/1.1\r\n\r\n").await;
    assert!(client.read_until(|unread| unread == b"abc").await);
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    assert_eq!(
        engine.seen().requests[0].ended.unwrap().ending,
        Ending::ClientClosed { after_events: 0 }
    );
}
