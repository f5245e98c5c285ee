//! Answers of engines that are in order, in every framing there is.
//!
//! The engine is played by hand, so that "no byte waits for a later one" is an order and not a time: the next piece is
//! only sent when the one before has reached the client.

use greylag_filters::outcome::Outcome;
use serde_json::json;

use crate::hand::Hand;
use crate::harness::{Asked, Client, Greylag, engines};

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = r#"{"messages":[],"stream":true}"#;
const PLAIN: &str = r#"{"messages":[]}"#;

async fn start() -> (Hand, Greylag) {
    let hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    (hand, greylag)
}

/// Sends `ask` on a new connection, hands it to a new connection of the engine, and answers there with `bytes`.
async fn answered(
    hand: &mut Hand,
    greylag: &Greylag,
    ask: &str,
    bytes: &str,
) -> (Client, Client, Asked) {
    let mut client = Client::to(greylag.address()).await;
    client.send(ask).await;
    let (mut engine, asked) = hand.request().await;
    engine.send(bytes).await;
    (client, engine, asked)
}

#[tokio::test]
async fn an_answer_without_a_body_ends_with_its_head() {
    let (mut hand, greylag) = start().await;
    for (method, bytes, status, length) in [
        ("HEAD", "200 OK\r\ncontent-length: 5000", 200, Some("5000")),
        ("HEAD", "200 OK\r\ntransfer-encoding: chunked", 200, None),
        ("HEAD", "404 Not Found\r\ncontent-length: 9", 404, Some("9")),
        ("GET", "204 No Content", 204, None),
        ("POST", "204 No Content", 204, None),
        (
            "GET",
            "304 Not Modified\r\netag: \"x\"\r\ncontent-length: 77",
            304,
            Some("77"),
        ),
        ("GET", "304 Not Modified", 304, None),
        ("GET", "200 OK\r\ncontent-length: 0", 200, Some("0")),
    ] {
        let mut client = Client::to(greylag.address()).await;
        let mut engine = None;
        // Twice on one connection: nothing of the first is left over on either side.
        for _ in 0..2 {
            client.ask(&format!("{method} /x"), &[], "").await;
            let mut peer = match engine.take() {
                Some(peer) => peer,
                None => hand.accept().await,
            };
            let asked = peer.request().await;
            assert!(asked.head.starts_with(&format!("{method} /x HTTP/1.1\r\n")));
            peer.send(format!("HTTP/1.1 {bytes}\r\n\r\n")).await;
            let answer = client.head().await;
            assert_eq!(answer.status, status, "{method} {bytes}");
            assert_eq!(answer.header("content-length"), length, "{method} {bytes}");
            assert_eq!(answer.header("transfer-encoding"), None, "{method} {bytes}");
            assert_eq!(answer.header("connection"), Some("keep-alive"));
            assert_eq!(client.held(), b"", "{method} {bytes}");
            engine = Some(peer);
        }
        // The next row gets an engine's connection of its own.
        engine.unwrap().socket.set_zero_linger().unwrap();
    }
}

