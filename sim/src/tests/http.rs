//! HTTP/1.1 as the engine speaks it: framing, keep-alive, heads, what is refused.

use super::DEADLINE;
use super::client::{Client, End, STREAM, chat, order, post};
use crate::{Ending, Engine, Settings};

async fn start(settings: Settings) -> (Engine, Client) {
    let engine = Engine::start(settings).await.unwrap();
    let client = Client::connect(engine.address()).await;
    (engine, client)
}

#[tokio::test]
async fn a_stream_tells_its_tokens_and_its_usage() {
    let (_engine, mut client) = start(Settings::default()).await;
    let fields = r#","stream":true,"max_tokens":9,"stream_options":{"include_usage":true}"#;
    let answer = client
        .ask(&chat(&order("tokens_per_event=4;tokens=20"), fields))
        .await;
    let events = answer.events();
    // The role, 1 + 4 + 4 tokens, usage, [DONE].
    assert_eq!(events.len(), 6, "{events:?}");
    let usage: serde_json::Value = serde_json::from_str(&events[4]).unwrap();
    assert_eq!(
        usage["usage"],
        serde_json::json!({"prompt_tokens": 4, "total_tokens": 13, "completion_tokens": 9})
    );
    assert_eq!(events[5], "[DONE]");
}

#[tokio::test]
async fn equal_runs_give_equal_bytes() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (_engine, mut client) = start(Settings {
            tokens: "5..40".parse().unwrap(),
            ..Settings::default()
        })
        .await;
        for _ in 0..3 {
            client.send(&chat("", STREAM)).await;
        }
        client.send(&chat("connection: close\r\n", "")).await;
        runs.push(client.rest().await.0);
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0].len() > 5_000);
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order_on_one_connection() {
    let (engine, mut client) = start(Settings::default()).await;
    let both = [
        chat("x-request-id: one\r\n", STREAM),
        chat("x-request-id: two\r\n", ""),
    ]
    .concat();
    client.send(&both).await;
    for id in ["chatcmpl-one", "chatcmpl-two"] {
        assert!(client.answer(true).await.text().contains(id));
    }
    let seen = engine.seen();
    assert_eq!((seen.count, seen.connections, seen.open), (2, 1, 1));
}

#[tokio::test]
async fn a_chunked_body_is_read_and_recorded_without_its_framing() {
    let (engine, mut client) = start(Settings::default()).await;
    let body = r#"{"messages":[],"max_tokens":1}"#;
    let (left, right) = body.split_at(7);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}; ext=1\r\n{left}\r\n{:X}\r\n{right}\r\n0\r\nx-trailer: 1\r\n\r\nGET /version HTTP/1.1\r\n\r\n",
        left.len(),
        right.len()
    );
    assert_eq!(client.ask(request.as_bytes()).await.status, 200);
    assert!(client.answer(true).await.text().contains("version"));
    assert_eq!(
        engine.seen().requests[0].body.as_deref(),
        Some(body.as_bytes())
    );
}

#[tokio::test]
async fn a_client_that_expects_it_is_told_to_go_on() {
    let (_engine, mut client) = start(Settings::default()).await;
    let request = chat("Expect: 100-continue\r\n", "");
    let body = request
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    assert_eq!(client.ask(&request[..body]).await.status, 100);
    assert_eq!(client.ask(&request[body..]).await.status, 200);
}

