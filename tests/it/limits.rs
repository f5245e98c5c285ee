//! Bounds: connections, clients that do not read, engines that do not read, and many requests on one connection.

use std::io;

use greylag::reply::Reason;
use greylag_filters::outcome::{End, Outcome};
use greylag_sim::{Engine, Settings};
use tokio::net::TcpStream;

use crate::hand::Hand;
use crate::harness::{Client, Greylag, asked, connections, engines, eventually, limits, within};

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = r#"{"model":"tiny","messages":[],"stream":true}"#;
/// More than the kernel's buffers of two connections hold, less than an unbounded queue would take.
const BOUND: usize = 64 << 20;

#[tokio::test]
async fn a_connection_over_the_limit_is_told_so_and_a_freed_seat_is_used() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let rules = engines(&[("stable", engine.address())]).to_string();
    let greylag = Greylag::with(&limits("connections: 2"), &rules);
    for round in 1..4_u32 {
        let mut first = Client::to(greylag.address()).await;
        assert_eq!(first.get("/version").await.status, 200);
        let mut second = Client::to(greylag.address()).await;
        assert_eq!(second.get("/version").await.status, 200);
        let mut third = Client::to(greylag.address()).await;
        let answer = third.get("/version").await;
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("1"))
        );
        assert_eq!(
            answer.header("x-greylag-reason"),
            Some("too_many_connections")
        );
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(third.ended().await);
        drop(third);
        let series = "greylag_refused_total{reason=\"too_many_connections\"}";
        assert_eq!(greylag.metric(series).await, Some(f64::from(round)));
        // Those who have a seat keep it.
        assert_eq!(first.get("/version").await.status, 200);
        assert_eq!(second.get("/version").await.status, 200);
        drop((first, second));
        let none = |connections: f64| connections == 0.0;
        greylag.metric_until("greylag_connections", none).await;
    }
    assert_eq!(greylag.records().len(), 12);
}

#[tokio::test]
async fn many_requests_come_on_one_connection() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    for i in 0..200 {
        let answer = client.chat(&[], STREAM).await;
        assert_eq!((answer.status, answer.whole), (200, true), "{i}");
        assert_eq!(answer.header("connection"), Some("keep-alive"), "{i}");
    }
    assert_eq!((asked(&engine).len(), connections(&engine)), (200, 1));
    assert_eq!(greylag.records_of(200).await.len(), 200);
}

/// Writes `piece` again and again until the peer closes; how many bytes were written.
async fn pour(socket: &TcpStream, piece: &[u8]) -> io::Result<usize> {
    let mut poured = 0;
    loop {
        socket.writable().await?;
        match socket.try_write(piece) {
            Ok(written) => poured += written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut one = [0];
                tokio::select! {
                    writable = socket.writable() => writable?,
                    // Its end, or its reset.
                    _ = socket.readable() => match socket.try_read(&mut one) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Ok(_) | Err(_) => return Ok(poured),
                    },
                }
            }
            Err(_) => return Ok(poured),
        }
        assert!(
            poured < BOUND,
            "{poured} bytes were taken that nobody has read"
        );
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_let_go_and_harms_nobody() {
    let event = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        "a".repeat(900)
    );
    for (body, media) in [(STREAM, "text/event-stream"), ("{}", "application/json")] {
        let mut hand = Hand::start().await;
        let rules = engines(&[("stable", hand.address())]).to_string();
        let greylag = Greylag::with(&limits("write: 300ms"), &rules);
        let mut lazy = Client::to(greylag.address()).await;
        lazy.ask(&format!("POST {CHAT}"), &[], body).await;
        let (mut engine, _) = hand.request().await;
        engine
            .send(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: 1000000000000\r\n\r\n"
            ))
            .await;
        lazy.head().await;
        let piece = event.repeat(16);
        let pouring = tokio::spawn(async move { pour(&engine.socket, piece.as_bytes()).await });

        // Beside it, others are served, all the while.
        let mut neighbour = Client::to(greylag.address()).await;
        let mut peer: Option<Client> = None;
        let mut served = 0;
        while !pouring.is_finished() {
            neighbour.ask("GET /beside", &[], "").await;
            let mut one = match peer.take() {
                Some(peer) => peer,
                None => hand.accept().await,
            };
            one.request().await;
            one.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await;
            assert_eq!(neighbour.answer().await.text(), "ok");
            peer = Some(one);
            served += 1;
        }
        assert!(served > 0);
        let poured = within("the engine to be let go", pouring)
            .await
            .unwrap()
            .unwrap();
        let records = eventually("the record", || {
            let records = greylag.records();
            records
                .iter()
                .any(|record| record.end == End::ClientStalled)
                .then_some(records)
        })
        .await;
        let record = records
            .iter()
            .find(|record| record.end == End::ClientStalled)
            .unwrap();
        assert_eq!(
            (record.outcome, record.reason),
            (Outcome::ClientGone, Some(Reason::ClientStalled))
        );
        assert!(record.answer_bytes <= poured as u64);
        drop(lazy);
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything() {
    let mut hand = Hand::start().await;
    let rules = engines(&[("stable", hand.address())]).to_string();
    let greylag = Greylag::start(&rules);
    let mut client = Client::to(greylag.address()).await;
    client.ask("GET /big", &[], "").await;
    let (mut engine, _) = hand.request().await;
    let body: Vec<u8> = (0..30_000_000_u32).map(|i| (i % 251) as u8).collect();
    let sent = body.clone();
    let sending = tokio::spawn(async move {
        engine
            .send(format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                sent.len()
            ))
            .await;
        engine.send(sent).await;
        engine
    });
    client.head().await;
    // It takes so much at a time, and lets others go first.
    let mut piece = Vec::new();
    while piece.len() < body.len() {
        let count = (body.len() - piece.len()).min(1 << 20);
        piece.extend(client.take(count).await);
        tokio::task::yield_now().await;
    }
    assert!(piece == body);
    sending.await.unwrap();
}