#[tokio::test]
async fn an_interim_answer_reaches_those_who_can_have_it() {
    let (mut hand, greylag) = start().await;
    let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\nconnection: x-own\r\nx-own: 1\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    for fields in ["", "content-length: 2\r\n"] {
        let ask = format!("POST /x HTTP/1.1\r\nhost: test\r\n{fields}\r\n");
        let body = if fields.is_empty() { "" } else { "{}" };
        let (mut client, mut engine, _) =
            answered(&mut hand, &greylag, &(ask.clone() + body), early).await;
        // It does not wait for the answer.
        assert_eq!(
            client.head().await.head,
            "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        );
        engine.send(last).await;
        assert_eq!(client.answer().await.text(), "ok");

        let ask = ask.replace("HTTP/1.1", "HTTP/1.0") + body;
        let (mut client, _engine, _) =
            answered(&mut hand, &greylag, &ask, &format!("{early}{last}")).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, &*answer.text()), (200, "ok"));
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_whole() {
    let (mut hand, greylag) = start().await;
    for (version, path, body) in [
        ("HTTP/1.0", "/x", ""),
        ("HTTP/1.1", "/x", ""),
        ("HTTP/1.0", CHAT, PLAIN),
        ("HTTP/1.1", CHAT, STREAM),
    ] {
        for client_version in ["HTTP/1.1", "HTTP/1.0"] {
            let ask = format!(
                "POST {path} {client_version}\r\nhost: test\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let head = format!("{version} 200 OK\r\nserver: old\r\n\r\n");
            let (mut client, mut engine, _) = answered(&mut hand, &greylag, &ask, &head).await;
            let found = client.head().await;
            assert!(found.head.starts_with("HTTP/1.1 200 OK\r\n"));
            for piece in ["one", "two"] {
                engine.send(piece).await;
                client.until(piece).await;
            }
            drop(engine);
            if client_version == "HTTP/1.1" {
                assert_eq!(found.header("transfer-encoding"), Some("chunked"));
                client.until("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n").await;
                // The engine's connection is not used again, the client's is.
                client.ask("GET /y", &[], "").await;
                let (mut engine, asked) = hand.request().await;
                assert!(asked.head.starts_with("GET /y"));
                engine
                    .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .await;
                client.until("content-length: 0\r\n").await;
            } else {
                assert_eq!(found.header("connection"), Some("close"));
                while client.more().await {}
                assert_eq!(client.held(), b"onetwo");
            }
        }
    }
    let records = greylag.records_of(12).await;
    assert!(
        records
            .iter()
            .all(|record| matches!(record.outcome, Outcome::Ok | Outcome::Truncated))
    );
}

#[tokio::test]
async fn an_old_client_gets_no_chunks() {
    let (mut hand, greylag) = start().await;
    for (path, body) in [("/x", ""), (CHAT, STREAM)] {
        for fields in ["", "connection: keep-alive\r\n"] {
            let ask = format!(
                "POST {path} HTTP/1.0\r\n{fields}content-length: {}\r\n\r\n{body}",
                body.len()
            );
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let (mut client, mut engine, _) = answered(&mut hand, &greylag, &ask, head).await;
            let found = client.head().await;
            assert_eq!(found.header("transfer-encoding"), None);
            assert_eq!(found.header("content-length"), None);
            assert_eq!(found.header("connection"), Some("close"));
            for piece in ["data: 1\n\n", "data: 2\n\n"] {
                engine.send(format!("9\r\n{piece}\r\n")).await;
                assert_eq!(client.take(9).await, piece.as_bytes());
            }
            engine.send("0\r\n\r\n").await;
            assert!(client.ended().await);
        }
    }
}

#[tokio::test]
async fn a_connection_is_kept_by_the_rules_of_its_version() {
    let (mut hand, greylag) = start().await;
    for (version, fields, kept) in [
        ("HTTP/1.1", "", true),
        ("HTTP/1.1", "connection: close\r\n", false),
        ("HTTP/1.1", "connection: x-own, CLOSE\r\n", false),
        (
            "HTTP/1.1",
            "connection: x-own\r\nconnection: close\r\n",
            false,
        ),
        ("HTTP/1.0", "", false),
        ("HTTP/1.0", "connection: keep-alive\r\n", true),
    ] {
        let ask = format!("GET /x {version}\r\nhost: test\r\n{fields}\r\n");
        let reply = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
        let (mut client, _engine, asked) = answered(&mut hand, &greylag, &ask, reply).await;
        // The engine's connection is not the client's.
        assert_eq!(asked.all("connection"), [""; 0], "{fields}");
        let answer = client.answer().await;
        let said = if kept { "keep-alive" } else { "close" };
        assert_eq!(answer.all("connection"), [said], "{version} {fields}");
        assert_eq!(answer.text(), "ok");
        if kept {
            client.ask("GET /y", &[], "").await;
            let (mut engine, asked) = hand.request().await;
            assert!(asked.head.starts_with("GET /y "));
            engine.send(reply).await;
            assert_eq!(client.answer().await.text(), "ok");
        } else {
            assert!(client.ended().await);
        }
    }
}

#[tokio::test]
async fn the_fields_of_an_answer_are_the_engines_but_for_those_of_one_connection() {
    let (mut hand, greylag) = start().await;
    let ours = "X-CaMeL: Value, with  spaces\r\nset-cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nx-empty:\r\nx-tab: a\tb\r\n\
        x-utf8: h\u{e9}\u{1f986}\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nx-request-id: r-1\r\nwww-authenticate: Basic\r\n\
        x-symbols: !#$%&'*+-.^_`|~()<>@,;:\\\"/[]?={}\r\ncontent-type: application/json\r\n";
    let theirs = "connection: keep-alive, x-own\r\nx-own: 1\r\nkeep-alive: timeout=5\r\nproxy-authenticate: Basic\r\n\
        trailer: x-late\r\nupgrade: h2c\r\nproxy-connection: keep-alive\r\nte: trailers\r\n";
    let bytes = format!("HTTP/1.1 299 Quite Fine\r\n{ours}{theirs}content-length: 2\r\n\r\n{{}}");
    let ask = "GET /x HTTP/1.1\r\nhost: test\r\n\r\n";
    let (mut client, mut engine, _) = answered(&mut hand, &greylag, ask, &bytes).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, &*answer.text()), (299, "{}"));
    for name in [
        "x-own",
        "keep-alive",
        "proxy-authenticate",
        "trailer",
        "upgrade",
        "proxy-connection",
        "te",
    ] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.all("set-cookie"), ["a=1; Path=/", "b=2"]);
    assert_eq!(answer.all("connection"), ["keep-alive"]);
    assert_eq!(answer.all("content-length"), ["2"]);
    assert_eq!(answer.all("x-greylag-engine"), ["stable"]);
    assert_eq!(answer.all("date").len(), 1);
    for line in ours.lines().filter(|line| !line.starts_with("date")) {
        let (name, value) = line.split_once(':').unwrap();
        let kept = answer.head.lines().any(|found| {
            found
                .split_once(':')
                .is_some_and(|(n, v)| n == name && v.trim() == value.trim())
        });
        assert!(kept, "{line:?} is not in {}", answer.head);
    }
    // It was in order, so its connection is used again.
    client.ask("GET /y", &[], "").await;
    assert!(engine.request().await.head.starts_with("GET /y "));
}

