//! Engines as places that fail: who is served elsewhere, who is not, and what is shown of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "engines/addresses.rs"]
mod addresses;
#[path = "engines/in_hand.rs"]
mod in_hand;
#[path = "engines/killed.rs"]
mod killed;
#[path = "engines/secrets.rs"]
mod secrets;

use std::net::SocketAddr;
use std::time::Duration;

use greylag_filters::outcome::Outcome;
use greylag_filters::rules::How;
use greylag_sim::{Engine, Settings};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::harness::{Answer, Client, DEADLINE, Greylag, asked, sim, within};

const PLAIN: &str = r#"{"model":"tiny","messages":[],"max_tokens":1}"#;
const FORCE_A: &str = "x-force: a";
/// Asks so seldom that only exchanges tell how an engine is.
const SELDOM: &str = "1h";
const OFTEN: &str = "30ms";
/// Between two looks at something that takes a while.
const PAUSE: Duration = Duration::from_millis(5);

/// Two engines, each asked so often, and a split between them with these keys.
fn rules(a: SocketAddr, b: SocketAddr, interval: &str, keys: Value) -> Value {
    let engine = |address: SocketAddr| {
        json!({
            "kind": "vllm",
            "url": format!("http://{address}"),
            "health": { "interval": interval },
        })
    };
    let mut split = json!({
        "name": "s",
        "weights": { "a": 1, "b": 1 },
        "force": { "header": "x-force" },
    });
    for (key, value) in keys.as_object().unwrap() {
        split[key] = value.clone();
    }
    json!({
        "engines": { "a": engine(a), "b": engine(b) },
        "default_engine": "b",
        "splits": [split],
    })
}

/// An address that is kept, and refuses connections until somebody listens there.
struct Kept(TcpSocket);

impl Kept {
    fn any() -> Kept {
        Kept::at(([127, 0, 0, 1], 0).into())
    }