#[tokio::test]
async fn a_head_request_gets_a_head_alone() {
    let (_engine, mut client) = start(Settings::default()).await;
    let head = client.ask(b"HEAD /version HTTP/1.1\r\n\r\n").await;
    let get = client.ask(b"GET /version HTTP/1.1\r\n\r\n").await;
    assert_eq!(head.head, get.head);
    assert_eq!(get.text(), r#"{"version":"0.32.0"}"#);
}

#[tokio::test]
async fn an_http_1_0_client_gets_its_stream_by_the_end_of_the_connection() {
    let (_engine, mut client) = start(Settings::default()).await;
    let request = String::from_utf8(chat("", STREAM))
        .unwrap()
        .replace("HTTP/1.1", "HTTP/1.0");
    let answer = client.ask(request.as_bytes()).await;
    assert_eq!(
        (
            answer.header("transfer-encoding"),
            answer.header("content-length")
        ),
        (None, None)
    );
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.whole && answer.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn what_is_not_a_request_is_refused_and_the_connection_ended() {
    for (raw, status) in [
        (&b"\x16\x03\x01 hello\r\n\r\n"[..], 400),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            400,
        ),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n",
            413,
        ),
    ] {
        let (_engine, mut client) = start(Settings::default()).await;
        let answer = client.ask(raw).await;
        assert_eq!(
            (answer.status, answer.header("connection")),
            (status, Some("close"))
        );
        assert_eq!(client.rest().await, (Vec::new(), End::Fin));
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    let (engine, mut client) = start(Settings {
        keep_alive_timeout: Some(DEADLINE / 500),
        ..Settings::default()
    })
    .await;
    assert_eq!(client.ask(&chat("", "")).await.status, 200);
    assert_eq!(client.rest().await, (Vec::new(), End::Fin));
    drop(client);
    assert!(engine.wait_for(|seen| seen.open == 0, DEADLINE).await);
}

#[tokio::test]
async fn request_ids_come_back_where_they_are_switched_on() {
    let (engine, mut client) = start(Settings {
        request_id_headers: true,
        ..Settings::default()
    })
    .await;
    let answer = client.ask(&chat("X-Request-Id: abc\r\n", STREAM)).await;
    assert_eq!(answer.header("x-request-id"), Some("abc"));
    assert!(
        client
            .ask(&chat("", ""))
            .await
            .header("x-request-id")
            .is_some_and(|id| id.len() == 16)
    );
    engine.set(Settings::default());
    assert_eq!(
        client
            .ask(&chat("X-Request-Id: abc\r\n", STREAM))
            .await
            .header("x-request-id"),
        None
    );
}

#[tokio::test]
async fn health_follows_the_settings_and_metrics_count() {
    let (engine, mut client) = start(Settings::default()).await;
    client.ask(&chat("", r#","max_tokens":7"#)).await;
    client
        .ask(&post(
            "/v1/completions",
            "",
            br#"{"prompt":["a b","c"],"n":2,"max_tokens":3,"ignore_eos":true}"#,
        ))
        .await;
    let page = client.ask(b"GET /metrics HTTP/1.1\r\n\r\n").await.text();
    for line in [
        "prompt_tokens_total{engine=\"0\",model_name=\"tiny\"} 7.0",
        "generation_tokens_total{engine=\"0\",model_name=\"tiny\"} 19.0",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    assert_eq!(
        client.ask(b"GET /health HTTP/1.1\r\n\r\n").await.status,
        200
    );
    engine.set(Settings {
        healthy: false,
        ..Settings::default()
    });
    assert_eq!(
        client.ask(b"GET /health HTTP/1.1\r\n\r\n").await.status,
        503
    );
}

#[tokio::test]
async fn what_was_seen_is_what_was_sent() {
    let (engine, mut client) = start(Settings::default()).await;
    let request = chat("X-Two: a\r\nx-two: b\r\n", STREAM);
    client.ask(&request).await;
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    let seen = engine.seen();
    let first = &seen.requests[0];
    assert_eq!(
        [first.head.clone(), first.body.clone().unwrap()].concat(),
        request
    );
    assert_eq!(
        (first.method.as_str(), first.target.as_str()),
        ("POST", "/v1/chat/completions")
    );
    assert_eq!(first.header_all("x-two").collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(first.ended.unwrap().ending, Ending::Answered { events: 16 });
    assert_eq!(seen.running, 0);
}

#[tokio::test]
async fn a_stopped_engine_refuses_and_drops_its_connections() {
    let (engine, mut client) = start(Settings::default()).await;
    client.send(&chat(&order("ttft=1h"), STREAM)).await;
    assert!(engine.wait_for(|seen| seen.running == 1, DEADLINE).await);
    let address = engine.address();
    engine.stop().await;
    client.rest().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