#[tokio::test]
async fn a_head_that_trickles_in_is_read() {
    let (mut hand, greylag) = start().await;
    let ask = "GET /x HTTP/1.1\r\nhost: test\r\n\r\n";
    let (mut client, mut engine, _) = answered(&mut hand, &greylag, ask, "").await;
    for byte in b"HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nok" {
        engine.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    let answer = client.answer().await;
    assert_eq!((answer.header("x-a"), &*answer.text()), (Some("1"), "ok"));
}

#[derive(Clone, Copy, Debug)]
enum Frame {
    Length,
    Chunks,
    Close,
}

#[tokio::test]
async fn no_byte_of_an_answer_waits_for_a_later_one() {
    let (mut hand, greylag) = start().await;
    let events = [
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a",
        "b\"}}]}\n",
        "\n",
        ": comment\n\n",
        "data: [DONE]\n\n",
    ];
    let json = ["{\"choices\"", ":[]", "}"];
    let mut count = 0;
    for frame in [Frame::Length, Frame::Chunks, Frame::Close] {
        for (path, ask, media, pieces) in [
            (CHAT, STREAM, "text/event-stream", &events[..]),
            (CHAT, PLAIN, "application/json", &json[..]),
            (CHAT, STREAM, "text/plain", &json[..]),
            ("/v1/other", "", "text/event-stream", &events[..]),
        ] {
            let what = format!("{frame:?} {path} {media}");
            let length: usize = pieces.iter().map(|piece| piece.len()).sum();
            let framing = match frame {
                Frame::Length => format!("content-length: {length}\r\n"),
                Frame::Chunks => "transfer-encoding: chunked\r\n".into(),
                Frame::Close => "connection: close\r\n".into(),
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\n{framing}\r\n");
            let ask = format!(
                "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{ask}",
                ask.len()
            );
            let (mut client, mut engine, _) = answered(&mut hand, &greylag, &ask, &head).await;
            // vLLM sends the head long before the first token.
            let answer = client.head().await;
            assert_eq!(answer.header("content-type"), Some(media), "{what}");
            let mut whole = String::new();
            for piece in pieces {
                let framed = match frame {
                    Frame::Chunks => format!("{:x}\r\n{piece}\r\n", piece.len()),
                    Frame::Length | Frame::Close => (*piece).to_owned(),
                };
                engine.send(framed).await;
                whole.push_str(piece);
                if matches!(frame, Frame::Length) {
                    assert_eq!(client.take(piece.len()).await, piece.as_bytes(), "{what}");
                } else {
                    let framed = format!("{:x}\r\n{piece}\r\n", piece.len());
                    let taken = client.take(framed.len()).await;
                    assert_eq!(String::from_utf8_lossy(&taken), framed, "{what}");
                }
            }
            if matches!(frame, Frame::Chunks) {
                engine.send("0\r\n\r\n").await;
            }
            drop(engine);
            if !matches!(frame, Frame::Length) {
                assert_eq!(client.take(5).await, b"0\r\n\r\n", "{what}");
            }
            count += 1;
            let records = greylag.records_of(count).await;
            let record = records.last().unwrap();
            assert_eq!(record.answer_bytes, length as u64, "{what}");
            assert_eq!(record.outcome, Outcome::Ok, "{what}");
        }
    }
}

#[tokio::test]
async fn a_single_byte_does_not_wait_either() {
    let (mut hand, greylag) = start().await;
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\u{e9}llo\"}}]}\n\ndata: [DONE]\n\n";
    let ask = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{STREAM}",
        STREAM.len()
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let (mut client, mut engine, _) = answered(&mut hand, &greylag, &ask, &head).await;
    client.head().await;
    for byte in body.bytes() {
        engine.send([byte]).await;
        assert_eq!(client.take(1).await, [byte]);
    }
    let records = greylag.records_of(1).await;
    assert_eq!(records[0].figures.as_ref().unwrap().token_events, 1);
}

#[tokio::test]
async fn only_an_unfinished_event_is_held_where_usage_was_injected() {
    let mut hand = Hand::start().await;
    let mut rules = engines(&[("stable", hand.address())]);
    rules["engines"]["stable"]["usage"] = json!("inject");
    let greylag = Greylag::start(&rules.to_string());
    let ask = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{STREAM}",
        STREAM.len()
    );
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (mut client, mut engine, asked) = answered(&mut hand, &greylag, &ask, head).await;
    let body = String::from_utf8(asked.body).unwrap();
    assert_eq!(
        body,
        r#"{"messages":[],"stream":true,"stream_options":{"include_usage":true}}"#
    );
    assert_eq!(asked.head.matches("accept-encoding: identity").count(), 1);
    client.head().await;
    let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    for _ in 0..2 {
        let (first, second) = token.split_at(20);
        engine.send(chunk(first)).await;
        engine.send(chunk(second)).await;
        client.until("}\n\n\r\n").await;
        let text = String::from_utf8(client.take(client.held().len()).await).unwrap();
        // The beginning was held: the event leaves in one piece.
        assert_eq!(text, format!("{:x}\r\n{token}\r\n", token.len()));
    }
    engine.send(chunk(usage)).await;
    engine.send(chunk("data: [DONE]\n\n") + "0\r\n\r\n").await;
    client.until("0\r\n\r\n").await;
    let rest = String::from_utf8_lossy(client.held()).into_owned();
    assert_eq!(rest, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    let records = greylag.records_of(1).await;
    let figures = records[0].figures.as_ref().unwrap();
    assert_eq!(figures.usage.unwrap().completion, Some(2));
    assert_eq!(figures.token_events, 2);
}
