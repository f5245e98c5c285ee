//! Triton over gRPC: held against a recorded session, and misbehaving on demand.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;
use serde_json::Value;

use super::DEADLINE;
use super::client::within;
use super::http2::{seen, started};
use super::http2_client::{Answer, Http2, answer};
use crate::{Ending, Settings, WordsRequest, grpc_messages};

/// One call of the recorded session.
#[derive(Default)]
struct Recorded {
    path: String,
    fields: Vec<(String, String)>,
    sent: Vec<u8>,
    heads: Vec<Vec<(String, String)>>,
    messages: Vec<Vec<u8>>,
}

fn recorded() -> BTreeMap<u64, Recorded> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/triton/grpc.frames.jsonl");
    let mut calls = BTreeMap::<_, Recorded>::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let frame: Value = serde_json::from_str(line).unwrap();
        let call = calls.entry(frame["stream"].as_u64().unwrap()).or_default();
        let bytes = bytes(frame["hex"].as_str().unwrap_or_default());
        let headers = serde_json::from_value::<Vec<(String, String)>>(frame["headers"].clone());
        match (frame["dir"].as_str().unwrap(), headers) {
            ("client->server", Ok(headers)) => {
                for (name, value) in headers {
                    match name.as_str() {
                        ":path" => call.path = value,
                        ":authority" | ":method" | ":scheme" | "content-type" => {}
                        _ => call.fields.push((name, value)),
                    }
                }
            }
            ("client->server", Err(_)) => call.sent.extend(bytes),
            (_, Ok(headers)) => call.heads.push(headers),
            (_, Err(_)) => call
                .messages
                .extend(grpc_messages(&bytes).into_iter().map(<[u8]>::to_vec)),
        }
    }
    calls
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Names and values, by name.
fn sorted(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut listed: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    listed.sort();
    listed
}

/// The messages of an answer, whatever the frames of HTTP/2 were.
fn messages(answer: &Answer) -> Vec<Vec<u8>> {
    let all = answer.pieces.concat();
    grpc_messages(&all)
        .into_iter()
        .map(<[u8]>::to_vec)
        .collect()
}

async fn call(client: &Http2, path: &str, fields: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let (response, mut send) = client.begin(path, fields).await;
    send.send_data(Bytes::from(body), true).unwrap();
    within(answer(response)).await
}

#[tokio::test]
async fn a_recorded_session_goes_the_same_way_again() {
    let (_engine, client) = started().await;
    let calls = recorded();
    assert_eq!(calls.len(), 15);
    for (stream, recorded) in &calls {
        let fields: Vec<_> = recorded
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let answer = call(&client, &recorded.path, &fields, recorded.sent.clone()).await;
        check(*stream, &answer, recorded);
    }
}

fn check(stream: u64, answer: &Answer, recorded: &Recorded) {
    assert!(answer.broken.is_none(), "{stream}: {answer:?}");
    let mut found = messages(answer);
    let mut expected = recorded.messages.clone();
    // Here two requests were answered on one stream, and their order was up to the scheduler.
    if stream == 29 {
        found.sort();
        expected.sort();
    }
    assert_eq!(found, expected, "{stream}: {}", recorded.path);
    let mut heads = vec![sorted(&answer.headers)];
    heads[0].insert(0, (":status".into(), answer.status.to_string()));
    heads.extend(answer.trailers.as_ref().map(sorted));
    let mut expected = recorded.heads.clone();
    expected.iter_mut().for_each(|head| head.sort());
    assert_eq!(heads, expected, "{stream}: {}", recorded.path);
}

const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// A request for so many words.
fn words(words: i32) -> WordsRequest {
    WordsRequest {
        id: "s1".into(),
        words,
        delay_ms: Some(20),
        ..WordsRequest::default()
    }
}

/// One that fails at its third word.
fn failing() -> Vec<u8> {
    let fail_after = Some(2);
    WordsRequest {
        fail_after,
        ..words(5)
    }
    .framed()
}

#[test]
fn a_request_is_written_as_nvidias_client_writes_it() {
    let mut calls = recorded();
    let mut check = |stream, request: WordsRequest| {
        let sent = calls.remove(&stream).unwrap().sent;
        assert!(sent.starts_with(&request.framed()), "{stream}");
    };
    check(23, words(4));
    let named = |id: &str, request| WordsRequest {
        id: id.into(),
        ..request
    };
    let empty_final = true;
    check(
        25,
        named(
            "s2",
            WordsRequest {
                empty_final,
                ..words(3)
            },
        ),
    );
    check(
        29,
        named(
            "s5",
            WordsRequest {
                fail_after: Some(2),
                ..words(5)
            },
        ),
    );
}

#[tokio::test]
async fn a_cancelled_stream_is_seen_and_frees_the_model() {
    let (engine, client) = started().await;
    let slow = WordsRequest {
        delay_ms: Some(3_600_000),
        ..words(2)
    };
    let (response, mut send) = client.begin(STREAM, &[]).await;
    send.send_data([slow.framed(), words(4).framed()].concat().into(), false)
        .unwrap();
    let (_, mut body) = within(response).await.unwrap().into_parts();
    assert!(within(body.data()).await.unwrap().is_ok());
    assert_eq!(engine.seen().running, 2);
    send.send_reset(Reason::CANCEL);
    let seen = seen(&engine, |seen| seen.ended == 1 && seen.running == 0).await;
    let request = &seen.requests[0];
    assert_eq!(request.stream.as_ref().unwrap().reset.unwrap().0, 8);
    let ending = request.ended.unwrap().ending;
    assert!(
        matches!(ending, Ending::ClientClosed { after_events: 1.. }),
        "{ending:?}"
    );
}

