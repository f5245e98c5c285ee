//! Exchanges in hand that go on to another engine, and those that do not.

use greylag_filters::rules::How;
use greylag_sim::Settings;
use serde_json::{Value, json};

use super::{FORCE_A, Kept, OFTEN, SELDOM, chat, fallbacks, health, rules};
use crate::h2::{Hand, Peer, read};
use crate::harness::{Client, Greylag, asked, sim};

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
async fn an_answer_of_503_is_passed_on_where_nobody_else_is_to_be_had() {
    let (a, b) = (sim().await, Kept::any());
    a.set(Settings {
        misbehave: vec!["100%:status=503".parse().unwrap()],
        ..Settings::default()
    });
    let keys = json!({ "retry_on": ["connect", 503] });
    let greylag = Greylag::start(&rules(a.address(), b.address(), SELDOM, keys).to_string());
    let answer = chat(&greylag, &[FORCE_A]).await;
    let found = (answer.status, answer.header("x-greylag-engine"));
    assert_eq!((found, answer.whole), ((503, Some("a")), true));
    assert_eq!(answer.header("x-greylag-reason"), None);
    let records = greylag.records_of(1).await;
    let record = &records[0];
    assert_eq!((record.attempts, record.how), (2, Some(How::Forced)));
    assert_eq!(
        (record.engine.as_deref(), record.engine_status),
        (Some("a"), Some(503))
    );
    assert_eq!(greylag.app().shared.budget.taken(), 0);
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