    fn at(address: SocketAddr) -> Kept {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        Kept(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    async fn engine(self) -> Engine {
        let listener = self.0.listen(128).unwrap();
        Engine::serve(listener, Settings::default()).await.unwrap()
    }
}

fn health(tag: &str) -> String {
    format!("greylag_engine_health{{gray_tag=\"{tag}\"}}")
}

fn fallbacks(reason: &str) -> String {
    format!("greylag_fallbacks_total{{reason=\"{reason}\"}}")
}

async fn chat(greylag: &Greylag, fields: &[&str]) -> Answer {
    Client::to(greylag.address())
        .await
        .chat(fields, PLAIN)
        .await
}

#[tokio::test]
async fn engines_that_are_all_down_count_as_up() {
    for on_unhealthy in ["fallback", "fail"] {
        let (a, b) = (Kept::any(), Kept::any());
        let keys = json!({ "on_unhealthy": on_unhealthy });
        let rules = rules(a.address(), b.address(), OFTEN, keys);
        let greylag = Greylag::start(&rules.to_string());
        for tag in ["a", "b"] {
            greylag.metric_until(&health(tag), |up| up == 0.0).await;
        }
        let answer = chat(&greylag, &[FORCE_A]).await;
        let reason = answer.header("x-greylag-reason");
        assert_eq!((answer.status, reason), (502, Some("engine_unreachable")));
        // The first who is back has them all.
        let engine = a.engine().await;
        greylag.metric_until(&health("a"), |up| up == 1.0).await;
        let answer = chat(&greylag, &[FORCE_A]).await;
        assert_eq!((answer.status, asked(&engine).len()), (200, 1));
    }
}

#[tokio::test]
async fn with_fail_a_down_engine_is_answered_for() {
    let (a, b) = (sim().await, sim().await);
    a.set(Settings {
        healthy: false,
        ..Settings::default()
    });
    let keys = json!({ "on_unhealthy": "fail" });
    let rules = rules(a.address(), b.address(), OFTEN, keys);
    let greylag = Greylag::start(&rules.to_string());
    greylag.metric_until(&health("a"), |up| up == 0.0).await;
    let entry = greylag.engine("a").await;
    assert_eq!(entry["reason"], "/health was answered 503", "{entry}");
    // Now and then one is let through on trial, also here.
    let mut count = 0;
    let answer = loop {
        let answer = chat(&greylag, &[FORCE_A]).await;
        count += 1;
        if answer.status != 200 {
            break answer;
        }
    };
    let reason = answer.header("x-greylag-reason");
    assert_eq!((answer.status, reason), (503, Some("engine_unhealthy")));
    assert_eq!(answer.header("retry-after"), Some("1"));
    let records = greylag.records_of(count).await;
    let record = &records[count - 1];
    assert_eq!(record.outcome, Outcome::Refused);
    assert_eq!((record.how, record.attempts), (Some(How::Forced), 0));
    assert_eq!(record.engine.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_down_engine_is_tried_now_and_then_and_comes_back() {
    let (a, b) = (Kept::any(), sim().await);
    let rules = rules(a.address(), b.address(), SELDOM, json!({}));
    let greylag = Greylag::start(&rules.to_string());
    // The probe at the start has failed too, or will; at the latest the third exchange takes the engine down.
    for _ in 0..3 {
        let answer = chat(&greylag, &[FORCE_A]).await;
        assert_eq!(answer.header("x-greylag-engine"), Some("b"));
    }
    assert_eq!(greylag.metric(&health("a")).await, Some(0.0));
    assert_eq!(greylag.engine("a").await["state"], "down");
    let records = greylag.records_of(3).await;
    assert_eq!(
        (records[0].how, records[0].attempts),
        (Some(How::Fallback), 2)
    );
    // Once it is down nobody waits for a connection to it, but for a trial now and then.
    let mut count = 3;
    loop {
        chat(&greylag, &[FORCE_A]).await;
        count += 1;
        let records = greylag.records_of(count).await;
        assert_eq!(records[count - 1].how, Some(How::Fallback));
        if records[count - 1].attempts == 1 {
            break;
        }
    }
    assert!(greylag.metric(&fallbacks("down")).await >= Some(1.0));

    let engine = a.engine().await;
    let mut states = Vec::new();
    let back = async {
        loop {
            chat(&greylag, &[FORCE_A]).await;
            let state = greylag.engine("a").await["state"].clone();
            if states.last() != Some(&state) {
                states.push(state);
            }
            if states.last() == Some(&json!("up")) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    within("the engine to be up", back).await;
    assert!(
        states.ends_with(&[json!("half_open"), json!("up")]),
        "{states:?}"
    );
    // Two trials were enough, and nobody was let through beside them.
    assert_eq!(asked(&engine).len(), 2);
    assert!(
        greylag
            .records()
            .iter()
            .all(|record| record.outcome == Outcome::Ok)
    );
}

#[tokio::test]
async fn engines_are_shown_as_places() {
    let (a, b) = (sim().await, Kept::any());
    let mut rules = rules(a.address(), b.address(), OFTEN, json!({}));
    rules["engines"]["b"]["tag"] = "v2".into();
    rules["engines"]["b"]["grpc"] = format!("http://{}", b.address()).into();
    let greylag = Greylag::start(&rules.to_string());
    assert_eq!(chat(&greylag, &[FORCE_A]).await.status, 200);
    greylag.metric_until(&health("v2"), |up| up == 0.0).await;
    let settled = async {
        loop {
            let entry = greylag.engine("a").await;
            // A client has its answer before the connection is in the pool.
            if entry["pool"]["idle"] == 1 && entry["probe"].is_object() {
                break entry;
            }
        }
    };
    let entry = within("a probe and an idle connection", settled).await;
    let url = format!("http://{}", a.address());
    for (key, expected) in [
        ("kind", json!("vllm")),
        ("url", json!(url)),
        ("tag", json!("a")),
        ("state", json!("up")),
        ("reason", Value::Null),
        (
            "addresses",
            json!([{ "address": a.address().to_string(), "state": "in_turn" }]),
        ),
        ("pool", json!({ "idle": 1, "http2": 0, "streams": 0 })),
    ] {
        assert_eq!(entry[key], expected, "{key}: {entry}");
    }
    assert_eq!(entry["probe"]["result"], "ok", "{entry}");
    assert!(entry["probe"]["milliseconds"].as_f64() > Some(0.0));
    let seconds = |value: &Value| {
        value
            .as_f64()
            .filter(|seconds| *seconds < DEADLINE.as_secs_f64())
    };
    assert!(seconds(&entry["since"]).is_some() && seconds(&entry["probe"]["when"]).is_some());
    let entry = greylag.engine("b").await;
    assert_eq!(
        (&entry["tag"], &entry["addresses"][0]["state"]),
        (&json!("v2"), &json!("left_out"))
    );
    let reason = entry["reason"].as_str().unwrap();
    assert!(reason.contains("connection refused"), "{reason}");
    assert_eq!(entry["grpc"]["url"], format!("http://{}", b.address()));
}
