//! Engines as places that fail: who is served elsewhere, who is not, and what is shown of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "engines/addresses.rs"]
mod addresses;
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

use crate::h2::{Hand, Peer, read};
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

/// What `/v1/engines` says of the engine of this name.
async fn shown(greylag: &Greylag, name: &str) -> Value {
    let mut client = Client::to(greylag.app().admin).await;
    client
        .send("GET /v1/engines HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let answer = client.answer().await.json();
    let engines = answer["engines"].as_array().unwrap();
    let found = engines.iter().find(|engine| engine["name"] == name);
    found.unwrap_or_else(|| panic!("{answer}")).clone()
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
    let entry = shown(&greylag, "a").await;
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
    assert_eq!(shown(&greylag, "a").await["state"], "down");
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
            let state = shown(&greylag, "a").await["state"].clone();
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
async fn an_answer_of_503_sends_the_request_on_if_the_split_says_so() {
    for retry in [true, false] {
        let (a, b) = (sim().await, sim().await);
        a.set(Settings {
            misbehave: vec!["100%:status=503".parse().unwrap()],
            ..Settings::default()
        });
        let on = if retry {
            json!(["connect", 503])
        } else {
            json!(["connect"])
        };
        let mut rules = rules(a.address(), b.address(), OFTEN, json!({ "retry_on": on }));
        rules["engines"]["a"]["set"] = json!({ "user": "of-a" });
        rules["engines"]["b"]["set"] = json!({ "user": "of-b", "seed": 7 });
        let greylag = Greylag::start(&rules.to_string());
        let answer = chat(&greylag, &[FORCE_A]).await;
        let records = greylag.records_of(1).await;
        let record = &records[0];
        assert_eq!(asked(&a).len(), 1);
        if retry {
            assert_eq!(
                (answer.status, answer.header("x-greylag-engine")),
                (200, Some("b"))
            );
            assert_eq!((record.attempts, record.how), (2, Some(How::Fallback)));
            assert_eq!(record.engine.as_deref(), Some("b"));
            assert_eq!(record.engine_status, Some(200));
            let body: Value = serde_json::from_slice(asked(&b)[0].body.as_ref().unwrap()).unwrap();
            assert_eq!((&body["user"], &body["seed"]), (&json!("of-b"), &json!(7)));
            assert_eq!(asked(&b)[0].header("x-gray-tag"), Some("b"));
            assert_eq!(greylag.metric(&fallbacks("503")).await, Some(1.0));
        } else {
            assert_eq!(
                (answer.status, answer.header("x-greylag-engine")),
                (503, Some("a"))
            );
            assert_eq!((record.attempts, asked(&b).len()), (1, 0));
        }
        // 503 is load, not death.
        assert_eq!(greylag.metric(&health("a")).await, Some(1.0));
        assert_eq!(greylag.app().shared.budget.taken(), 0);
    }
}

#[tokio::test]
async fn other_errors_and_the_default_engine_send_nothing_on() {
    let (a, b) = (sim().await, Kept::any());
    a.set(Settings {
        misbehave: vec!["100%:status=500".parse().unwrap()],
        ..Settings::default()
    });
    let keys = json!({ "retry_on": ["connect", 503] });
    let greylag = Greylag::start(&rules(a.address(), b.address(), SELDOM, keys).to_string());
    let answer = chat(&greylag, &[FORCE_A]).await;
    assert_eq!(
        (answer.status, answer.header("x-greylag-engine")),
        (500, Some("a"))
    );
    let answer = Client::to(greylag.address()).await.get("/version").await;
    assert_eq!(
        answer.header("x-greylag-reason"),
        Some("engine_unreachable")
    );
}

#[tokio::test]
async fn a_call_of_grpc_goes_on_too() {
    const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
    let (a, mut b) = (Kept::any(), Hand::start().await);
    let mut rules = rules(a.address(), b.address(), SELDOM, json!({}));
    rules["engines"]["a"]["grpc"] = format!("http://{}", a.address()).into();
    rules["engines"]["b"]["grpc"] = format!("http://{}", b.address()).into();
    let listen = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";
    let greylag = Greylag::with(listen, &rules.to_string());
    let mut peer = Peer::to(greylag.address()).await;
    let fields = [("content-type", "application/grpc"), ("x-force", "a")];
    let asking = async { peer.whole("POST", INFER, &fields, &[0; 5]).await.unwrap() };
    let answering = async {
        let call = b.call().await;
        assert_eq!(call.head.headers["x-gray-tag"], "b");
        let mut respond = call.respond;
        let (body, _) = read(call.body).await.unwrap();
        assert_eq!(*body, [0; 5]);
        let head = http::Response::builder().header("grpc-status", "0");
        let head = head.header("content-type", "application/grpc");
        respond.send_response(head.body(()).unwrap(), true).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.header("grpc-status"), Some("0"));
    let records = greylag.records_of(1).await;
    assert_eq!(
        (records[0].attempts, records[0].how),
        (2, Some(How::Fallback))
    );
    assert_eq!(records[0].engine.as_deref(), Some("b"));
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
            let entry = shown(&greylag, "a").await;
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
    let entry = shown(&greylag, "b").await;
    assert_eq!(
        (&entry["tag"], &entry["addresses"][0]["state"]),
        (&json!("v2"), &json!("left_out"))
    );
    let reason = entry["reason"].as_str().unwrap();
    assert!(reason.contains("connection refused"), "{reason}");
    assert_eq!(entry["grpc"]["url"], format!("http://{}", b.address()));
}
