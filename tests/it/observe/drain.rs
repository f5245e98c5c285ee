//! The drain that an engine's `preStop` hook asks for.

use std::net::SocketAddr;

use greylag_filters::outcome::Outcome;
use tokio::task::JoinHandle;

use crate::admin::problem;
use crate::commands::{Child, engine_process};
use crate::gate::{FIRST, Gated, REST};
use crate::harness::{Answer, Client, Greylag, engines, eventually, within};

const STREAM: &str = r#"{"model":"tiny","messages":[],"stream":true,"max_tokens":120}"#;
const JSON: &str = "content-type: application/json";

fn greylag(engine: SocketAddr, limits: &str) -> Greylag {
    let keys =
        format!("observe: {{ address: \"127.0.0.1:0\", drain: /drain }}\nlimits: {{ {limits} }}");
    Greylag::with(&keys, &engines(&[("stable", engine)]).to_string())
}

async fn begun(address: SocketAddr, text: &str) -> Client {
    let mut client = Client::to(address).await;
    client
        .ask("POST /v1/chat/completions", &[JSON], STREAM)
        .await;
    client.until(text).await;
    client
}

/// As kubelet asks: with the pod's address.
fn asked(observe: SocketAddr) -> JoinHandle<Answer> {
    tokio::spawn(async move {
        let mut client = Client::to(observe).await;
        client
            .send("GET /drain HTTP/1.1\r\nhost: 10.1.2.3:9902\r\nuser-agent: kube-lifecycle/1.33\r\n\r\n")
            .await;
        client.answer().await
    })
}

async fn readyz(observe: SocketAddr) -> u16 {
    Client::to(observe).await.get("/readyz").await.status
}

async fn not_ready(observe: SocketAddr) {
    within("not ready", async { while readyz(observe).await != 503 {} }).await;
}

