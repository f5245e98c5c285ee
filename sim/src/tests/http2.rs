//! An engine that speaks HTTP/2 or listens elsewhere, as its clients meet it.

use h2::Reason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::DEADLINE;
use super::client::{Client, End, chat, within};
use super::frames::MOMENT;
use super::http2_client::Http2;
use crate::{Act, Door, Engine, Frames, Script, Seen, Settings, Speaks, Step, Windows};

pub(super) async fn started() -> (Engine, Http2) {
    let engine = Engine::http2(Settings::default()).await.unwrap();
    let client = Http2::connect(engine.address()).await;
    (engine, client)
}

pub(super) async fn seen(engine: &Engine, what: impl Fn(&Seen) -> bool) -> Seen {
    assert!(engine.wait_for(what, DEADLINE).await, "{:?}", engine.seen());
    engine.seen()
}

const CHAT: &str = "/v1/chat/completions";
const BODY: &str =
    r#"{"model":"tiny","messages":[{"role":"user","content":"how do geese fly"}],"temperature":0"#;

#[tokio::test]
async fn a_request_gets_the_same_bytes_over_either_version() {
    for (end, stream) in [("", false), (r#","stream":true"#, true)] {
        // Equal seeds and numbers give equal bytes, so each engine gets one request.
        let one = Engine::start(Settings::default()).await.unwrap();
        let (_other, client) = started().await;
        let mut plain = Client::connect(one.address()).await;
        let plain = plain
            .ask(&chat("", &format!(r#","temperature":0{end}"#)))
            .await;
        let answer = client.ask(CHAT, &[], &format!("{BODY}{end}}}")).await;
        assert!(
            answer.status == 200 && answer.broken.is_none(),
            "{answer:?}"
        );
        assert_eq!(answer.text(), plain.text());
        let content_type = answer.headers["content-type"].to_str().unwrap();
        assert_eq!(Some(content_type), plain.header("content-type"));
        assert!(!answer.headers.contains_key("transfer-encoding"));
        let pieces = answer.pieces.iter().filter(|piece| !piece.is_empty());
        assert!(
            !stream || pieces.count() > 10,
            "frames for the chunks: {answer:?}"
        );
    }
}

#[tokio::test]
async fn an_engine_speaks_both_versions_at_two_doors() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let client = Http2::connect(engine.open(Door::http2()).await.unwrap()).await;
    assert_eq!(client.ask("/nosuch", &[], "").await.status, 404);
    let answer = Client::connect(engine.address())
        .await
        .ask(&chat("", ""))
        .await;
    assert_eq!(answer.status, 200);
    let seen = seen(&engine, |seen| seen.ended == 2).await;
    let streams: Vec<_> = seen
        .requests
        .iter()
        .map(|request| request.stream.as_ref().map(|stream| stream.id))
        .collect();
    assert_eq!(streams, [Some(1), None]);
    let head = String::from_utf8(seen.requests[0].head.clone()).unwrap();
    assert!(
        head.starts_with(
            ":method: POST\r\n:scheme: http\r\n:authority: engine\r\n:path: /nosuch\r\n"
        ),
        "{head}"
    );
}

#[tokio::test]
async fn orders_hold_over_http_2() {
    let (engine, client) = started().await;
    let ask = async |order: &str| {
        let body = format!(r#"{BODY},"stream":true}}"#);
        client.ask(CHAT, &[("x-sim", order)], &body).await
    };
    let answer = ask("status=503;retry_after=7").await;
    assert_eq!(
        (answer.status, &answer.headers["retry-after"]),
        (503, &"7".parse().unwrap())
    );
    assert!(ask("1xx=103").await.text().ends_with("data: [DONE]\n\n"));
    let answer = ask("tokens=5;cut=3;how=rst").await;
    assert_eq!(answer.reason(), Some(Reason::INTERNAL_ERROR));
    assert_eq!(answer.text().matches("\"token_ids\":null").count(), 3);
    let answer = ask("reset").await;
    assert_eq!(
        (answer.status, answer.reason()),
        (0, Some(Reason::INTERNAL_ERROR))
    );
    assert_eq!(ask("close_after").await.status, 200);
    within(client.driver).await.unwrap().unwrap();
    assert_eq!(engine.seen().ended, 5);

    let (_engine, client) = started().await;
    let body = format!(r#"{BODY},"stream":true}}"#);
    let answer = client.ask(CHAT, &[("x-sim", "cut=2")], &body).await;
    assert!(
        answer.broken.is_some_and(|error| error.reason().is_none()),
        "the connection ends"
    );
}

#[tokio::test]
async fn streams_are_bounded_where_the_engine_says_so() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let windows = Windows {
        streams: Some(1),
        ..Windows::default()
    };
    let door = Door {
        speaks: Speaks::Http2(windows),
        tls: None,
    };
    let client = Http2::connect(engine.open(door).await.unwrap()).await;
    engine.play([Frames(vec![Act::WaitForReset])]);
    let (_response, mut first) = client.begin("/a", &[]).await;
    seen(&engine, |seen| seen.count == 1).await;
    let ask = client.ask("/b", &[], "");
    tokio::pin!(ask);
    assert!(
        tokio::time::timeout(MOMENT, &mut ask).await.is_err(),
        "the second waits for the first"
    );
    first.send_reset(Reason::CANCEL);
    assert_eq!(ask.await.status, 404);
}

#[tokio::test]
async fn a_door_may_speak_scripted_bytes() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let script = Script(vec![
        Step::WaitForByte,
        Step::Bytes(b"hello".to_vec()),
        Step::Fin,
    ]);
    let door = Door {
        speaks: Speaks::Bytes(script),
        tls: None,
    };
    let mut client = Client::connect(engine.open(door).await.unwrap()).await;
    client.send(b"PRI").await;
    assert_eq!(client.rest().await, (b"hello".to_vec(), End::Fin));
}

#[tokio::test]
async fn a_unix_socket_is_a_door_like_any_other() {
    let folder = std::env::temp_dir().join(format!("greylag-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("engine.sock");
    let engine = Engine::start(Settings::default()).await.unwrap();
    engine.open_path(&path, Door::default()).unwrap();
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    stream.write_all(&chat("", "")).await.unwrap();
    let mut start = [0; 15];
    within(stream.read_exact(&mut start)).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    std::fs::remove_dir_all(&folder).unwrap();
}
