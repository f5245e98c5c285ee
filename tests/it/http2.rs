//! Clients that speak HTTP/2, in front of engines that speak HTTP/1.1.

use bytes::Bytes;
use greylag_filters::outcome::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::h2::{Peer, write};
use crate::hand::Hand;
use crate::harness::{Client, Greylag, asked, engines, eventually, sim, within};

const LISTEN: &str = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";
const CHAT: &str = "/v1/chat/completions";
const JSON: (&str, &str) = ("content-type", "application/json");
const STREAM: &[u8] =
    br#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":8}"#;

fn before(engine: std::net::SocketAddr) -> Greylag {
    Greylag::with(LISTEN, &engines(&[("stable", engine)]).to_string())
}

#[tokio::test]
async fn a_stream_comes_whole_and_is_metered() {
    let engine = sim().await;
    let greylag = before(engine.address());
    let mut peer = Peer::to(greylag.address()).await;
    let answer = peer.whole("POST", CHAT, &[JSON], STREAM).await.unwrap();
    assert_eq!(answer.head.status(), 200);
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(answer.header("x-greylag-engine"), Some("stable"));
    for absent in ["connection", "transfer-encoding", "keep-alive"] {
        assert_eq!(answer.header(absent), None, "{absent}");
    }
    assert!(answer.header("date").is_some());
    let record = greylag.records_of(1).await[0].clone();
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(record.figures.as_ref().unwrap().token_events, 8);
    let asked = asked(&engine);
    assert_eq!(asked[0].header("host"), Some("models.test"));
    assert_eq!(
        asked[0].header("content-length"),
        Some(&*STREAM.len().to_string())
    );
}

#[tokio::test]
async fn answers_without_a_body_end_with_their_head() {
    let mut hand = Hand::start().await;
    let greylag = before(hand.address());
    let mut peer = Peer::to(greylag.address()).await;
    for (method, head) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ] {
        let asking = async { peer.whole(method, "/x", &[], b"").await.unwrap() };
        let answering = async {
            let (mut engine, asked) = hand.request().await;
            assert!(asked.head.starts_with(&format!("{method} /x HTTP/1.1\r\n")));
            engine.send(head).await;
            engine
        };
        let (answer, _) = tokio::join!(asking, answering);
        assert!(answer.body.is_empty());
        assert_eq!(answer.head.status().as_str(), &head[9..12]);
    }
}

#[tokio::test]
async fn a_large_body_reaches_the_engine_and_comes_back() {
    let mut hand = Hand::start().await;
    let greylag = before(hand.address());
    let mut peer = Peer::to(greylag.address()).await;
    let body: Vec<u8> = (0..4 << 20).map(|i: u32| (i % 251) as u8).collect();
    let asking = async { peer.whole("POST", "/x", &[], &body).await.unwrap() };
    let answering = async {
        let (mut engine, asked) = hand.request().await;
        // No length was given, so none is known.
        assert_eq!(asked.all("transfer-encoding"), ["chunked"]);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            asked.body.len()
        );
        engine.send(head).await;
        engine.send(&asked.body).await;
        engine
    };
    let (answer, _) = tokio::join!(asking, answering);
    assert!(answer.body == body);
    assert_eq!(
        answer.header("content-length"),
        Some(&*body.len().to_string())
    );
}

#[tokio::test]
async fn an_early_answer_to_an_unfinished_upload_arrives() {
    let mut hand = Hand::start().await;
    let greylag = before(hand.address());
    let mut peer = Peer::to(greylag.address()).await;
    let mut asking = peer.ask("POST", "/x", &[]).await;
    write(&mut asking.out, b"begun").await.unwrap();
    let mut engine = hand.accept().await;
    engine.until("begun").await;
    engine
        .send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno")
        .await;
    let answer = asking.whole().await.unwrap();
    assert_eq!(
        (answer.head.status().as_u16(), &*answer.body),
        (413, &b"no"[..])
    );
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_send_its_body() {
    let mut hand = Hand::start().await;
    let greylag = before(hand.address());
    let mut peer = Peer::to(greylag.address()).await;
    for (path, body) in [(CHAT, STREAM), ("/tokenize", b"{}")] {
        let mut asking = peer
            .ask("POST", path, &[JSON, ("expect", "100-continue")])
            .await;
        let told = std::future::poll_fn(|cx| asking.answer.poll_informational(cx));
        let told = within("an interim head", told).await.unwrap().unwrap();
        assert_eq!(told.status(), 100, "{path}");
        write(&mut asking.out, body).await.unwrap();
        asking.out.send_data(Bytes::new(), true).unwrap();
        let (mut engine, asked) = hand.request().await;
        assert_eq!(asked.all("expect").len(), 0);
        engine
            .send("HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n")
            .await;
        let answer = asking.whole().await.unwrap();
        assert_eq!(
            (
                answer.head.status().as_u16(),
                answer.header("content-length")
            ),
            (204, None)
        );
    }
}

#[tokio::test]
async fn a_reset_frees_the_engine() {
    let mut hand = Hand::start().await;
    let greylag = before(hand.address());
    let mut peer = Peer::to(greylag.address()).await;
    for head in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: a\n\n",
    ] {
        let mut asking = peer.ask("POST", CHAT, &[JSON]).await;
        write(&mut asking.out, STREAM).await.unwrap();
        asking.out.send_data(Bytes::new(), true).unwrap();
        let (mut engine, _) = hand.request().await;
        engine.send(head).await;
        if head.is_empty() {
            asking.out.send_reset(::h2::Reason::CANCEL);
        } else {
            let mut body = within("a head", asking.answer).await.unwrap().into_body();
            assert_eq!(
                within("an event", body.data()).await.unwrap().unwrap(),
                "data: a\n\n"
            );
            asking.out.send_reset(::h2::Reason::CANCEL);
        }
        assert!(within("the engine's end", engine.ended()).await);
    }
    let records = greylag.records_of(2).await;
    assert!(
        records
            .iter()
            .all(|record| record.outcome == Outcome::ClientGone)
    );
}

