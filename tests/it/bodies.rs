//! Request bodies: every length and framing, the bounds of what is held, edits, and what is done about half a body.

use greylag_filters::outcome::{End, Outcome};
use greylag_sim::{Ending, Engine};
use serde_json::json;

use crate::hand::Hand;
use crate::harness::{Client, Greylag, asked, contains, engines, eventually, limits, sim};

const CHAT: &str = "/v1/chat/completions";
/// No inference route: its bodies are passed on as they come.
const OTHER: &str = "/v1/files";

async fn start(keys: &str, edits: &serde_json::Value) -> (Engine, Greylag) {
    let engine = sim().await;
    let mut rules = engines(&[("stable", engine.address())]);
    if edits.is_object() {
        rules["engines"]["stable"]["set"] = edits.clone();
    }
    let greylag = Greylag::with(keys, &rules.to_string());
    (engine, greylag)
}

/// A chat request whose text makes it `length` bytes long.
fn chat_of(length: usize) -> String {
    let frame = r#"{"messages":[{"role":"user","content":""}],"max_tokens":1}"#;
    let text: String = "word ".chars().cycle().take(length - frame.len()).collect();
    frame.replace("\"\"", &format!("\"{text}\""))
}

fn head(path: &str, fields: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n{fields}\r\n")
}