#[tokio::test]
async fn it_answers_once_nothing_is_under_way_and_serves_meanwhile() {
    let engine = Gated::start().await;
    let greylag = greylag(engine.address(), "drain_wait: 0s, drain: 20s");
    let observe = greylag.app().observe;
    let mut client = begun(greylag.address(), "one").await;
    let first = asked(observe);
    not_ready(observe).await;
    // A caller that goes away does not undo it, and another may ask too.
    asked(observe).abort();
    let second = asked(observe);
    // Endpoints lag behind: who still comes is served, and told to go elsewhere next time.
    let mut late = Client::to(greylag.address()).await;
    let answer = late.get("/quick").await;
    assert_eq!(
        (answer.status, answer.header("connection")),
        (200, Some("close"))
    );
    assert_eq!(readyz(observe).await, 503);
    assert!(!first.is_finished() && !second.is_finished());
    let mut admin = Client::to(greylag.app().admin).await;
    admin
        .send("GET /v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    assert_eq!(admin.answer().await.json()["ready"], false);
    // The late one's record follows its answer.
    let in_flight = || (greylag.app().shared.telemetry.in_flight() == 1).then_some(());
    eventually("one exchange", in_flight).await;

    engine.open();
    let answer = client.answer().await;
    assert!(answer.whole);
    assert_eq!(answer.text(), format!("{FIRST}{REST}"));
    for asked in [first, second, asked(observe)] {
        let answer = within("the drain's answer", asked).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let json = answer.json();
        assert_eq!(json["in_flight"], 0);
        assert!(json["waited"].is_f64(), "{json}");
    }
    // Nothing was cut, it serves on, and SIGTERM ends it as ever.
    assert_eq!(
        Client::to(greylag.address())
            .await
            .get("/quick")
            .await
            .status,
        200
    );
    let app = greylag.into_app();
    let stopped = tokio::task::spawn_blocking(move || app.stop());
    assert_eq!(within("the end", stopped).await.unwrap(), 0);
}

// Kubernetes tells all containers of a pod at the same time, and the engine's hook still waits for its answer.
#[tokio::test]
async fn it_is_answered_though_sigterm_comes_meanwhile() {
    for _ in 0..5 {
        let engine = Gated::start().await;
        let greylag = greylag(engine.address(), "drain_wait: 0s, drain: 20s");
        let observe = greylag.app().observe;
        let mut client = begun(greylag.address(), "one").await;
        let asked = asked(observe);
        not_ready(observe).await;
        let app = greylag.into_app();
        let stopped = tokio::task::spawn_blocking(move || app.stop());
        engine.open();
        assert!(client.answer().await.whole);
        let answer = within("the drain's answer", asked).await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(within("the end", stopped).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn past_the_limit_it_says_what_is_left() {
    let engine = Gated::start().await;
    let greylag = greylag(engine.address(), "drain_wait: 0s, drain: 50ms");
    let mut client = begun(greylag.address(), "one").await;
    let answer = within("the drain's answer", asked(greylag.app().observe))
        .await
        .unwrap();
    assert_eq!(
        (answer.status, &answer.json()["in_flight"]),
        (503, &1.into())
    );
    // Only SIGTERM cuts.
    engine.open();
    assert!(client.answer().await.whole);
}

#[tokio::test]
async fn endpoints_have_their_time_first() {
    let engine = Gated::start().await;
    let greylag = greylag(engine.address(), "drain_wait: 300ms, drain: 20s");
    let answer = within("the drain's answer", asked(greylag.app().observe))
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    let waited = answer.json()["waited"].as_f64().unwrap();
    assert!(waited >= 0.3, "{waited}");
}

#[tokio::test]
async fn only_a_get_that_no_page_sends_drains() {
    let engine = Gated::start().await;
    let greylag = greylag(engine.address(), "drain_wait: 0s, drain: 1s");
    let observe = greylag.app().observe;
    let ask = async |line: &str, fields: &str| {
        let mut client = Client::to(observe).await;
        client
            .send(format!("{line} HTTP/1.1\r\n{fields}\r\n\r\n"))
            .await;
        client.head().await
    };
    for method in ["HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = ask(
            &format!("{method} /drain"),
            "host: 10.1.2.3\r\ncontent-length: 0",
        )
        .await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("GET")),
            "{method}"
        );
    }
    for fields in [
        "host: evil.example",
        "host: 10.1.2.3.evil.example:9902",
        "accept: */*",
        "host: 10.1.2.3\r\norigin: http://10.1.2.3",
        "host: 10.1.2.3\r\norigin: null",
        "host: localhost\r\nsec-fetch-site: cross-site",
        "host: localhost\r\nsec-fetch-site: same-site",
    ] {
        assert_eq!(ask("GET /drain", fields).await.status, 403, "{fields}");
    }
    let mut client = Client::to(observe).await;
    client
        .send("GET /drain HTTP/1.1\r\nhost: evil.example\r\n\r\n")
        .await;
    let detail = problem(&client.answer().await, 403, "host_not_allowed");
    assert!(detail.contains("evil.example"), "{detail}");
    for path in ["/drain/", "/drain/x", "/Drain", "/"] {
        assert_eq!(
            ask(&format!("GET {path}"), "host: 10.1.2.3").await.status,
            404,
            "{path}"
        );
    }
    assert_eq!(readyz(observe).await, 200);
    for fields in [
        "host: localhost:9902",
        "host: [fe80::1]:9902\r\nsec-fetch-site: none",
    ] {
        assert_eq!(ask("GET /drain", fields).await.status, 200, "{fields}");
    }
    assert_eq!(readyz(observe).await, 503);
}

const STREAMS: usize = 8;

// Streams from an engine's process, under way.
async fn streaming() -> (Child, Greylag, Vec<Client>) {
    let (child, address) =
        engine_process(&["--ttft", "none", "--inter-token", "25ms", "--tokens", "120"]);
    let greylag = greylag(address, "drain_wait: 0s, drain: 20s");
    let mut clients = Vec::new();
    for _ in 0..STREAMS {
        clients.push(begun(greylag.address(), "data: ").await);
    }
    (child, greylag, clients)
}

async fn whole(clients: Vec<Client>) -> usize {
    let mut whole = 0;
    for mut client in clients {
        let answer = client.answer().await;
        let is_whole = answer.whole && answer.text().ends_with("data: [DONE]\n\n");
        whole += usize::from(is_whole);
    }
    whole
}

#[tokio::test]
async fn an_engine_that_ends_at_once_truncates_its_streams() {
    let (engine, greylag, clients) = streaming().await;
    engine.terminate();
    assert_eq!(whole(clients).await, 0);
    let records = greylag.chats_of(STREAMS).await;
    assert!(records.iter().all(|record| record.outcome != Outcome::Ok));
}

#[tokio::test]
async fn an_engine_whose_hook_drains_first_truncates_none() {
    let (engine, greylag, clients) = streaming().await;
    let answer = within("the drain's answer", asked(greylag.app().observe))
        .await
        .unwrap();
    assert_eq!(
        (answer.status, &answer.json()["in_flight"]),
        (200, &0.into())
    );
    // As the answer comes, all is over.
    let records = greylag.records();
    let chats = records
        .iter()
        .filter(|record| &*record.path == "/v1/chat/completions");
    let ok = chats.filter(|record| record.outcome == Outcome::Ok).count();
    assert_eq!(ok, STREAMS);
    engine.terminate();
    let ended = || engine.has_ended().then_some(());
    eventually("the engine's end", ended).await;
    assert_eq!(whole(clients).await, STREAMS);
}
