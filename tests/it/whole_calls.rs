//! Calls of gRPC that are one message: they are in memory, so what no engine has looked at goes out once more.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use ::h2::Reason;
use greylag_filters::outcome::Outcome;
use greylag_filters::rules::How;
use serde_json::json;

use crate::h2::{Answer, Asked, Hand, Peer, read};
use crate::harness::{Greylag, engines};

const LISTEN: &str = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";
const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
const STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
const GRPC: (&str, &str) = ("content-type", "application/grpc");
const FORCE: (&str, &str) = ("x-force", "one");
// A message that names the model `m`.
const MESSAGE: [u8; 8] = [0, 0, 0, 0, 3, 0x0a, 1, b'm'];

/// Two engines, and a client that asks the first.
async fn started() -> (Hand, Hand, Greylag, Peer) {
    let (one, two) = (Hand::start().await, Hand::start().await);
    let mut rules = engines(&[("one", one.address()), ("two", two.address())]);
    for (name, hand) in [("one", &one), ("two", &two)] {
        rules["engines"][name]["kind"] = "triton".into();
        rules["engines"][name]["grpc"] = format!("http://{}", hand.address()).into();
    }
    rules["splits"] = json!([{ "name": "s", "weights": { "one": 1, "two": 1 }, "force": { "header": "x-force" }, "retry_on": ["connect", 503] }]);
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let peer = Peer::to(greylag.address()).await;
    (one, two, greylag, peer)
}

async fn ask(peer: &mut Peer) -> Answer {
    peer.whole("POST", INFER, &[GRPC, FORCE], &MESSAGE)
        .await
        .unwrap()
}

/// Takes the call's message and answers it well.
async fn answer(hand: &mut Hand) {
    let call = hand.call().await;
    give(call).await;
}

async fn give(call: Asked) {
    let Asked {
        body, mut respond, ..
    } = call;
    assert_eq!(read(body).await.unwrap().0, MESSAGE[..]);
    let head = http::Response::builder().header("content-type", "application/grpc");
    let mut out = respond
        .send_response(head.body(()).unwrap(), false)
        .unwrap();
    out.send_data(MESSAGE.to_vec().into(), false).unwrap();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    out.send_trailers(trailers).unwrap();
}

/// Answers with a status alone.
fn refuse(call: &mut Asked, status: &str) {
    let head = http::Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", status);
    call.respond
        .send_response(head.body(()).unwrap(), true)
        .unwrap();
}

#[tokio::test]
async fn a_call_that_was_not_looked_at_goes_out_once_more() {
    let (mut one, _two, greylag, mut peer) = started().await;
    let refusing = async {
        let mut call = one.call().await;
        call.respond.send_reset(Reason::REFUSED_STREAM);
        answer(&mut one).await;
    };
    let (answered, ()) = tokio::join!(ask(&mut peer), refusing);
    assert_eq!(answered.header("grpc-status"), Some("0"));
    assert_eq!(answered.body, MESSAGE[..]);
    let record = greylag.records_of(1).await[0].clone();
    assert_eq!((record.attempts, record.outcome), (2, Outcome::Ok));
}

#[tokio::test]
async fn a_call_on_a_connection_that_breaks_unheard_goes_out_once_more() {
    let (mut one, _two, greylag, mut peer) = started().await;
    let (_, ()) = tokio::join!(ask(&mut peer), answer(&mut one));
    let breaking = async {
        // Held to the end: letting go of it would reset the stream, which is heard.
        let _call = one.call().await;
        one.break_connections();
        answer(&mut one).await;
    };
    let (answered, ()) = tokio::join!(ask(&mut peer), breaking);
    assert_eq!(answered.header("grpc-status"), Some("0"));
    let records = greylag.records_of(2).await;
    assert_eq!((records[1].attempts, records[1].reused), (2, false));
    // On a new connection it might have been looked at.
    drop(greylag);
    let (mut one, _two, greylag, mut peer) = started().await;
    let breaking = async {
        let call = one.call().await;
        one.break_connections();
        call
    };
    let (answered, _call) = tokio::join!(ask(&mut peer), breaking);
    assert_eq!(answered.header("grpc-status"), Some("14"));
    assert_eq!(greylag.records_of(1).await[0].attempts, 1);
}

#[tokio::test]
async fn a_call_that_is_told_unavailable_goes_elsewhere_where_its_split_says_so() {
    let (mut one, mut two, greylag, mut peer) = started().await;
    let refusing = async {
        refuse(&mut one.call().await, "14");
        answer(&mut two).await;
    };
    let (answered, ()) = tokio::join!(ask(&mut peer), refusing);
    assert_eq!(answered.header("grpc-status"), Some("0"));
    let record = greylag.records_of(1).await[0].clone();
    assert_eq!((record.attempts, record.how), (2, Some(How::Fallback)));
    assert_eq!(record.engine.as_deref(), Some("two"));
    // Two that are too busy: the second's word stands.
    let refusing = async {
        refuse(&mut one.call().await, "14");
        refuse(&mut two.call().await, "14");
    };
    let (answered, ()) = tokio::join!(ask(&mut peer), refusing);
    assert_eq!(answered.header("grpc-status"), Some("14"));
    let record = greylag.records_of(2).await[1].clone();
    assert_eq!(record.outcome, Outcome::EngineError);
    // Any other status is the engine's answer.
    let refusing = async { refuse(&mut one.call().await, "3") };
    let (answered, ()) = tokio::join!(ask(&mut peer), refusing);
    assert_eq!(answered.header("grpc-status"), Some("3"));
}

#[tokio::test]
async fn a_call_of_many_messages_is_not_sent_again() {
    let (mut one, _two, greylag, mut peer) = started().await;
    let mut asking = peer.ask("POST", STREAM_INFER, &[GRPC, FORCE]).await;
    asking
        .out
        .send_data(MESSAGE.to_vec().into(), false)
        .unwrap();
    refuse(&mut one.call().await, "14");
    let answered = asking.whole().await.unwrap();
    assert_eq!(answered.header("grpc-status"), Some("14"));
    assert_eq!(greylag.records_of(1).await[0].attempts, 1);
}