#[tokio::test]
async fn an_engine_that_does_not_read_holds_the_client_and_no_memory() {
    let mut hand = Hand::start().await;
    let rules = engines(&[("stable", hand.address())]).to_string();
    let greylag = Greylag::start(&rules);
    let mut client = Client::to(greylag.address()).await;
    let length: usize = 1 << 40;
    client
        .send(format!(
            "POST /v1/files HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n"
        ))
        .await;
    let mut engine = hand.accept().await;
    engine.until("\r\n\r\n").await;
    let pouring = tokio::spawn(async move { pour(&client.socket, &[b'a'; 1 << 14]).await });
    // Its bytes come to rest in the kernel's buffers: a neighbour's exchanges pass meanwhile.
    let mut neighbour = Client::to(greylag.address()).await;
    for _ in 0..50 {
        neighbour.ask("GET /beside", &[], "").await;
        let mut peer = hand.accept().await;
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
            .await;
        assert_eq!(neighbour.answer().await.text(), "ok");
    }
    assert_eq!(greylag.metric("greylag_body_memory_bytes").await, Some(0.0));
    // The engine ends it by an answer, which reaches a client that is still writing.
    engine
        .send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .await;
    drop(engine);
    within("the client to be let go", pouring)
        .await
        .unwrap()
        .unwrap();
    let upload = |record: &&std::sync::Arc<greylag::record::Record>| &*record.path == "/v1/files";
    let record = eventually("the record", || {
        greylag.records().iter().find(upload).cloned()
    })
    .await;
    assert_eq!(record.status, Some(413));
}

#[tokio::test]
async fn a_slow_reader_of_an_upload_gets_all_of_it() {
    for path in [CHAT, "/v1/files"] {
        let mut hand = Hand::start().await;
        let rules = engines(&[("stable", hand.address())]).to_string();
        let greylag = Greylag::start(&rules);
        let mut client = Client::to(greylag.address()).await;
        let body = vec![b'a'; 5_000_000];
        let sent = body.clone();
        let sending = tokio::spawn(async move {
            client.ask(&format!("POST {path}"), &[], &sent).await;
            client.answer().await
        });
        let mut engine = hand.accept().await;
        engine.until("\r\n\r\n").await;
        let asked = engine.request().await;
        assert!(asked.body == body, "{path}");
        engine
            .send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await;
        assert_eq!(sending.await.unwrap().text(), "ok");
    }
}

#[tokio::test]
async fn an_engine_that_sends_interim_heads_without_end_fills_no_memory() {
    let mut hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    client.ask("POST /v1/chat/completions", &[], "{}").await;
    let (mut engine, _) = hand.request().await;
    let hint = format!(
        "HTTP/1.1 103 Early Hints\r\nlink: <{}>\r\n\r\n",
        "x".repeat(8000)
    );
    // Far more than the sockets' buffers hold, and the client reads none of it.
    for _ in 0..4000 {
        engine.send(&hint).await;
    }
    engine
        .send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await;
    let mut hints = 0;
    let answer = loop {
        let head = client.head().await;
        if head.status != 103 {
            break head;
        }
        hints += 1;
    };
    assert_eq!(answer.status, 200);
    // What there was room for came, and the rest was left out.
    assert!((1..4000).contains(&hints), "{hints}");
}
