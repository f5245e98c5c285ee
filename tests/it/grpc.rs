//! Calls of gRPC: both ways at once, trailers, cancels and deadlines, and what is told where there is no engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::net::SocketAddr;
use std::time::Duration;

use ::h2::Reason;
use bytes::Bytes;
use greylag_filters::outcome::Outcome;
use http::{HeaderMap, HeaderValue};

use crate::h2::{Hand, Peer, read, write};
use crate::harness::{Greylag, engines, sim, within};

const LISTEN: &str = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";
const METHOD: &str = "/test.Echo/Say";
const GRPC: (&str, &str) = ("content-type", "application/grpc");
const TE: (&str, &str) = ("te", "trailers");

fn before(http: SocketAddr, grpc: SocketAddr) -> Greylag {
    let mut rules = engines(&[("stable", http)]);
    rules["engines"]["stable"]["grpc"] = format!("http://{grpc}").into();
    Greylag::with(LISTEN, &rules.to_string())
}

async fn started() -> (Greylag, Hand, Peer) {
    let hand = Hand::start().await;
    let greylag = before(hand.address(), hand.address());
    let peer = Peer::to(greylag.address()).await;
    (greylag, hand, peer)
}

// A message with its prefix.
fn message(text: &str) -> Vec<u8> {
    let mut framed = vec![0];
    let length = u32::try_from(text.len()).expect("a test's message is short");
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(text.as_bytes());
    framed
}

fn status(code: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    trailers
}

#[tokio::test]
async fn a_unary_call_comes_back_with_its_trailers() {
    let (greylag, mut hand, mut peer) = started().await;
    let body = message("hi");
    let asking = async {
        peer.whole("POST", METHOD, &[GRPC, TE], &body)
            .await
            .unwrap()
    };
    let answering = async {
        let mut call = hand.call().await;
        let (asked, _) = read(call.body).await.unwrap();
        let mut out = call.respond.send_response(head(), false).unwrap();
        out.send_data(asked, false).unwrap();
        out.send_trailers(status("0")).unwrap();
        call.head
    };
    let (answer, asked) = tokio::join!(asking, answering);
    assert_eq!(answer.body, body);
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    assert_eq!(asked.headers["te"], "trailers");
    assert_eq!(asked.uri.path(), METHOD);
    assert_eq!(asked.uri.authority().unwrap(), "models.test");
    let record = greylag.records_of(1).await[0].clone();
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(
        (record.status, record.engine_status),
        (Some(200), Some(200))
    );
}

fn head() -> http::Response<()> {
    let head = http::Response::builder().header("content-type", "application/grpc");
    head.body(()).unwrap()
}

#[tokio::test]
async fn an_answer_that_is_shorter_than_it_said_ends_with_a_status() {
    let (_greylag, mut hand, mut peer) = started().await;
    let asking = peer.ask("POST", METHOD, &[GRPC]).await;
    let mut call = hand.call().await;
    let mut out = call.answer(&[GRPC, ("content-length", "10")]);
    out.send_data(message("a").into(), false).unwrap();
    out.send_reset(Reason::INTERNAL_ERROR);
    let answer = asking.whole().await.unwrap();
    assert_eq!(answer.header("grpc-status"), Some("14"));
}

#[tokio::test]
async fn an_answer_that_is_all_trailers_stays_one() {
    let (_greylag, mut hand, mut peer) = started().await;
    let asking = peer.ask("POST", METHOD, &[GRPC]).await;
    let mut call = hand.call().await;
    let mut only = head();
    only.headers_mut().extend(status("5"));
    call.respond.send_response(only, true).unwrap();
    let answer = within("a head", asking.answer).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "5");
    assert!(answer.body().is_end_stream());
}