#[tokio::test]
async fn an_error_ends_the_stream_with_a_status_where_the_client_wants_that() {
    let (_engine, client) = started().await;
    let strict = [("triton_grpc_error", "true")];
    let answer = call(&client, STREAM, &strict, failing()).await;
    let trailers = answer.trailers.unwrap();
    assert_eq!(trailers["grpc-status"], "13");
    assert_eq!(
        trailers["grpc-message"],
        "made-up failure in the middle of a stream"
    );

    // Nothing was sent before: one head says it all.
    let unknown = recorded().remove(&13).unwrap().sent;
    let answer = call(&client, STREAM, &strict, unknown.clone()).await;
    assert_eq!(
        (&answer.headers["grpc-status"], answer.pieces.len()),
        (&"5".parse().unwrap(), 0)
    );
    let answer = call(&client, STREAM, &[], unknown).await;
    let text = String::from_utf8_lossy(&messages(&answer)[0]).into_owned();
    assert!(
        text.contains("Request for unknown model: 'nosuch' is not found"),
        "{text}"
    );
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn calls_misbehave_as_ordered() {
    let (engine, client) = started().await;
    let ask =
        async |order: &str| call(&client, STREAM, &[("x-sim", order)], words(4).framed()).await;
    let answer = ask("cut=2;how=rst").await;
    assert_eq!(
        (messages(&answer).len(), answer.reason()),
        (2, Some(Reason::INTERNAL_ERROR))
    );
    assert_eq!(ask("status=503").await.status, 503);
    let answer = ask("error=2").await;
    assert_eq!(messages(&answer).len(), 2);
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "13");
    assert_eq!(ask("reset").await.reason(), Some(Reason::INTERNAL_ERROR));
    assert_eq!(ask("nonsense").await.headers["grpc-status"], "3");
    let (response, mut send) = client.begin(STREAM, &[("x-sim", "stall=1")]).await;
    send.send_data(words(4).framed().into(), true).unwrap();
    let (_, mut body) = within(response).await.unwrap().into_parts();
    assert!(within(body.data()).await.unwrap().is_ok());
    drop(body);
    drop(send);
    let seen = seen(&engine, |seen| seen.ended == 6).await;
    let ending = seen.requests[5].ended.unwrap().ending;
    assert_eq!(ending, Ending::ClientClosed { after_events: 1 });
}

#[tokio::test]
async fn health_is_told_once_and_watched() {
    let (engine, client) = started().await;
    let sick = Settings {
        healthy: false,
        ..Settings::default()
    };
    let empty = vec![0; 5];
    let check = async || {
        let answer = call(&client, "/grpc.health.v1.Health/Check", &[], empty.clone()).await;
        messages(&answer)[0].clone()
    };
    assert_eq!(check().await, b"\x08\x01");
    let (response, mut send) = client.begin("/grpc.health.v1.Health/Watch", &[]).await;
    send.send_data(empty.clone().into(), true).unwrap();
    let (_, mut body) = within(response).await.unwrap().into_parts();
    assert_eq!(
        within(body.data()).await.unwrap().unwrap(),
        &b"\0\0\0\0\x02\x08\x01"[..]
    );
    engine.set(sick);
    assert_eq!(
        within(body.data()).await.unwrap().unwrap(),
        &b"\0\0\0\0\x02\x08\x02"[..]
    );
    assert_eq!(check().await, b"\x08\x02");
    let path = "/inference.GRPCInferenceService/ServerReady";
    let answer = call(&client, path, &[], empty).await;
    assert_eq!(messages(&answer), [b""], "not ready is the empty message");
    send.send_reset(Reason::CANCEL);
    assert!(engine.wait_for(|seen| seen.ended == 4, DEADLINE).await);
}

#[tokio::test]
async fn what_the_service_does_not_know_is_refused() {
    let (_engine, client) = started().await;
    for (path, body, status) in [
        ("/inference.GRPCInferenceService/NoSuch", vec![0; 5], "12"),
        ("/grpc.health.v1.Health/List", vec![0; 5], "12"),
        (
            "/inference.GRPCInferenceService/ModelInfer",
            vec![1, 0, 0, 0, 0],
            "12",
        ),
        (
            "/inference.GRPCInferenceService/ModelInfer",
            b"\0\0\0\0\x01\xff".to_vec(),
            "13",
        ),
        (
            "/inference.GRPCInferenceService/ModelInfer",
            Vec::new(),
            "13",
        ),
    ] {
        let answer = call(&client, path, &[], body).await;
        assert_eq!(answer.headers["grpc-status"], status, "{path}");
        assert!(
            answer.trailers.is_none() && answer.pieces.is_empty(),
            "{path}: {answer:?}"
        );
    }
}
