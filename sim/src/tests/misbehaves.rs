//! Every misbehaviour, as a client meets it.

use super::DEADLINE;
use super::client::{Answer, Client, End, STREAM, chat, order};
use crate::{Ending, Engine, Settings};

async fn ask(what: &str) -> (Answer, Client, Engine) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    let answer = client.ask(&chat(&order(what), STREAM)).await;
    (answer, client, engine)
}

/// All bytes of the connection, and its end.
async fn raw(what: &str) -> (Vec<u8>, End, Ending) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    client.send(&chat(&order(what), STREAM)).await;
    let (bytes, end) = client.rest().await;
    drop(client);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    let ending = engine.seen().requests[0].ended.unwrap().ending;
    (bytes, end, ending)
}

#[tokio::test]
async fn instead_of_an_answer() {
    let broken = Ending::Broken { after_events: 0 };
    assert_eq!(raw("reset").await, (Vec::new(), End::Rst, broken));
    assert_eq!(raw("close").await, (Vec::new(), End::Fin, broken));
    let (bytes, end, _) = raw("garbage").await;
    assert_eq!(
        (bytes.starts_with(b"HTTP"), bytes.is_empty(), end),
        (false, false, End::Fin)
    );
}

#[tokio::test]
async fn a_status_has_a_body_where_it_may() {
    let (answer, mut client, _engine) = ask("status=503;retry_after=7").await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("7"))
    );
    assert!(answer.text().contains(r#""code":503"#), "{}", answer.text());
    let answer = client.ask(&chat(&order("status=204"), STREAM)).await;
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (204, None)
    );
    assert_eq!(
        client.ask(&chat("", "")).await.status,
        200,
        "the connection goes on"
    );
}

#[tokio::test]
async fn an_early_answer_does_not_wait_for_the_body() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    let head =
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1000000\r\nx-sim: early=413\r\n\r\n";
    let answer = client.ask(head).await;
    assert_eq!(
        (answer.status, answer.header("connection")),
        (413, Some("close"))
    );
    client.send(&[b'x'; 10_000]).await;
    assert_eq!(client.rest().await, (Vec::new(), End::Fin));
}

#[tokio::test]
async fn a_cut_stream_is_the_start_of_a_whole_one() {
    let whole = ask("tokens=5").await.0;
    for after in 0..=5 {
        for (how, end) in [("fin", End::Fin), ("rst", End::Rst)] {
            let (answer, mut client, engine) =
                ask(&format!("tokens=5;cut={after};how={how}")).await;
            assert!(!answer.whole);
            assert_eq!(client.rest().await.1, end);
            // Before the first token event stands the role event.
            let events = if after == 0 { 0 } else { after + 1 };
            assert_eq!(answer.pieces, whole.pieces[..events], "cut={after}");
            assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
            let ending = engine.seen().requests[0].ended.unwrap().ending;
            assert_eq!(
                ending,
                Ending::Broken {
                    after_events: after as u64
                }
            );
        }
    }
    assert!(
        ask("tokens=5;cut=6").await.0.whole,
        "a cut after the end does nothing"
    );
}

/// The same text whatever the request's number.
const GREEDY: &str = r#","temperature":0"#;

#[tokio::test]
async fn a_plain_answer_is_cut_and_stalled_by_bytes() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let mut client = Client::connect(engine.address()).await;
    let whole = client.ask(&chat("", GREEDY)).await.text();
    let stalled = client
        .ask(&chat(&order("stall=7;for=20ms"), GREEDY))
        .await
        .text();
    assert_eq!(stalled.len(), whole.len());
    for (how, end) in [("fin", End::Fin), ("rst", End::Rst)] {
        let mut client = Client::connect(engine.address()).await;
        let answer = client
            .ask(&chat(&order(&format!("cut=10;how={how}")), GREEDY))
            .await;
        assert_eq!(
            (answer.whole, answer.text().as_str(), client.rest().await.1),
            (false, &whole[..10], end)
        );
    }
}

#[tokio::test]
async fn a_wait_comes_before_any_byte() {
    let started = std::time::Instant::now();
    let (answer, ..) = ask("wait=30ms;status=500").await;
    assert!(answer.status == 500 && started.elapsed().as_millis() >= 30);
}

#[tokio::test]
async fn a_stall_that_ends_goes_on_where_it_stopped() {
    let started = std::time::Instant::now();
    let (answer, ..) = ask("tokens=5;stall=2;for=30ms").await;
    assert!(started.elapsed().as_millis() >= 30);
    assert_eq!(answer.pieces, ask("tokens=5").await.0.pieces);
}

