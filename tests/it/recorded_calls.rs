//! A recorded session of NVIDIA's gRPC client with Triton goes through frame by frame, in the recorded order.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use bytes::{Bytes, BytesMut};
use greylag_filters::outcome::Outcome;
use greylag_filters::route::Route;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::h2::{Asking, Hand, Peer};
use crate::harness::{Greylag, engines, within};

const LISTEN: &str = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";

/// One frame of a call.
struct Frame {
    from_client: bool,
    /// Fields of a head or of trailers.
    fields: Option<Vec<(String, String)>>,
    data: Vec<u8>,
    is_last: bool,
}

/// The frames of each call of the session that were not resets, calls in order.
fn session() -> Vec<Vec<Frame>> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/filters/fixtures/triton/grpc.frames.jsonl"
    );
    let mut calls: Vec<(u64, Vec<Frame>)> = Vec::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let frame: serde_json::Value = serde_json::from_str(line).unwrap();
        let kind = frame["frame"].as_str().unwrap_or_default();
        if !matches!(kind, "HEADERS" | "DATA") {
            continue;
        }
        let stream = frame["stream"].as_u64().unwrap();
        if calls.last().is_none_or(|(last, _)| *last < stream) {
            calls.push((stream, Vec::new()));
        }
        let (_, frames) = calls.iter_mut().find(|(of, _)| *of == stream).unwrap();
        // What Triton repeats after a call's end is no part of it.
        let ends_it = |frame: &Frame| frame.is_last && !frame.from_client;
        if frames.iter().any(ends_it) {
            continue;
        }
        let fields = frame["headers"].as_array().map(|fields| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            let fields = fields.iter();
            fields
                .map(|pair| (text(&pair[0]), text(&pair[1])))
                .collect()
        });
        frames.push(Frame {
            from_client: frame["dir"] == "client->server",
            fields,
            data: unhex(frame["hex"].as_str().unwrap_or_default()),
            is_last: frame["flags"].as_u64().unwrap() & 1 == 1,
        });
    }
    calls.into_iter().map(|(_, frames)| frames).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

fn map(fields: &[(String, String)]) -> HeaderMap {
    let fields = fields.iter().filter(|(name, _)| !name.starts_with(':'));
    fields
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect()
}

/// Whether all of `expected` is in `found`, value for value.
fn holds(found: &HeaderMap, expected: &HeaderMap, what: &str) {
    for (name, value) in expected {
        assert_eq!(found.get(name), Some(value), "{what}: {name}");
    }
}

/// Reads so many bytes that were sent as one frame: nothing of it may wait for a later one.
async fn take(body: &mut h2::RecvStream, length: usize) -> BytesMut {
    let mut got = BytesMut::new();
    while got.len() < length {
        let piece = within("a frame", body.data()).await.unwrap().unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        got.extend_from_slice(&piece);
    }
    got
}

/// Reads to the end, up to which there are no more bytes.
async fn ends(body: &mut h2::RecvStream) {
    while let Some(piece) = within("the end", body.data()).await {
        assert!(piece.unwrap().is_empty());
    }
}

/// Plays one call on both sides; what is sent on one must be there on the other before anything else is sent.
async fn play(frames: &[Frame], peer: &mut Peer, hand: &mut Hand) {
    let asked = frames[0].fields.as_ref().unwrap();
    let path = &asked.iter().find(|(name, _)| name == ":path").unwrap().1;
    let fields: Vec<(&str, &str)> = asked
        .iter()
        // The pace here is another, so a deadline is not kept.
        .filter(|(name, _)| !name.starts_with(':') && name != "grpc-timeout")
        .map(|(name, value)| (&**name, &**value))
        .collect();
    let Asking { mut out, answer } = peer.ask("POST", path, &fields).await;
    let is_whole = Route::of(path) == Route::ModelInfer;
    let mut rest = frames[1..].iter();
    if is_whole {
        // It is gathered before an engine is chosen.
        let frame = rest.next().unwrap();
        out.send_data(frame.data.clone().into(), frame.is_last)
            .unwrap();
    }
    let mut call = hand.call().await;
    assert_eq!(call.head.uri.path(), path);
    let mut expected = map(asked);
    expected.remove("grpc-timeout");
    holds(&call.head.headers, &expected, path);
    if is_whole {
        let sent = &frames[1].data;
        assert_eq!(take(&mut call.body, sent.len()).await, sent[..]);
    }
    let (mut answering, mut answer, mut answered) = (None, Some(answer), None);
    for frame in rest {
        match (frame.from_client, &frame.fields) {
            (true, _) => {
                out.send_data(frame.data.clone().into(), frame.is_last)
                    .unwrap();
                let got = take(&mut call.body, frame.data.len()).await;
                assert_eq!(got, frame.data[..]);
                if frame.is_last {
                    ends(&mut call.body).await;
                }
            }
            (false, Some(fields)) if answering.is_none() => {
                let mut head = Response::new(());
                *head.headers_mut() = map(fields);
                answering = Some(call.respond.send_response(head, frame.is_last).unwrap());
                let waiting = answer.take().unwrap();
                let head = within("a head", waiting).await.unwrap();
                assert_eq!(head.status(), 200);
                holds(head.headers(), &map(fields), path);
                assert_eq!(head.body().is_end_stream(), frame.is_last);
                answered = Some(head.into_body());
            }
            (false, Some(fields)) => {
                let out: &mut h2::SendStream<Bytes> = answering.as_mut().unwrap();
                out.send_trailers(map(fields)).unwrap();
                let body = answered.as_mut().unwrap();
                ends(body).await;
                let trailers = within("trailers", body.trailers()).await.unwrap();
                assert_eq!(trailers.unwrap(), map(fields));
            }
            (false, None) => {
                let out = answering.as_mut().unwrap();
                out.send_data(frame.data.clone().into(), frame.is_last)
                    .unwrap();
                let got = take(answered.as_mut().unwrap(), frame.data.len()).await;
                assert_eq!(got, frame.data[..]);
            }
        }
    }
}

#[tokio::test]
async fn every_recorded_call_passes_frame_by_frame() {
    let calls = session();
    assert_eq!(calls.len(), 16);
    let mut hand = Hand::start().await;
    let mut rules = engines(&[("stable", hand.address())]);
    rules["engines"]["stable"]["kind"] = "triton".into();
    rules["engines"]["stable"]["grpc"] = format!("http://{}", hand.address()).into();
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let mut peer = Peer::to(greylag.address()).await;
    for frames in &calls {
        play(frames, &mut peer, &mut hand).await;
    }
    let records = greylag.records_of(calls.len()).await;
    let outcomes: Vec<Outcome> = records.iter().map(|record| record.outcome).collect();
    // Live, ready, two sorts of metadata; an unknown model; a model asked well, and five times not; then streams: two that are
    // all well, two requests at once, two at once of which one fails, one without a word.
    use Outcome::{EngineError, ErrorInStream, Ok};
    let mut expected = vec![Ok; 4];
    expected.extend([EngineError, Ok]);
    expected.extend([EngineError; 5]);
    expected.extend([Ok, Ok, Ok, ErrorInStream, Ok]);
    assert_eq!(outcomes, expected);
}