#[tokio::test]
async fn messages_go_both_ways_in_turn_on_one_stream() {
    let (_greylag, mut hand, mut peer) = started().await;
    let mut asking = peer.ask("POST", METHOD, &[GRPC]).await;
    let mut call = hand.call().await;
    let mut out = call.answer(&[GRPC]);
    let mut back = within("a head", asking.answer).await.unwrap().into_body();
    for turn in 0..20 {
        let text = message(&format!("turn {turn}"));
        write(&mut asking.out, &text).await.unwrap();
        let heard = within("a message", call.body.data())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(heard, text);
        out.send_data(heard, false).unwrap();
        let heard = within("its echo", back.data()).await.unwrap().unwrap();
        assert_eq!(heard, text);
    }
    // The client has said all: the engine still answers.
    asking.out.send_data(Bytes::new(), true).unwrap();
    assert!(read(call.body).await.unwrap().0.is_empty());
    out.send_data(message("last").into(), false).unwrap();
    out.send_trailers(status("0")).unwrap();
    let (rest, trailers) = read(back).await.unwrap();
    assert_eq!(rest, message("last"));
    assert_eq!(trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn a_large_echo_with_small_windows_does_not_stall() {
    const SIZE: usize = 64 << 20;
    let mut hand = Hand::start().await;
    let greylag = before(hand.address(), hand.address());
    let mut settings = ::h2::client::Builder::new();
    settings.initial_window_size(16 << 10);
    let mut peer = Peer::with(greylag.address(), &mut settings).await;
    let mut asking = peer.ask("POST", METHOD, &[GRPC]).await;
    let mut call = hand.call().await;
    let mut back = call.answer(&[GRPC]);
    let echo = tokio::spawn(async move {
        while let Some(piece) = call.body.data().await {
            let piece = piece.unwrap();
            call.body
                .flow_control()
                .release_capacity(piece.len())
                .unwrap();
            write(&mut back, &piece).await.unwrap();
        }
        back.send_trailers(status("0")).unwrap();
    });
    let sending = tokio::spawn(async move {
        let piece: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 253) as u8).collect();
        for _ in 0..SIZE >> 20 {
            write(&mut asking.out, &piece).await.unwrap();
        }
        asking.out.send_data(Bytes::new(), true).unwrap();
    });
    let mut body = within("a head", asking.answer).await.unwrap().into_body();
    let mut come = 0;
    while let Some(piece) = within("a piece", body.data()).await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        for byte in piece {
            assert!(usize::from(byte) == (come % (1 << 20)) % 253, "at {come}");
            come += 1;
        }
    }
    assert_eq!(come, SIZE);
    sending.await.unwrap();
    echo.await.unwrap();
}

#[tokio::test]
async fn a_cancel_reaches_the_engine_before_and_in_its_answer() {
    let (greylag, mut hand, mut peer) = started().await;
    for begun in [false, true] {
        let mut asking = peer.ask("POST", METHOD, &[GRPC]).await;
        let mut call = hand.call().await;
        if begun {
            let mut out = call.answer(&[GRPC]);
            out.send_data(message("a").into(), false).unwrap();
            let mut body = within("a head", asking.answer).await.unwrap().into_body();
            within("a message", body.data()).await.unwrap().unwrap();
            asking.out.send_reset(Reason::CANCEL);
            let reset = std::future::poll_fn(|cx| out.poll_reset(cx));
            assert_eq!(within("a reset", reset).await.unwrap(), Reason::CANCEL);
        } else {
            asking.out.send_reset(Reason::CANCEL);
            let reset = std::future::poll_fn(|cx| call.respond.poll_reset(cx));
            assert_eq!(within("a reset", reset).await.unwrap(), Reason::CANCEL);
        }
    }
    for record in greylag.records_of(2).await {
        assert_eq!(record.outcome, Outcome::ClientGone);
    }
}

#[tokio::test]
async fn a_deadline_ends_a_call_with_its_status() {
    let (greylag, mut hand, mut peer) = started().await;
    let asking = peer
        .ask("POST", METHOD, &[GRPC, ("grpc-timeout", "50m")])
        .await;
    let mut call = hand.call().await;
    assert_eq!(call.head.headers["grpc-timeout"], "50m");
    let answer = asking.whole().await.unwrap();
    assert_eq!(answer.header("grpc-status"), Some("4"));
    assert_eq!(answer.header("x-greylag-reason"), Some("deadline_exceeded"));
    let reset = std::future::poll_fn(|cx| call.respond.poll_reset(cx));
    within("a reset", reset).await.unwrap();
    // In mid-answer it ends with trailers.
    let asking = peer
        .ask("POST", METHOD, &[GRPC, ("grpc-timeout", "200m")])
        .await;
    let mut call = hand.call().await;
    let mut out = call.answer(&[GRPC]);
    out.send_data(message("a").into(), false).unwrap();
    let answer = asking.whole().await.unwrap();
    assert_eq!(answer.body, message("a"));
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "4");
    for record in greylag.records_of(2).await {
        assert_eq!(record.outcome, Outcome::Timeout);
    }
}

