//! Triton: its gRPC streams are measured request by request, its refusals have its shape, and what goes wrong with a
//! connection of many calls harms none but those on it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use bytes::Bytes;
use greylag_filters::grpc::Status;
use greylag_filters::outcome::Outcome;
use greylag_filters::rules::How;
use greylag_sim::{Act, Door, Engine, Frames, Settings, WordsRequest, fields, grpc_messages};

use crate::h2::{Peer, write};
use crate::harness::{Client, Greylag, engines, within};

const LISTEN: &str =
    "listen: [{ address: \"127.0.0.1:0\" }, { address: \"127.0.0.1:0\", protocol: h2c }]";
const STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
const GRPC: (&str, &str) = ("content-type", "application/grpc");

async fn started() -> (Engine, Greylag, Peer) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let grpc = engine.open(Door::http2()).await.unwrap();
    let mut rules = engines(&[("stable", engine.address())]);
    rules["engines"]["stable"]["kind"] = "triton".into();
    rules["engines"]["stable"]["grpc"] = format!("http://{grpc}").into();
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let peer = Peer::to(greylag.app().addresses[1]).await;
    (engine, greylag, peer)
}

#[tokio::test]
async fn the_requests_of_a_stream_are_measured_apart() {
    let (_engine, greylag, mut peer) = started().await;
    let request = |id: &str, words: i32, fail_after: Option<i32>| {
        WordsRequest {
            id: id.into(),
            words,
            delay_ms: Some(5),
            fail_after,
            empty_final: true,
        }
        .framed()
    };
    let mut asking = peer.ask("POST", STREAM_INFER, &[GRPC]).await;
    for (id, words, fail_after) in [("a", 3, None), ("b", 2, None), ("c", 4, Some(1))] {
        write(&mut asking.out, &request(id, words, fail_after))
            .await
            .unwrap();
    }
    asking.out.send_data(Bytes::new(), true).unwrap();
    let answer = asking.whole().await.unwrap();
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    assert!(grpc_messages(&answer.body).len() >= 8);

    let record = greylag.records_of(1).await[0].clone();
    // A failure in the stream is one, whatever the call's own status.
    assert_eq!(record.outcome, Outcome::ErrorInStream);
    assert_eq!(record.grpc_status, Some(Status::Ok));
    let requests = record.requests.as_ref().unwrap();
    assert_eq!((requests.tally.requests, requests.tally.unmetered), (3, 0));
    let mut seen: Vec<_> = requests
        .kept()
        .iter()
        .map(|one| {
            (
                &*one.id,
                one.figures.token_events,
                one.figures.error.is_some(),
            )
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [("a", 3, false), ("b", 2, false), ("c", 1, true)]);
    for one in requests.kept() {
        // Each waits for its own word of five milliseconds.
        assert!(one.first_token_after().unwrap() >= std::time::Duration::from_millis(4));
    }
    let ttft = r#"greylag_ttft_seconds_count{gray_tag="stable",leg="primary",model_name="other",traffic="real"}"#;
    assert_eq!(greylag.metric(ttft).await, Some(3.0));
}

#[tokio::test]
async fn a_goodbye_in_mid_answer_ends_no_call_and_the_next_one_finds_a_connection() {
    let (engine, greylag, mut peer) = started().await;
    let head = fields([("content-type", "application/grpc")]);
    let ended = fields([("grpc-status", "0")]);
    let frames = |extra: Option<Act>| {
        let first = [Act::Head(200, head.clone()), Act::Data(b"half".to_vec())];
        let last = [Act::Data(b"whole".to_vec()), Act::Trailers(ended.clone())];
        Frames(first.into_iter().chain(extra).chain(last).collect())
    };
    engine.add_frames("0", frames(Some(Act::GoAway)));
    engine.add_frames("1", frames(None));
    for name in ["0", "1"] {
        let answer = peer
            .whole(
                "POST",
                "/test.Any/Call",
                &[GRPC, ("x-sim-script", name)],
                b"",
            )
            .await
            .unwrap();
        assert_eq!(answer.body, "halfwhole");
        assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    }
    for record in greylag.records_of(2).await {
        assert_eq!(record.outcome, Outcome::Ok);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_told_to_the_calls_on_it() {
    let (engine, greylag, mut peer) = started().await;
    let head = fields([("content-type", "application/grpc")]);
    let frames = [
        Act::Head(200, head),
        Act::Data(b"half".to_vec()),
        Act::Abort(2),
    ];
    engine.add_frames("0", Frames(frames.into()));
    let name = "0";
    let answer = peer
        .whole(
            "POST",
            "/test.Any/Call",
            &[GRPC, ("x-sim-script", name)],
            b"",
        )
        .await
        .unwrap();
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "14");
    let record = greylag.records_of(1).await[0].clone();
    assert_eq!(record.outcome, Outcome::Truncated);
    // The next call goes out on a new connection.
    let request = WordsRequest {
        id: "a".into(),
        words: 1,
        ..WordsRequest::default()
    };
    let asked = request.framed();
    let answer = peer
        .whole("POST", STREAM_INFER, &[GRPC], &asked)
        .await
        .unwrap();
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn many_calls_at_once_share_connections_and_all_are_answered() {
    let (engine, greylag, _) = started().await;
    // The test's own client minds many small frames that it has not read yet.
    let mut settings = ::h2::client::Builder::new();
    settings.data_frame_budget(1 << 24);
    let peer = Peer::with(greylag.app().addresses[1], &mut settings).await;
    let request = WordsRequest {
        id: "a".into(),
        words: 1,
        delay_ms: Some(1),
        ..WordsRequest::default()
    };
    let asked = request.framed();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..400 {
        let (mut peer, asked) = (peer.another(), asked.clone());
        calls.spawn(async move {
            let answer = peer
                .whole("POST", STREAM_INFER, &[GRPC], &asked)
                .await
                .unwrap();
            assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
        });
    }
    while let Some(done) = within("a call", calls.join_next()).await {
        done.unwrap();
    }
    greylag.records_of(400).await;
    assert!(crate::harness::connections(&engine) < 20);
}

#[tokio::test]
async fn a_refusal_has_the_shape_that_tritons_clients_know() {
    let away = greylag_sim::refusing_address().await.unwrap();
    let rules = engines(&[("stable", away.address())]).to_string();
    let greylag = Greylag::start(&rules);
    let mut client = Client::to(greylag.address()).await;
    let answer = client.post("/v2/models/affine/infer", &[], "{}").await;
    assert_eq!(answer.status, 502);
    assert_eq!(
        answer.header("x-greylag-reason"),
        Some("engine_unreachable")
    );
    assert!(
        answer.json()["error"]
            .as_str()
            .unwrap()
            .contains("no connection")
    );
}

#[tokio::test]
async fn what_is_set_in_the_json_before_tensors_moves_its_length_too() {
    let (engine, _, _) = started().await;
    let mut rules = engines(&[("stable", engine.address())]);
    rules["engines"]["stable"]["set"] = serde_json::json!({ "id": "ours" });
    let greylag = Greylag::start(&rules.to_string());
    let json = r#"{"inputs":[{"name":"X","shape":[1,1],"datatype":"FP32","parameters":{"binary_data_size":4}}],"id":"a"}"#;
    let body = [json.as_bytes(), &1.0_f32.to_le_bytes()].concat();
    let mut client = Client::to(greylag.address()).await;
    let length = format!("inference-header-content-length: {}", json.len());
    let answer = client
        .post("/v2/models/affine/infer", &[&length], &body)
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        answer.text().contains(r#""id":"ours""#),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn after_a_goodbye_one_new_connection_carries_what_follows() {
    let (engine, greylag, mut peer) = started().await;
    let head = fields([("content-type", "application/grpc")]);
    let ended = fields([("grpc-status", "0")]);
    let short = Frames(vec![Act::Head(200, head.clone()), Act::Trailers(ended)]);
    engine.add_frames(
        "long",
        Frames(vec![Act::Head(200, head), Act::GoAway, Act::WaitForReset]),
    );
    engine.add_frames("short", short);
    let mut long = peer
        .ask("POST", "/test.Any/Call", &[GRPC, ("x-sim-script", "long")])
        .await;
    within("a head", &mut long.answer).await.unwrap();
    for _ in 0..3 {
        let answer = peer
            .whole(
                "POST",
                "/test.Any/Call",
                &[GRPC, ("x-sim-script", "short")],
                b"",
            )
            .await
            .unwrap();
        assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    }
    assert_eq!(crate::harness::connections(&engine), 2);
    long.out.send_reset(::h2::Reason::CANCEL);
    greylag.records_of(4).await;
}

#[tokio::test]
async fn a_sequence_stays_with_the_engine_that_began_it() {
    let (one, other) = (
        Engine::start(Settings::default()).await.unwrap(),
        Engine::start(Settings::default()).await.unwrap(),
    );
    let mut rules = engines(&[("one", one.address()), ("other", other.address())]);
    rules["splits"] = serde_json::json!([{ "name": "s", "weights": { "one": 1, "other": 1 } }]);
    let greylag = Greylag::start(&rules.to_string());
    let mut client = Client::to(greylag.address()).await;
    let body = |sequence: u32, end: bool| {
        format!(
            r#"{{"inputs":[{{"name":"X","shape":[1,1],"datatype":"FP32","data":[1]}}],"parameters":{{"sequence_id":{sequence},"sequence_end":{end}}}}}"#
        )
    };
    for sequence in 1..=10 {
        for turn in 0..5 {
            let asked = body(sequence, turn == 4);
            let answer = client.post("/v2/models/affine/infer", &[], asked).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
    let records = greylag.records_of(50).await;
    let mut began = std::collections::BTreeSet::new();
    for turns in records.chunks(5) {
        assert!(turns.iter().all(|turn| turn.engine == turns[0].engine));
        assert!(
            turns[1..]
                .iter()
                .all(|turn| turn.how == Some(How::Sequence))
        );
        assert_eq!(turns[0].how, Some(How::Draw));
        began.insert(turns[0].engine.clone());
    }
    assert_eq!(began.len(), 2);
}

#[tokio::test]
async fn a_sequence_goes_on_with_the_engine_that_took_its_first_request() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let away = greylag_sim::refusing_address().await.unwrap();
    let mut rules = engines(&[("one", engine.address()), ("away", away.address())]);
    rules["splits"] = serde_json::json!([{
        "name": "s", "weights": { "one": 1, "away": 1 }, "force": { "header": "x-gray-strategy" },
    }]);
    let greylag = Greylag::start(&rules.to_string());
    let mut client = Client::to(greylag.address()).await;
    let asked = r#"{"inputs":[{"name":"X","shape":[1,1],"datatype":"FP32","data":[1]}],"parameters":{"sequence_id":7}}"#;
    for _ in 0..3 {
        let answer = client
            .post("/v2/models/affine/infer", &["x-gray-strategy: away"], asked)
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let records = greylag.records_of(3).await;
    assert_eq!(records[0].how, Some(How::Fallback));
    assert!(
        records[1..]
            .iter()
            .all(|turn| turn.how == Some(How::Sequence))
    );
}
