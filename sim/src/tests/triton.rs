//! Triton over HTTP/1.1: the bytes of a recorded one, and misbehaviour in its shape.

use tokio::io::AsyncReadExt;

use super::DEADLINE;
use super::client::{Client, End, post, within};
use super::shape::{self, fixture};
use crate::{Ending, Engine, Settings};

/// The answers are the recorded ones, byte for byte.
async fn check(name: &str) {
    let name = format!("triton/{name}");
    let (request, repeat) = shape::request(&name);
    let expected = std::fs::read(fixture(&name, "response.http")).unwrap();
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    for _ in 0..repeat {
        client.send(&request).await;
    }
    let whole = client
        .read_until(|unread| unread.len() >= expected.len())
        .await;
    let found = client.unread();
    assert!(
        found == expected,
        "{name}, whole: {whole}\n{}\n{}",
        String::from_utf8_lossy(found),
        String::from_utf8_lossy(&expected)
    );
}

#[tokio::test]
async fn answers_are_the_recorded_ones() {
    for name in [
        "generate",
        "generate-id-and-parameters",
        "generate-not-decoupled",
        "infer",
        "infer-binary-output",
        "infer-version-path",
        "infer-http10",
        "health-live",
        "health-ready",
        "model-ready",
        "model-metadata",
        "model-metadata-decoupled",
        "repository-index",
        "server-metadata",
    ] {
        check(name).await;
    }
}

#[tokio::test]
async fn streams_are_the_recorded_ones() {
    for name in [
        "generate-stream",
        "generate-stream-accept-sse",
        "generate-stream-error-missing-input",
        "generate-stream-not-streaming",
        "generate-stream-zero-responses",
    ] {
        check(name).await;
    }
}

#[tokio::test]
async fn errors_are_the_recorded_ones() {
    for name in [
        "generate-error-many-responses",
        "generate-error-unknown-model",
        "generate-error-zero-responses",
        "generate-stream-error-first",
        "generate-stream-error-unknown-model",
        "infer-error-batch-too-big",
        "infer-error-datatype",
        "infer-error-decoupled-over-http",
        "infer-error-get",
        "infer-error-in-model",
        "infer-error-no-inputs",
        "infer-error-shape",
        "infer-error-unknown-model",
        "infer-error-unknown-version",
        "model-metadata-unknown",
        "model-ready-unknown",
    ] {
        check(name).await;
    }
    // Their texts are those of another JSON reader.
    for name in [
        "generate-error-bad-json",
        "generate-stream-error-bad-json",
        "infer-error-bad-json",
    ] {
        shape::check(&format!("triton/{name}")).await;
    }
}

const GENERATE: &str = "/v2/models/words/generate_stream";

async fn asked(path: &str, headers: &str, body: &[u8]) -> (super::client::Answer, Client, Engine) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    let answer = client.ask(&post(path, headers, body)).await;
    (answer, client, engine)
}

#[tokio::test]
async fn a_raw_input_follows_the_json() {
    let json = br#"{"inputs":[{"name":"X","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}]}"#;
    let tail = [1.5_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat();
    let header = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    let path = "/v2/models/affine/infer";
    let (answer, ..) = asked(path, &header, &[&json[..], &tail].concat()).await;
    assert!(
        answer.text().ends_with(r#""data":[4.0,5.0]}]}"#),
        "{}",
        answer.text()
    );
    let (answer, ..) = asked(path, &header, &[&json[..], &tail[1..]].concat()).await;
    assert_eq!(answer.status, 400);
    let (answer, ..) = asked(path, &header, b"{}").await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn an_error_after_the_first_event_comes_under_200() {
    let body = br#"{"text_input":"","max_tokens":5,"fail_after":2}"#;
    let (answer, ..) = asked(GENERATE, "", body).await;
    let failed = r#"{"error":"made-up failure in the middle of a stream"}"#;
    assert_eq!((answer.status, answer.pieces.len()), (200, 3));
    assert_eq!(answer.events()[2], failed);
    let (answer, ..) = asked(GENERATE, "x-sim: error=2\r\n", b"{}").await;
    assert_eq!(
        (answer.status, answer.pieces.len()),
        (200, 3),
        "and nothing follows it"
    );
    assert_eq!(answer.events()[2], failed);
}

#[tokio::test]
async fn orders_hold_in_tritons_shape() {
    let (answer, ..) = asked(GENERATE, "x-sim: status=503\r\n", b"{}").await;
    let refused = r#"{"error":"ordered: 503 Service Unavailable"}"#;
    assert_eq!((answer.status, answer.text().as_str()), (503, refused));
    assert!(answer.header("server").is_none());
    let (answer, mut client, engine) = asked(GENERATE, "x-sim: cut=2;how=rst\r\n", b"{}").await;
    assert!(!answer.whole);
    assert_eq!((answer.pieces.len(), client.rest().await.1), (2, End::Rst));
    let broken = Ending::Broken { after_events: 2 };
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    assert_eq!(engine.seen().requests[0].ended.unwrap().ending, broken);
}

#[tokio::test]
async fn the_head_leaves_with_the_first_event_and_a_client_that_leaves_is_seen() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    let order = "x-sim: ttft=50ms;itl=1h\r\n";
    client.send(&post(GENERATE, order, b"{}")).await;
    let mut read = vec![0; 10_000];
    let length = within(client.stream.read(&mut read)).await.unwrap();
    let text = String::from_utf8_lossy(&read[..length]).into_owned();
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("\"the \""),
        "{text}"
    );
    assert_eq!(engine.seen().running, 1);
    drop(client);
    assert!(engine.wait_for(|seen| seen.running == 0, DEADLINE).await);
    let ending = engine.seen().requests[0].ended.unwrap().ending;
    assert_eq!(ending, Ending::ClientClosed { after_events: 1 });
}

#[tokio::test]
async fn a_triton_that_is_not_ready_says_so() {
    let engine = Engine::start(Settings {
        healthy: false,
        ..Settings::default()
    })
    .await
    .unwrap();
    let mut client = Client::connect(engine.address()).await;
    for (path, status) in [
        ("/v2/health/ready", 400),
        ("/v2/models/words/ready", 400),
        ("/v2/health/live", 200),
        ("/v2/nosuch", 404),
        ("/v2", 200),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        assert_eq!(
            client.ask(request.as_bytes()).await.status,
            status,
            "{path}"
        );
    }
}