#[tokio::test]
async fn an_error_in_the_stream_comes_under_200_and_before_done() {
    let (answer, ..) = ask("tokens=5;error=2").await;
    let events = answer.events();
    assert_eq!((answer.status, answer.whole, events.len()), (200, true, 5));
    assert!(events[3].contains("InternalServerError"), "{events:?}");
    assert_eq!(events[4], "[DONE]");
    assert!(ask("tokens=5;error=2;no_done").await.0.events()[3].contains("error"));
}

#[tokio::test]
async fn the_shape_of_an_answer_follows_its_order() {
    let whole = ask("tokens=5").await.0;

    let (answer, ..) = ask("tokens=5;no_done").await;
    assert_eq!(
        (answer.whole, &answer.pieces[..]),
        (true, &whole.pieces[..6])
    );

    let (answer, ..) = ask("tokens=5;length").await;
    assert_eq!((answer.whole, answer.text()), (true, whole.text()));
    assert!(
        answer.header("content-length").is_some() && answer.header("transfer-encoding").is_none()
    );

    let (answer, ..) = ask("tokens=5;gzip").await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert!(
        answer.pieces[0].starts_with(b"\x1f\x8b")
            && !answer
                .pieces
                .concat()
                .windows(4)
                .any(|four| four == b"data")
    );

    let (answer, ..) = ask("tokens=5;comments=2").await;
    assert_eq!(
        answer
            .pieces
            .iter()
            .filter(|piece| piece.as_slice() == b": keep-alive\n\n")
            .count(),
        10
    );
    assert_eq!(answer.events(), whole.events());

    let (answer, ..) = ask("tokens=5;huge_event=100000").await;
    assert_eq!(
        answer
            .content()
            .bytes()
            .filter(|byte| *byte == b'x')
            .count(),
        100_000
    );

    let (answer, ..) = ask("tokens=5;reasoning=2").await;
    assert_eq!(
        answer
            .events()
            .iter()
            .filter(|event| event.contains(r#""delta":{"reasoning":"#))
            .count(),
        2
    );

    let (answer, ..) = ask("not_sse").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/plain; charset=utf-8"))
    );
}

#[tokio::test]
async fn an_informational_answer_comes_first() {
    let (answer, mut client, _engine) = ask("1xx=103").await;
    assert_eq!(answer.status, 103);
    assert!(answer.header("link").is_some());
    assert_eq!(client.answer(true).await.status, 200);

    let (answer, mut client, _engine) = ask("1xx=102;status=503").await;
    assert_eq!(
        (answer.status, client.answer(true).await.status),
        (102, 503)
    );
}

#[tokio::test]
async fn a_connection_closed_after_a_good_answer_does_not_say_so() {
    let (answer, mut client, _engine) = ask("close_after").await;
    assert_eq!((answer.whole, answer.header("connection")), (true, None));
    assert_eq!(client.rest().await, (Vec::new(), End::Fin));
}

#[tokio::test]
async fn keep_alive_comments_come_while_no_token_is_due() {
    let engine = Engine::start(Settings {
        keep_alive: Some(DEADLINE / 4_000),
        ..Settings::default()
    })
    .await
    .unwrap();
    let mut client = Client::connect(engine.address()).await;
    let answer = client
        .ask(&chat(&order("tokens=2;ttft=40ms"), STREAM))
        .await;
    let comments = answer
        .pieces
        .iter()
        .take_while(|piece| piece.as_slice() == b": keep-alive\n\n")
        .count();
    assert!((1..=7).contains(&comments), "{comments}");
    assert_eq!(answer.pieces.len(), comments + 4);
}

#[tokio::test]
async fn settings_misbehave_towards_every_nth_inference_request() {
    let misbehave = vec!["1/3:status=500".parse().unwrap()];
    let engine = Engine::start(Settings {
        misbehave,
        ..Settings::default()
    })
    .await
    .unwrap();
    let mut client = Client::connect(engine.address()).await;
    let mut statuses = Vec::new();
    for _ in 0..6 {
        assert_eq!(
            client.ask(b"GET /health HTTP/1.1\r\n\r\n").await.status,
            200
        );
        statuses.push(client.ask(&chat("", STREAM)).await.status);
    }
    assert_eq!(statuses, [200, 200, 500, 200, 200, 500]);
}

#[tokio::test]
async fn a_bad_order_is_refused_with_what_is_allowed() {
    let (answer, ..) = ask("nonsense=1").await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.text().contains("nonsense=1") && answer.text().contains("cut=N"),
        "{}",
        answer.text()
    );
}
