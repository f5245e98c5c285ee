//! Answers given frame for frame, as a client meets them.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;

use super::client::within;
use super::http2::{seen, started};
use super::http2_client::{Http2, answer};
use crate::{Act, Ending, Engine, Frames, fields};

/// An engine that plays these acts to the first request.
async fn playing(acts: impl Into<Vec<Act>>) -> (Engine, Http2) {
    let (engine, client) = started().await;
    engine.play([Frames(acts.into())]);
    (engine, client)
}

#[tokio::test]
async fn an_answer_has_the_frames_it_was_given() {
    let (engine, client) = playing([
        Act::ReadToEnd,
        Act::Head(200, fields([("content-type", "application/grpc")])),
        Act::Data(b"one".to_vec()),
        Act::Data(b"two".to_vec()),
        Act::Trailers(fields([("grpc-status", "0"), ("grpc-message", "")])),
    ])
    .await;
    let (response, mut send) = client.begin("/a", &[("te", "trailers")]).await;
    send.send_data("body".into(), false).unwrap();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-check", "7".parse().unwrap());
    send.send_trailers(trailers).unwrap();
    let answer = within(answer(response)).await;
    assert_eq!(answer.pieces, ["one", "two"]);
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    let seen = seen(&engine, |seen| seen.ended == 1).await;
    let request = &seen.requests[0];
    assert_eq!(request.header("te"), Some("trailers"));
    assert_eq!(
        (request.body.as_deref(), request.received),
        (Some(&b"body"[..]), 4)
    );
    let stream = request.stream.as_ref().unwrap();
    assert!(stream.over.is_some() && stream.reset.is_none());
    assert_eq!(stream.trailers, [("x-check".to_owned(), b"7".to_vec())]);
    assert_eq!(
        request.ended.unwrap().ending,
        Ending::Answered { events: 2 }
    );
}

#[tokio::test]
async fn a_head_may_be_all_there_is() {
    let status = fields([("grpc-status", "12")]);
    let (_engine, client) = playing([Act::ReadToEnd, Act::HeadOnly(200, status)]).await;
    let answer = client.ask("/a", &[], "").await;
    assert_eq!(
        (answer.status, &answer.headers["grpc-status"]),
        (200, &"12".parse().unwrap())
    );
    assert!(answer.pieces.is_empty() && answer.trailers.is_none());
}

#[tokio::test]
async fn a_stream_is_reset_or_refused_and_others_go_on() {
    for (acts, status, code) in [
        (vec![Act::Reset(7)], 0, Reason::REFUSED_STREAM),
        (
            vec![
                Act::Head(200, fields([])),
                Act::Data(b"x".to_vec()),
                Act::Pause(MOMENT),
                Act::Reset(2),
            ],
            200,
            Reason::INTERNAL_ERROR,
        ),
    ] {
        let (engine, client) = playing(acts).await;
        let answer = client.ask("/a", &[], "").await;
        assert_eq!((answer.status, answer.reason()), (status, Some(code)));
        assert_eq!(client.ask("/b", &[], "").await.status, 404);
        let seen = seen(&engine, |seen| seen.ended == 2).await;
        assert_eq!(seen.connections, 1);
        let ending = seen.requests[0].ended.unwrap().ending;
        assert!(matches!(ending, Ending::Broken { .. }), "{ending:?}");
    }
}

/// For what was sent before a reset to leave.
pub(super) const MOMENT: Duration = Duration::from_millis(20);

