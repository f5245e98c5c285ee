//! What the engine writes has the shape of what a real vLLM wrote: status line, header names, chunks, and in each the
//! same JSON keys in the same order, with values of the same types. The recordings stand in `fixtures/`.

use std::path::Path;

use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::client::{Answer, Client, STREAM, chat, order, within};
use crate::{Engine, Settings};

/// JSON text with empty strings for strings and zeros for numbers; keys, order and the rest stay.
fn skeleton(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (taken, left) = match first {
            '"' => {
                let mut escaped = false;
                let end = rest.char_indices().skip(1).find(|(_, char)| {
                    let closes = *char == '"' && !escaped;
                    escaped = *char == '\\' && !escaped;
                    closes
                });
                let (text, left) = rest.split_at(end.map_or(rest.len(), |(index, _)| index + 1));
                (if left.starts_with(':') { text } else { "\"\"" }, left)
            }
            '0'..='9' | '-' => (
                "0",
                rest.trim_start_matches(|char: char| {
                    char.is_ascii_digit() || "-.eE+".contains(char)
                }),
            ),
            _ => rest.split_at(first.len_utf8()),
        };
        out.push_str(taken);
        rest = left;
    }
    out
}

#[test]
fn a_skeleton_keeps_keys_and_order_and_nothing_else() {
    assert_eq!(
        skeleton(r#"{"b":"x\"y","a":[-1.5,null,{"c":""}]}"#),
        r#"{"b":"","a":[0,null,{"c":""}]}"#
    );
}

/// Status line, header names, skeletons of the chunks.
fn shape(answer: &Answer) -> Vec<String> {
    let names = answer.head.lines().map(|line| {
        line.split_once(": ")
            .map_or(line, |(name, _)| name)
            .to_owned()
    });
    let body = answer.pieces.iter().map(|piece| {
        let text = std::str::from_utf8(piece).unwrap();
        text.strip_prefix("data: ").map_or_else(
            || skeleton(text),
            |data| format!("data: {}", skeleton(data)),
        )
    });
    names.chain(body).collect()
}

/// Reads a recording as a client would.
async fn recorded(name: &str, answers: u64) -> Vec<Answer> {
    let raw = std::fs::read(fixture(name, "response.http")).unwrap();
    let script = crate::Script::capture(&raw, crate::Cuts::Whole).then(crate::Step::Fin);
    let engine = Engine::scripted([script]).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client.send(b"POST / HTTP/1.1\r\n\r\n").await;
    let mut read = Vec::new();
    for _ in 0..answers {
        read.push(client.answer(true).await);
    }
    read
}

pub(super) fn fixture(name: &str, end: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(format!("{name}.{end}"))
}

/// A recorded request, and how often it was sent.
pub(super) fn request(name: &str) -> (Vec<u8>, u64) {
    let request: Value =
        serde_json::from_slice(&std::fs::read(fixture(name, "request.json")).unwrap()).unwrap();
    let mut body = request["json"].clone();
    // The recorded server was smaller.
    if body["max_tokens"] == 5_000 {
        body["max_tokens"] = 5_000_000.into();
    }
    let body = match (&request["raw_body"], body) {
        (Value::String(raw), _) => raw.clone(),
        (_, Value::Null) => String::new(),
        (_, json) => json.to_string(),
    };
    let mut raw = format!(
        "{} {} HTTP/1.1\r\n",
        request["method"].as_str().unwrap(),
        request["path"].as_str().unwrap()
    );
    for (field, value) in request["headers"].as_object().unwrap() {
        if field != "Content-Length" {
            raw.push_str(&format!("{field}: {}\r\n", value.as_str().unwrap()));
        }
    }
    raw.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    (raw.into_bytes(), request["repeat"].as_u64().unwrap_or(1))
}

pub(super) async fn check(name: &str) {
    let (raw, repeat) = request(name);
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    for expected in recorded(name, repeat).await {
        let answer = client.ask(&raw).await;
        assert!(expected.whole && answer.whole, "{name}");
        assert_eq!(shape(&answer), shape(&expected), "{name}");
    }
}

#[tokio::test]
async fn streams_have_the_shape_of_recorded_ones() {
    check("chat-stream").await;
    check("chat-stream-max1").await;
    check("chat-stream-usage-continuous").await;
    check("completion-stream-usage").await;
    check("completion-stream-usage-continuous").await;
}

#[tokio::test]
async fn plain_answers_have_the_shape_of_recorded_ones() {
    for name in [
        "chat",
        "chat-n2",
        "completion",
        "completion-two-prompts",
        "models",
        "version",
        "health",
        "load",
    ] {
        check(name).await;
    }
}

#[tokio::test]
async fn errors_have_the_shape_of_recorded_ones() {
    for name in [
        "error-unknown-model",
        "error-max-tokens-zero",
        "error-max-tokens-too-big",
        "error-bad-temperature",
        "error-bad-json",
        "error-not-found",
        "error-method",
        "error-missing-messages",
        "error-not-json-type",
        "error-usage-without-stream",
    ] {
        check(name).await;
    }
}

#[tokio::test]
async fn the_head_leaves_alone_and_the_role_with_the_first_token() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client
        .send(&chat(&order("ttft=100ms;itl=100ms;tokens=2"), STREAM))
        .await;
    let mut reads = Vec::new();
    for _ in 0..3 {
        let mut read = vec![0; 10_000];
        let length = within(client.stream.read(&mut read)).await.unwrap();
        reads.push(String::from_utf8(read[..length].to_vec()).unwrap());
    }
    assert!(
        reads[0].starts_with("HTTP/1.1 200") && reads[0].ends_with("\r\n\r\n"),
        "{reads:?}"
    );
    assert!(
        reads[1].contains("\"role\"") && reads[1].matches("data: ").count() == 2,
        "{reads:?}"
    );
    assert!(reads[2].contains("\"stop\""), "{reads:?}");
}