#[tokio::test]
async fn an_engine_that_breaks_resets_the_stream_alone() {
    let mut hand = Hand::start().await;
    let greylag = before(hand.address());
    let mut peer = Peer::to(greylag.address()).await;
    let broken = async { peer.whole("GET", "/x", &[], b"").await };
    let breaking = async {
        let (mut engine, _) = hand.request().await;
        engine
            .send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
            .await;
    };
    let (broken, ()) = tokio::join!(broken, breaking);
    assert!(broken.unwrap_err().is_reset());
    let asking = async { peer.whole("GET", "/y", &[], b"").await.unwrap() };
    let answering = async {
        let (mut engine, _) = hand.request().await;
        engine
            .send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await;
        engine
    };
    let (answer, _) = tokio::join!(asking, answering);
    assert_eq!(answer.body, "ok");
}

#[tokio::test]
async fn what_begins_as_http_1_is_served_as_that_however_short() {
    let engine = sim().await;
    let greylag = before(engine.address());
    let mut socket = TcpStream::connect(greylag.address()).await.unwrap();
    socket.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    within("an answer", socket.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 404"));
    let mut client = Client::to(greylag.address()).await;
    assert_eq!(
        client
            .chat(&[], std::str::from_utf8(STREAM).unwrap())
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_stream_that_is_not_read_holds_up_no_neighbour() {
    let engine = sim().await;
    let mut hand = Hand::start().await;
    let rules = engines(&[("stable", hand.address()), ("other", engine.address())]);
    let mut rules = rules;
    rules["splits"] = serde_json::json!([{
        "name": "s", "weights": { "other": 1 }, "match": { "paths": [CHAT] },
    }]);
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    // The window of its connection is larger than that of a stream; else it would hold itself up.
    let mut settings = ::h2::client::Builder::new();
    settings.initial_connection_window_size(1 << 20);
    let mut peer = Peer::with(greylag.address(), &mut settings).await;
    // The answer is never read, and larger than any window.
    let mut unread = peer.ask("GET", "/x", &[]).await;
    unread.out.send_data(Bytes::new(), true).unwrap();
    let (mut big, _) = hand.request().await;
    big.send("HTTP/1.1 200 OK\r\ncontent-length: 67108864\r\n\r\n")
        .await;
    let filling = tokio::spawn(async move {
        let piece = vec![b'x'; 1 << 20];
        // It blocks for good before all is written.
        while big.socket.write_all(&piece).await.is_ok() {}
    });
    let head = within("a head", &mut unread.answer).await.unwrap();
    assert_eq!(head.status(), 200);
    for _ in 0..20 {
        let answer = peer.whole("POST", CHAT, &[JSON], STREAM).await.unwrap();
        assert_eq!(answer.head.status(), 200);
    }
    filling.abort();
}

#[tokio::test]
async fn a_flood_of_resets_ends_the_connection_and_nothing_else() {
    let engine = sim().await;
    let greylag = before(engine.address());
    let mut neighbour = Peer::to(greylag.address()).await;
    let mut flood = Peer::to(greylag.address()).await;
    let mut sent = 0;
    let refused = loop {
        let request = http::Request::builder()
            .method("POST")
            .uri(format!("http://models.test{CHAT}"))
            .body(())
            .unwrap();
        match flood.begin(request).await {
            Ok(mut out) => {
                out.send_reset(::h2::Reason::CANCEL);
                sent += 1;
                tokio::task::yield_now().await;
            }
            Err(error) => break error,
        }
        assert!(sent < 5000, "nobody minds");
    };
    assert!(refused.is_go_away() || refused.is_io(), "{refused:?}");
    let answer = neighbour
        .whole("POST", CHAT, &[JSON], STREAM)
        .await
        .unwrap();
    assert_eq!(answer.head.status(), 200);
    eventually("nothing in flight", || {
        (greylag.app().shared.telemetry.in_flight() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_drain_lets_streams_finish_and_takes_no_more() {
    let mut hand = Hand::start().await;
    let greylag = before(hand.address());
    let mut peer = Peer::to(greylag.address()).await;
    let mut asking = peer.ask("POST", CHAT, &[JSON]).await;
    write(&mut asking.out, STREAM).await.unwrap();
    asking.out.send_data(Bytes::new(), true).unwrap();
    let (mut engine, _) = hand.request().await;
    engine
        .send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: a\n\n")
        .await;
    let mut body = within("a head", asking.answer).await.unwrap().into_body();
    within("an event", body.data()).await.unwrap().unwrap();
    let app = greylag.into_app();
    let stopping = tokio::task::spawn_blocking(move || app.stop());
    // GOAWAY has come when nothing more can be begun.
    within("a refusal", async {
        while peer.is_open().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    engine.send("data: [DONE]\n\n").await;
    drop(engine);
    let mut rest = Vec::new();
    while let Some(piece) = within("the rest", body.data()).await {
        rest.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(rest, b"data: [DONE]\n\n");
    assert_eq!(stopping.await.unwrap(), 0);
}