#[tokio::test]
async fn goaway_lets_the_answer_go_on_and_takes_no_more() {
    let (engine, client) = playing([
        Act::Head(200, fields([])),
        Act::Data(b"before".to_vec()),
        Act::GoAway,
        Act::ReadToEnd,
        Act::LastData(b"after".to_vec()),
    ])
    .await;
    let (response, mut send) = client.begin("/a", &[]).await;
    let refused = within(async {
        loop {
            // The client knows of it once its connection takes no new stream.
            let mut next = client.send.clone();
            match std::future::poll_fn(|cx| next.poll_ready(cx)).await {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        }
    })
    .await;
    assert!(
        refused.is_go_away() || refused.reason().is_none(),
        "{refused}"
    );
    send.send_data(Bytes::new(), true).unwrap();
    assert_eq!(within(answer(response)).await.text(), "beforeafter");
    drop(client.send);
    within(client.driver).await.unwrap().unwrap();
    assert_eq!(seen(&engine, |seen| seen.open == 0).await.ended, 1);
}

#[tokio::test]
async fn goaway_is_sent_to_idle_connections_too() {
    let (engine, client) = started().await;
    assert_eq!(client.ask("/a", &[], "").await.status, 404);
    engine.go_away();
    within(client.driver).await.unwrap().unwrap();
    let client = Http2::connect(engine.address()).await;
    assert_eq!(
        client.ask("/a", &[], "").await.status,
        404,
        "a new one is taken"
    );
}

#[tokio::test]
async fn a_body_may_come_in_any_number_of_frames() {
    let (engine, client) = playing([
        Act::Read(1),
        Act::Pause(MOMENT),
        Act::ReadToEnd,
        Act::HeadOnly(200, fields([])),
    ])
    .await;
    let (response, mut send) = client.begin("/a", &[]).await;
    for _ in 0..20_000 {
        send.send_data("x".into(), false).unwrap();
    }
    send.send_data(Bytes::new(), true).unwrap();
    assert_eq!(within(answer(response)).await.status, 200);
    assert_eq!(
        seen(&engine, |seen| seen.ended == 1).await.requests[0].received,
        20_000
    );
}

#[tokio::test]
async fn a_connection_ends_with_a_code_or_without_a_word() {
    for (act, code) in [
        (Act::Abort(11), Some(Reason::ENHANCE_YOUR_CALM)),
        (Act::Close, None),
    ] {
        let (engine, client) = playing([Act::Head(200, fields([])), act]).await;
        let (response, _send) = client.begin("/a", &[]).await;
        let answer = within(answer(response)).await;
        assert!(answer.broken.is_some());
        let end = within(client.driver).await.unwrap();
        assert_eq!(end.err().and_then(|error| error.reason()), code);
        let seen = seen(&engine, |seen| seen.open == 0).await;
        assert_eq!(seen.ended, 1, "a stream ends with its connection");
    }
}

#[tokio::test]
async fn a_window_opens_as_the_body_is_read() {
    let sent = 200_000;
    let (engine, client) = playing([Act::WaitForReset]).await;
    engine.play([Frames(vec![Act::Read(100_000), Act::WaitForReset])]);
    for (number, room) in [(1, 65_535), (2, 100_000)] {
        // Each on a connection of its own, whose window nobody else uses up.
        let client = Http2::connect(engine.address()).await;
        let (response, mut send) = client.begin("/a", &[]).await;
        send.send_data(vec![0; sent].into(), true).unwrap();
        seen(&engine, |seen| {
            let found = seen
                .requests
                .iter()
                .find(|request| request.number == number);
            found.is_some_and(|request| number == 1 || request.received >= room)
        })
        .await;
        let received = engine.seen().requests.back().unwrap().received;
        assert!(
            received == 0 || (room..sent as u64).contains(&received),
            "{received}"
        );
        send.send_reset(Reason::CANCEL);
        let seen = seen(&engine, |seen| seen.ended == number).await;
        let request = seen.requests.back().unwrap();
        assert_eq!(request.stream.as_ref().unwrap().reset.unwrap().0, 8);
        assert!(matches!(
            request.ended.unwrap().ending,
            Ending::ClientClosed { .. }
        ));
        drop(response);
    }
    drop(client);
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_has_ended() {
    let (engine, client) = playing([
        Act::Read(3),
        Act::Head(413, fields([])),
        Act::LastData(b"too much".to_vec()),
        Act::ReadToEnd,
    ])
    .await;
    let (response, mut send) = client.begin("/a", &[]).await;
    send.send_data("abc".into(), false).unwrap();
    let answer = within(answer(response)).await;
    assert_eq!((answer.status, answer.text().as_str()), (413, "too much"));
    assert!(
        engine.seen().requests[0]
            .stream
            .as_ref()
            .unwrap()
            .over
            .is_none()
    );
    send.send_data("def".into(), true).unwrap();
    let seen = seen(&engine, |seen| seen.ended == 1).await;
    assert_eq!(seen.requests[0].body.as_deref(), Some(&b"abcdef"[..]));
}

#[tokio::test]
async fn an_echo_holds_no_more_than_its_windows() {
    let (engine, client) = playing([
        Act::Head(200, fields([])),
        Act::Echo,
        Act::Trailers(fields([("x-end", "1")])),
    ])
    .await;
    let (response, mut send) = client.begin("/a", &[]).await;
    let (_, mut body) = within(response).await.unwrap().into_parts();
    const TOTAL: usize = 2 << 20;
    let mut sent = vec![0; TOTAL];
    sent.iter_mut()
        .zip(0_u32..)
        .for_each(|(byte, at)| *byte = (at % 251) as u8);
    let sent = Bytes::from(sent);
    send.send_data(sent.clone(), true).unwrap();
    // As long as the client takes nothing back, the engine takes no more than the windows of both sides.
    seen(&engine, |seen| seen.requests[0].received >= 65_535).await;
    let mut back = Vec::with_capacity(TOTAL);
    while let Some(piece) = within(body.data()).await {
        let piece = piece.unwrap();
        let held = engine.seen().requests[0].received - back.len() as u64;
        assert!(held <= 3 * 65_535, "{held}");
        body.flow_control().release_capacity(piece.len()).unwrap();
        back.extend_from_slice(&piece);
    }
    assert!(back == sent, "the same bytes come back");
    let trailers = within(body.trailers()).await.unwrap().unwrap();
    assert_eq!(trailers["x-end"], "1");
}

#[tokio::test]
async fn frames_are_found_by_name_too() {
    let (engine, client) = started().await;
    engine.add_frames("teapot", Frames(vec![Act::HeadOnly(418, fields([]))]));
    for _ in 0..2 {
        let answer = client.ask("/a", &[("x-sim-script", "teapot")], "").await;
        assert_eq!(answer.status, 418);
    }
    let answer = client.ask("/a", &[("x-sim-script", "nosuch")], "").await;
    assert_eq!(answer.status, 400);
}