fn in_chunks(body: &str, size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in body.as_bytes().chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// The engine's last request.
fn last(engine: &Engine) -> std::sync::Arc<greylag_sim::seen::Request> {
    asked(engine).pop().expect("it got one")
}

async fn unmetered(greylag: &Greylag, reason: &str) -> Option<f64> {
    let series = format!("greylag_unmetered_total{{reason=\"{reason}\"}}");
    greylag.metric(&series).await
}

#[tokio::test]
async fn a_body_of_any_length_and_framing_reaches_the_engine() {
    let (engine, greylag) = start("", &json!(null)).await;
    let mut client = Client::to(greylag.address()).await;
    for path in [CHAT, OTHER] {
        for length in [100, 4_095, 4_096, 4_097, 65_535, 65_536, 70_000, 5_000_000] {
            let body = chat_of(length);
            let answer = client.post(path, &[], &body).await;
            assert!(answer.whole, "{path} {length}");
            let request = last(&engine);
            assert!(
                request.body.as_deref() == Some(body.as_bytes()),
                "{path} {length}"
            );
            assert_eq!(request.header("content-length"), Some(&*length.to_string()));
            for size in [length, 1 << 14, 7_001] {
                client
                    .send(head(path, "transfer-encoding: chunked\r\n"))
                    .await;
                client.send(in_chunks(&body, size)).await;
                assert!(client.answer().await.whole, "{path} {length} by {size}");
                let request = last(&engine);
                assert!(
                    request.body.as_deref() == Some(body.as_bytes()),
                    "{path} {length} by {size}"
                );
                // What is in memory has a length, what is passed on has none.
                let chunked = request.header("transfer-encoding").is_some();
                assert_eq!(chunked, path == OTHER);
            }
        }
    }
    assert_eq!(engine.seen().refused, 0);
}

#[tokio::test]
async fn an_empty_body_is_empty_in_every_framing() {
    let (engine, greylag) = start("", &json!(null)).await;
    let mut client = Client::to(greylag.address()).await;
    for path in [CHAT, OTHER] {
        for (fields, rest) in [
            ("", ""),
            ("content-length: 0\r\n", ""),
            ("transfer-encoding: chunked\r\n", "0\r\n\r\n"),
        ] {
            client.send(head(path, fields) + rest).await;
            let answer = client.answer().await;
            assert_eq!(answer.header("x-greylag-engine"), Some("stable"));
            assert_eq!(last(&engine).body.as_deref(), Some(&b""[..]));
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_passes_unread() {
    let (engine, greylag) = start(&limits("body: 1KiB"), &json!(null)).await;
    let mut client = Client::to(greylag.address()).await;
    let exact = chat_of(1024);
    client.chat(&[], &exact).await;
    for (count, length) in [(1, 1025), (3, 200_000)] {
        let body = chat_of(length).replace(r#"{"messages"#, r#"{"model":"tiny","messages"#);
        let answer = client.chat(&[], &body).await;
        assert_eq!((answer.status, answer.whole), (200, true));
        assert!(last(&engine).body.as_deref() == Some(body.as_bytes()));
        assert!(last(&engine).header("content-length").is_some());
        client
            .send(head(CHAT, "transfer-encoding: chunked\r\n"))
            .await;
        client.send(in_chunks(&body, 500)).await;
        assert_eq!(client.answer().await.status, 200);
        assert!(last(&engine).body.as_deref() == Some(body.as_bytes()));
        assert!(last(&engine).header("transfer-encoding").is_some());
        let records = greylag.records_of(count + 2).await;
        for record in &records[count..] {
            assert_eq!(record.model, None);
            assert_eq!(record.outcome, Outcome::Ok);
            assert_eq!(record.request_bytes, body.len() as u64);
        }
    }
    assert_eq!(unmetered(&greylag, "request_too_large").await, Some(4.0));
    assert_eq!(greylag.metric("greylag_body_memory_bytes").await, Some(0.0));
}

#[tokio::test]
async fn a_body_over_the_limit_that_must_be_edited_is_refused() {
    let (engine, greylag) = start(&limits("body: 1KiB"), &json!({"model": "tiny"})).await;
    for length in [1025, 5_000_000] {
        let body = chat_of(length);
        let by_length = format!("content-length: {length}\r\n");
        for (fields, body) in [
            (&*by_length, body.clone().into_bytes()),
            ("transfer-encoding: chunked\r\n", in_chunks(&body, 1000)),
        ] {
            let mut client = Client::to(greylag.address()).await;
            client.send(head(CHAT, fields)).await;
            client.send(body).await;
            let answer = client.answer().await;
            let found = (answer.status, answer.header("x-greylag-reason"));
            assert_eq!(found, (413, Some("body_too_large")), "{length} {fields}");
            assert!(client.ended().await);
        }
    }
    let mut client = Client::to(greylag.address()).await;
    assert_eq!(client.chat(&[], &chat_of(1000)).await.status, 200);
    assert_eq!(asked(&engine).len(), 1);
    let records = greylag.records_of(5).await;
    assert!(
        records[..4]
            .iter()
            .all(|record| record.outcome == Outcome::Refused && record.attempts == 0)
    );
}

#[tokio::test]
async fn memory_that_is_spent_is_refused_and_comes_back() {
    let (engine, greylag) = start(&limits("memory: 1088KiB, ring: 1MiB"), &json!(null)).await;
    let mut holder = Client::to(greylag.address()).await;
    let body = chat_of(60_000);
    let fields = format!("content-length: {}\r\n", body.len());
    holder.send(head(CHAT, &fields) + &body[..50_000]).await;
    greylag
        .metric_reaches("greylag_body_memory_bytes", 50_000.0)
        .await;
    let mut client = Client::to(greylag.address()).await;
    let answer = client.chat(&[], &chat_of(20_000)).await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("1"))
    );
    assert_eq!(answer.header("x-greylag-reason"), Some("memory_spent"));
    let mut client = Client::to(greylag.address()).await;
    assert_eq!(client.chat(&[], &chat_of(1_000)).await.status, 200);
    holder.send(&body[50_000..]).await;
    assert_eq!(holder.answer().await.status, 200);
    assert_eq!(client.chat(&[], &chat_of(60_000)).await.status, 200);
    greylag.records_of(4).await;
    assert_eq!(greylag.metric("greylag_body_memory_bytes").await, Some(0.0));
    assert_eq!(asked(&engine).len(), 3);
    // Memory is given back when the client leaves in the middle too.
    let mut leaver = Client::to(greylag.address()).await;
    leaver.send(head(CHAT, &fields) + &body[..50_000]).await;
    greylag
        .metric_reaches("greylag_body_memory_bytes", 50_000.0)
        .await;
    drop(leaver);
    let records = greylag.records_of(5).await;
    assert_eq!(records[4].outcome, Outcome::ClientGone);
    assert_eq!(greylag.metric("greylag_body_memory_bytes").await, Some(0.0));
}

#[tokio::test]
async fn a_body_is_no_longer_held_while_the_answer_runs() {
    let mut hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    let body = chat_of(60_000);
    client.ask(&format!("POST {CHAT}"), &[], &body).await;
    let (mut engine, request) = hand.request().await;
    assert!(request.body == body.as_bytes());
    assert_eq!(
        greylag.metric("greylag_body_memory_bytes").await,
        Some(60_000.0)
    );
    engine
        .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n")
        .await;
    client.head().await;
    assert_eq!(greylag.metric("greylag_body_memory_bytes").await, Some(0.0));
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_only_refused_where_it_must_be_edited() {
    let deep = format!(r#"{{"x":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "",
        "{",
        "[]",
        "\"model\"",
        "null",
        "{\"model\":}",
        "{}{}",
        "{\"a\":1}x",
        "\u{feff}{}",
        &deep,
    ];
    let (engine, greylag) = start("", &json!(null)).await;
    let mut client = Client::to(greylag.address()).await;
    for body in bodies {
        client.chat(&[], body).await;
        assert!(
            last(&engine).body.as_deref() == Some(body.as_bytes()),
            "{body:.40}"
        );
    }
    let (engine, greylag) = start("", &json!({"model": "tiny"})).await;
    let mut client = Client::to(greylag.address()).await;
    for body in bodies {
        let answer = client.chat(&[], body).await;
        let found = (answer.status, answer.header("x-greylag-reason"));
        assert_eq!(found, (400, Some("invalid_json")), "{body:.40}");
        assert_eq!(
            answer.header("connection"),
            Some("keep-alive"),
            "{body:.40}"
        );
    }
    assert_eq!(asked(&engine).len(), 0);
    // What is no inference is not edited.
    client.post(OTHER, &[], "{").await;
    assert_eq!(last(&engine).body.as_deref(), Some(&b"{"[..]));
}

#[tokio::test]
async fn an_edit_changes_its_field_and_no_other_byte() {
    let (engine, greylag) = start("", &json!({"model": "tiny", "seed": 7})).await;
    let mut client = Client::to(greylag.address()).await;
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    for (body, expected) in [
        ("{}", r#"{"model":"tiny","seed":7}"#),
        (
            r#"{ "model" : "x" , "seed":1e2 }"#,
            r#"{ "model" : "tiny" , "seed":7 }"#,
        ),
        (
            r#"{"model":"a","model":"b","seed":null}"#,
            r#"{"model":"tiny","model":"tiny","seed":7}"#,
        ),
        (
            r#"{"mo\u0064el":{"model":"in"},"seed":[1]}"#,
            r#"{"mo\u0064el":"tiny","seed":7}"#,
        ),
        (
            r#"{"n":123456789012345678901234567890,"f":1.10e+400,"model":"é\ud83d\ude00","seed":0}"#,
            r#"{"n":123456789012345678901234567890,"f":1.10e+400,"model":"tiny","seed":7}"#,
        ),
        (
            &format!(r#"{{"x":{deep},"model":1,"seed":1}}"#),
            &format!(r#"{{"x":{deep},"model":"tiny","seed":7}}"#),
        ),
    ] {
        let length = format!("content-length: {}\r\n", body.len());
        for (framing, framed) in [
            (&*length, body.as_bytes().to_vec()),
            ("transfer-encoding: chunked\r\n", in_chunks(body, 3)),
        ] {
            client.send(head(CHAT, framing)).await;
            client.send(framed).await;
            client.answer().await;
            let request = last(&engine);
            assert_eq!(
                String::from_utf8_lossy(request.body.as_ref().unwrap()),
                expected
            );
            assert_eq!(
                request.header("content-length"),
                Some(&*expected.len().to_string())
            );
            assert_eq!(request.header("transfer-encoding"), None);
        }
    }
}

#[tokio::test]
async fn an_encoded_body_is_not_edited() {
    let (engine, greylag) = start("", &json!({"model": "other"})).await;
    let mut client = Client::to(greylag.address()).await;
    let body = r#"{"model":"tiny","messages":[]}"#;
    let answer = client.chat(&["content-encoding: gzip"], body).await;
    assert_eq!(answer.status, 200);
    let request = last(&engine);
    assert_eq!(request.body.as_deref(), Some(body.as_bytes()));
    assert_eq!(request.header("content-encoding"), Some("gzip"));
    let records = greylag.records_of(1).await;
    assert_eq!(records[0].model, None);
    assert_eq!(unmetered(&greylag, "request_encoded").await, Some(1.0));
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_answered() {
    let (engine, greylag) = start("", &json!(null)).await;
    let mut client = Client::to(greylag.address()).await;
    let body = chat_of(1_000);
    for (path, expect) in [
        (CHAT, "100-continue"),
        (OTHER, "100-Continue"),
        (CHAT, "100-continue"),
    ] {
        let fields = format!("expect: {expect}\r\ncontent-length: {}\r\n", body.len());
        client.send(head(path, &fields)).await;
        let interim = client.head().await;
        assert_eq!(interim.head, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send(&body).await;
        let answer = client.answer().await;
        assert_eq!(answer.header("x-greylag-engine"), Some("stable"));
        let request = last(&engine);
        assert_eq!(request.header("expect"), None);
        assert_eq!(request.body.as_deref(), Some(body.as_bytes()));
    }
    // One that sends no body is not waited for.
    client
        .send(head(CHAT, "expect: 100-continue\r\ncontent-length: 0\r\n"))
        .await;
    assert_eq!(client.answer().await.status, 400);
    // HTTP/1.0 knows no interim answers.
    let mut old = Client::to(greylag.address()).await;
    let fields = format!("expect: 100-continue\r\ncontent-length: {}\r\n", body.len());
    old.send(head(CHAT, &fields).replace("HTTP/1.1", "HTTP/1.0") + &body)
        .await;
    assert_eq!(old.answer().await.status, 200);
}

#[tokio::test]
async fn half_a_body_is_no_request() {
    let (engine, greylag) = start("", &json!(null)).await;
    let chunked = "transfer-encoding: chunked\r\n";
    for (count, (path, fields, half)) in [
        (CHAT, "content-length: 100\r\n", "{\"messages\":"),
        (CHAT, chunked, "c\r\n{\"messages\":\r\n"),
        (CHAT, chunked, "c\r\n{\"mess"),
        (CHAT, chunked, "2\r\n{}\r\n0\r\n"),
        (OTHER, "content-length: 100\r\n", "{\"messages\":"),
        (OTHER, chunked, "c\r\n{\"messages\":\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let before = asked(&engine).len();
        let mut client = Client::to(greylag.address()).await;
        client.send(head(path, fields) + half).await;
        if path == OTHER {
            let came = || (asked(&engine).len() > before).then_some(());
            eventually("its head", came).await;
        }
        drop(client);
        let records = greylag.records_of(count + 1).await;
        let record = &records[count];
        assert_eq!(
            (record.outcome, record.end),
            (Outcome::ClientGone, End::ClientGone),
            "{path} {half:?}"
        );
        if path == OTHER {
            let ended = || Some(last(&engine)).filter(|request| request.ended.is_some());
            let request = eventually("its end", ended).await;
            assert_eq!(request.body, None);
            let ending = request.ended.unwrap().ending;
            assert_eq!(ending, Ending::ClientClosed { after_events: 0 });
        } else {
            assert_eq!(asked(&engine).len(), before);
        }
    }
}

#[tokio::test]
async fn each_piece_of_a_streamed_body_leaves_before_the_next_comes() {
    let mut hand = Hand::start().await;
    let greylag = Greylag::start(&engines(&[("stable", hand.address())]).to_string());
    for fields in ["content-length: 9\r\n", "transfer-encoding: chunked\r\n"] {
        let mut client = Client::to(greylag.address()).await;
        client.send(head(OTHER, fields)).await;
        let mut engine = hand.accept().await;
        engine.until("\r\n\r\n").await;
        let chunked = fields.contains("chunked");
        for piece in ["one", "two", "six"] {
            let framed = if chunked {
                format!("3\r\n{piece}\r\n")
            } else {
                piece.into()
            };
            client.send(framed).await;
            engine.until(piece).await;
        }
        if chunked {
            client.send("0\r\n\r\n").await;
            engine.until("\r\n0\r\n\r\n").await;
        }
        engine
            .send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
            .await;
        assert_eq!(client.answer().await.text(), "ok");
    }
}

#[tokio::test]
async fn an_early_answer_to_an_unfinished_upload_reaches_the_client() {
    for keys in [String::new(), limits("body: 1KiB")] {
        let (engine, greylag) = start(&keys, &json!(null)).await;
        for chunked in [false, true] {
            let body = chat_of(5_000_000);
            let mut client = Client::to(greylag.address()).await;
            let answer = if chunked {
                client
                    .send(head(
                        CHAT,
                        "x-sim: early=413\r\ntransfer-encoding: chunked\r\n",
                    ))
                    .await;
                client.send(in_chunks(&body, 50_000)).await;
                client.answer().await
            } else {
                client.chat(&["x-sim: early=413"], &body).await
            };
            assert_eq!(answer.status, 413, "{keys} {chunked}");
            assert_eq!(answer.header("x-greylag-engine"), Some("stable"));
            let records = greylag.records_of(1 + usize::from(chunked)).await;
            let record = records.last().unwrap();
            assert_eq!((record.outcome, record.attempts), (Outcome::EngineError, 1));
        }
        let mut client = Client::to(greylag.address()).await;
        assert_eq!(client.chat(&[], &chat_of(100)).await.status, 200);
        eventually("closed connections", || {
            (engine.seen().open <= 1).then_some(())
        })
        .await;
        assert!(!contains(&last(&engine).head, b"early"));
    }
}
