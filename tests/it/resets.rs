//! A stream that a client resets frees its engine before the engine would have sent anything more, 50 ms later.
//!
//! How soon is a matter of the machine as well, which can only make it later: so the best of some tries counts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use ::h2::Reason;
use bytes::Bytes;
use greylag_filters::outcome::Outcome;
use greylag_sim::{Door, Ending, Engine, Seen, Settings, WordsRequest};

use crate::h2::{Peer, write};
use crate::harness::{DEADLINE, Greylag, contains, engines, within};

const TRIES: usize = 10;
const LISTEN: &str = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";
const CHAT: &str = "/v1/chat/completions";
const STREAM: &[u8] =
    br#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":40}"#;
const STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

async fn started() -> (Engine, Greylag, Peer) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let grpc = engine.open(Door::http2()).await.unwrap();
    let mut rules = engines(&[("stable", engine.address())]);
    rules["engines"]["stable"]["grpc"] = format!("http://{grpc}").into();
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let peer = Peer::to(greylag.address()).await;
    (engine, greylag, peer)
}

/// What is asked for, and how it is to be answered.
struct Case {
    path: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    // stands in each token event
    event: &'static [u8],
}

/// Asks, reads so many token events, resets; whether the engine had sent no more by the time it was free.
async fn is_free_in_time(case: &Case, events: u64, engine: &Engine, peer: &mut Peer) -> bool {
    let asked = |seen: &Seen| {
        let posts = seen
            .requests
            .iter()
            .filter(|request| request.method == "POST");
        posts.filter(|post| post.target == case.path).count()
    };
    let before = asked(&engine.seen());
    let mut asking = peer.ask("POST", case.path, &case.fields).await;
    write(&mut asking.out, &case.body).await.unwrap();
    let is_open = case.path == STREAM_INFER;
    if !is_open {
        asking.out.send_data(Bytes::new(), true).unwrap();
    }
    let mut read = 0;
    if events == 0 {
        let arrived = |seen: &Seen| asked(seen) > before;
        assert!(engine.wait_for(arrived, DEADLINE).await);
    } else {
        let mut body = within("a head", asking.answer).await.unwrap().into_body();
        while read < events {
            let piece = within("an event", body.data()).await.unwrap().unwrap();
            body.flow_control().release_capacity(piece.len()).unwrap();
            read += u64::from(contains(&piece, case.event));
        }
    }
    asking.out.send_reset(Reason::CANCEL);
    let free = |seen: &Seen| {
        let mut requests = seen.requests.iter();
        requests.all(|request| request.ended.is_some()) && seen.running == 0
    };
    assert!(engine.wait_for(free, DEADLINE).await);
    let seen = engine.seen();
    let mut requests = seen.requests.iter().rev();
    let last = requests
        .find(|request| request.target == case.path)
        .unwrap();
    last.ended.unwrap().ending == (Ending::ClientClosed { after_events: read })
}

async fn check(case: Case, events: u64) {
    let (engine, greylag, mut peer) = started().await;
    for attempt in 1..=TRIES {
        let free = is_free_in_time(&case, events, &engine, &mut peer).await;
        let records = greylag.records_of(attempt).await;
        assert_eq!(records[attempt - 1].outcome, Outcome::ClientGone);
        if free {
            return;
        }
    }
    panic!("in none of {TRIES} tries was the engine free before it would have sent more");
}

fn chat(order: &'static str) -> Case {
    Case {
        path: CHAT,
        fields: vec![("content-type", "application/json"), ("x-sim", order)],
        body: STREAM.to_vec(),
        event: b"\"token_ids\":null",
    }
}

#[tokio::test]
async fn before_the_first_byte_of_an_http_1_engine() {
    check(chat("wait=50ms"), 0).await;
}

#[tokio::test]
async fn in_the_stream_of_an_http_1_engine() {
    check(chat("itl=50ms;tokens=40"), 3).await;
}

fn words(words: i32) -> Case {
    let asked = WordsRequest {
        id: "a".into(),
        words,
        delay_ms: Some(50),
        fail_after: None,
        empty_final: true,
    };
    Case {
        path: STREAM_INFER,
        fields: vec![("content-type", "application/grpc")],
        body: asked.framed(),
        event: b"words",
    }
}

#[tokio::test]
async fn before_the_first_byte_of_a_grpc_engine() {
    check(words(40), 0).await;
}

#[tokio::test]
async fn in_the_stream_of_a_grpc_engine() {
    check(words(40), 3).await;
}