#[tokio::test]
async fn a_deadline_holds_while_the_first_message_is_waited_for() {
    let hand = Hand::start().await;
    let mut rules = engines(&[("stable", hand.address()), ("other", hand.address())]);
    rules["engines"]["stable"]["grpc"] = format!("http://{}", hand.address()).into();
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let mut peer = Peer::to(greylag.address()).await;
    for (method, timeout, code) in [
        ("ModelInfer", "300m", "4"),
        ("ModelStreamInfer", "300m", "4"),
        ("ModelInfer", "oops", "3"),
        ("ModelStreamInfer", "oops", "3"),
    ] {
        let path = format!("/inference.GRPCInferenceService/{method}");
        let mut asking = peer
            .ask("POST", &path, &[GRPC, ("grpc-timeout", timeout)])
            .await;
        // Half a message.
        asking
            .out
            .send_data(message("half")[..6].to_vec().into(), false)
            .unwrap();
        let answer = asking.whole().await.unwrap();
        assert_eq!(
            answer.header("grpc-status"),
            Some(code),
            "{method} {timeout}"
        );
    }
}

#[tokio::test]
async fn where_there_is_no_engine_for_it_a_call_is_told_so() {
    let engine = sim().await;
    let only_http = Greylag::with(
        LISTEN,
        &engines(&[("stable", engine.address())]).to_string(),
    );
    let away = greylag_sim::refusing_address().await.unwrap();
    let unreachable = before(away.address(), away.address());
    // It speaks HTTP/1.1, whatever the rules say.
    let foreign = before(engine.address(), engine.address());
    for (greylag, reason) in [
        (&only_http, "no_grpc"),
        (&unreachable, "engine_unreachable"),
        (&foreign, "engine_garbage"),
    ] {
        let mut peer = Peer::to(greylag.address()).await;
        let asking = peer.ask("POST", METHOD, &[GRPC]).await;
        let answer = within("an answer", asking.answer).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["grpc-status"], "14", "{reason}");
        assert_eq!(answer.headers()["x-greylag-reason"], reason);
        assert_eq!(answer.headers()["content-type"], "application/grpc");
        assert!(!answer.headers()["grpc-message"].is_empty());
        assert!(answer.body().is_end_stream());
    }
}

#[tokio::test]
async fn a_conversation_may_rest_longer_than_an_engine_may() {
    let hand = &mut Hand::start().await;
    let mut rules = engines(&[("stable", hand.address())]);
    rules["engines"]["stable"]["grpc"] = format!("http://{}", hand.address()).into();
    rules["engines"]["stable"]["timeouts"] = serde_json::json!({ "idle": "50ms" });
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let mut peer = Peer::to(greylag.address()).await;
    let mut asking = peer.ask("POST", METHOD, &[GRPC]).await;
    let mut call = hand.call().await;
    let mut out = call.answer(&[GRPC]);
    let mut back = within("a head", asking.answer).await.unwrap().into_body();
    tokio::time::sleep(Duration::from_millis(200)).await;
    write(&mut asking.out, &message("late")).await.unwrap();
    within("a message", call.body.data())
        .await
        .unwrap()
        .unwrap();
    out.send_data(message("later").into(), false).unwrap();
    within("an answer", back.data()).await.unwrap().unwrap();
    // Once all is said, the engine owes the rest.
    asking.out.send_data(Bytes::new(), true).unwrap();
    let (_, trailers) = read(back).await.unwrap();
    assert_eq!(trailers.unwrap()["grpc-status"], "4");
}

#[tokio::test]
async fn a_call_that_the_engine_refuses_to_look_at_is_told_as_unavailable() {
    let (greylag, mut hand, mut peer) = started().await;
    let asking = peer.ask("POST", METHOD, &[GRPC]).await;
    let mut call = hand.call().await;
    call.respond.send_reset(Reason::REFUSED_STREAM);
    let answer = asking.whole().await.unwrap();
    assert_eq!(answer.header("grpc-status"), Some("14"));
    assert_eq!(greylag.records_of(1).await[0].outcome, Outcome::EngineReset);
}

#[tokio::test]
async fn greylag_answers_for_its_own_health_and_engines_for_theirs() {
    const CHECK: &str = "/grpc.health.v1.Health/Check";
    let (_greylag, mut hand, mut peer) = started().await;
    let ours = [&[0, 0, 0, 0, 9, 0x0a, 7][..], b"greylag"].concat();
    let answer = peer.whole("POST", CHECK, &[GRPC], &ours).await.unwrap();
    assert_eq!(answer.body, [0, 0, 0, 0, 2, 8, 1][..]);
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    let theirs = [0, 0, 0, 0, 0];
    let asking = async { peer.whole("POST", CHECK, &[GRPC], &theirs).await.unwrap() };
    let answering = async {
        let mut call = hand.call().await;
        let (asked, _) = read(call.body).await.unwrap();
        assert_eq!(asked, theirs[..]);
        let mut out = call.respond.send_response(head(), false).unwrap();
        out.send_data(vec![0, 0, 0, 0, 2, 8, 2].into(), false)
            .unwrap();
        out.send_trailers(status("0")).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.body, [0, 0, 0, 0, 2, 8, 2][..]);
}
