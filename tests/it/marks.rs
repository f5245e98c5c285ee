//! What is put on requests and answers, and whose word is taken: trace, tags, force, traffic class, ids and hosts.

use greylag_filters::rules::How;
use greylag_filters::traffic::Class;
use greylag_sim::Engine;
use greylag_sim::seen::Request;
use serde_json::json;

use crate::harness::{Answer, Client, Greylag, all, asked, sim};

const BODY: &str = r#"{"model":"tiny","messages":[],"max_tokens":1}"#;
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

struct Stand {
    stable: Engine,
    candidate: Engine,
    greylag: Greylag,
}

impl Stand {
    /// Two engines and a split that sends all to `stable` unless it is forced.
    async fn new(keys: &str, more: serde_json::Value) -> Stand {
        let stable = sim().await;
        let candidate = sim().await;
        let url = |engine: &Engine| format!("http://{}", engine.address());
        let mut rules = json!({
            "engines": {
                "stable": { "kind": "vllm", "url": url(&stable) },
                "candidate": { "kind": "vllm", "url": url(&candidate), "tag": "v2-canary", "host": "engine" },
            },
            "default_engine": "stable",
            "splits": [{
                "name": "default",
                "weights": { "stable": 100, "candidate": 0 },
                "force": { "header": "x-force" },
            }],
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            rules[key] = value.clone();
        }
        let greylag = Greylag::with(keys, &rules.to_string());
        Stand {
            stable,
            candidate,
            greylag,
        }
    }

    async fn chat(&self, fields: &[&str]) -> Answer {
        let mut client = Client::to(self.greylag.address()).await;
        let answer = client.chat(fields, BODY).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    }

    /// What `stable` gets of a request with these fields.
    async fn seen(&self, fields: &[&str]) -> Request {
        self.chat(fields).await;
        let last = asked(&self.stable).pop().expect("it was asked");
        (*last).clone()
    }
}

#[tokio::test]
async fn a_trace_goes_on_with_a_span_of_its_own() {
    let stand = Stand::new("", json!({ "trace": { "share": "0%" } })).await;
    let given = format!("traceparent: {PARENT}");
    let request = stand
        .seen(&[&given, "tracestate: a=1", "TraceState: b=2"])
        .await;
    let [parent] = &all(&request, "traceparent")[..] else {
        panic!("one traceparent");
    };
    let parts: Vec<&str> = parent.split('-').collect();
    assert_eq!(
        (parts[0], parts[1], parts[3]),
        ("00", "0af7651916cd43dd8448eb211c80319c", "01")
    );
    assert_ne!(parts[2], "b7ad6b7169203331");
    assert_eq!(all(&request, "tracestate"), ["a=1", "b=2"]);
    let records = stand.greylag.records_of(1).await;
    let trace = records[0].trace.unwrap();
    assert_eq!(trace.traceparent(), parent.as_bytes());
    assert_eq!(
        trace.parent,
        Some([0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31])
    );
    // Two requests of one trace have two spans.
    let again = stand.seen(&[&given]).await;
    assert_ne!(all(&again, "traceparent"), all(&request, "traceparent"));
}

#[tokio::test]
async fn a_trace_that_cannot_be_read_begins_anew_without_its_state() {
    let stand = Stand::new("", json!({ "trace": { "share": "100%" } })).await;
    let twice = [PARENT, PARENT].join("\r\ntraceparent: ");
    let upper = PARENT.to_uppercase();
    for given in [
        "",
        "nonsense",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        &upper,
        &twice,
    ] {
        let given = format!("traceparent: {given}");
        let request = stand.seen(&[&given, "tracestate: a=1"]).await;
        let [parent] = &all(&request, "traceparent")[..] else {
            panic!("one traceparent");
        };
        assert!(
            !parent.contains("0af7651916cd43dd8448eb211c80319c"),
            "{given}: {parent}"
        );
        assert!(
            parent.len() == 55 && parent.ends_with("-01"),
            "{given}: {parent}"
        );
        assert_eq!(all(&request, "tracestate"), [""; 0], "{given}");
    }
}

#[tokio::test]
async fn without_tracing_the_callers_fields_pass_as_they_are() {
    let stand = Stand::new("", json!({ "trace": { "inject": false } })).await;
    let given = format!("traceparent: {PARENT}");
    let request = stand
        .seen(&[&given, "tracestate: a=1", "baggage: b=2"])
        .await;
    assert_eq!(all(&request, "traceparent"), [PARENT]);
    assert_eq!(all(&request, "tracestate"), ["a=1"]);
    assert_eq!(all(&request, "baggage"), ["b=2"]);
    let request = stand.seen(&[]).await;
    assert_eq!(all(&request, "traceparent"), [""; 0]);
    assert_eq!(all(&request, "x-gray-tag"), ["stable"]);
}

#[tokio::test]
async fn baggage_is_joined_with_our_member() {
    let stand = Stand::new("", json!(null)).await;
    let many: Vec<String> = (0..64).map(|i| format!("k{i}=v")).collect();
    let many = format!("baggage: {}", many.join(","));
    let kept = many.strip_prefix("baggage: ").unwrap();
    for (fields, expected) in [
        (&[][..], "gray.tag=stable"),
        (
            &["baggage: a=1;p=2 , b=3"][..],
            "a=1;p=2,b=3,gray.tag=stable",
        ),
        (
            &["baggage: a=1", "Baggage: b=2"][..],
            "a=1,b=2,gray.tag=stable",
        ),
        (&["baggage: gray.tag=mine,a=1"][..], "gray.tag=stable,a=1"),
        (&[&*many][..], kept),
    ] {
        let request = stand.seen(fields).await;
        assert_eq!(all(&request, "baggage"), [expected], "{fields:?}");
    }
}

#[tokio::test]
async fn tags_and_ids_say_what_is_true() {
    let stand = Stand::new("", json!(null)).await;
    let request = stand
        .seen(&[
            "x-gray-tag: forged",
            "x-request-id: mine",
            "user-agent: me/1",
        ])
        .await;
    assert_eq!(all(&request, "x-gray-tag"), ["stable"]);
    assert_eq!(all(&request, "x-request-id"), ["mine"]);
    assert_eq!(all(&request, "user-agent"), ["me/1"]);
    assert_eq!(all(&request, "host"), ["test"]);
    let request = stand.seen(&[]).await;
    assert_eq!(all(&request, "x-request-id"), [""; 0]);
    assert_eq!(all(&request, "accept-encoding"), [""; 0]);
    let records = stand.greylag.records_of(2).await;
    assert_eq!(&*records[0].id, "mine");
    assert!(!records[1].id.is_empty());
    let answer = stand.chat(&["x-force: candidate"]).await;
    assert_eq!(answer.all("x-greylag-engine"), ["v2-canary"]);
    let request = asked(&stand.candidate).pop().unwrap();
    assert_eq!(all(&request, "x-gray-tag"), ["v2-canary"]);
    assert_eq!(
        all(&request, "host"),
        [stand.candidate.address().to_string()]
    );
}

#[tokio::test]
async fn what_is_not_believed_here_is_not_passed_on_to_who_might_believe_it() {
    let claims = ["x-force: candidate", "x-traffic-class: test"];
    for (keys, passed) in [("", true), ("trusted: []", false)] {
        let stand = Stand::new(keys, json!(null)).await;
        stand.chat(&claims).await;
        let engine = if passed {
            &stand.candidate
        } else {
            &stand.stable
        };
        let request = asked(engine).pop().expect("it was asked");
        for name in ["x-force", "x-traffic-class"] {
            assert_eq!(!all(&request, name).is_empty(), passed, "{keys} {name}");
        }
    }
}

#[tokio::test]
async fn force_and_traffic_class_are_believed_from_those_who_are_trusted() {
    let forced = ["x-force: candidate", "x-traffic-class: test"];
    for (keys, engine, how, class) in [
        ("", "candidate", How::Forced, Class::Test),
        (
            "trusted: [\"127.0.0.0/8\"]",
            "candidate",
            How::Forced,
            Class::Test,
        ),
        ("trusted: []", "stable", How::Draw, Class::Real),
        (
            "trusted: [\"10.0.0.0/8\"]",
            "stable",
            How::Draw,
            Class::Real,
        ),
    ] {
        let stand = Stand::new(keys, json!(null)).await;
        stand.chat(&forced).await;
        let records = stand.greylag.records_of(1).await;
        let record = &records[0];
        assert_eq!(record.engine.as_deref(), Some(engine), "{keys}");
        assert_eq!((record.how, record.traffic), (Some(how), class), "{keys}");
        assert_eq!(record.split.as_deref(), Some("default"));
        let counts = (asked(&stand.stable).len(), asked(&stand.candidate).len());
        assert_eq!(
            counts,
            if engine == "stable" { (1, 0) } else { (0, 1) },
            "{keys}"
        );
        let tag = if engine == "stable" {
            "stable"
        } else {
            "v2-canary"
        };
        let series = format!(
            "greylag_outcomes_total{{gray_tag=\"{tag}\",leg=\"primary\",model_name=\"tiny\",outcome=\"ok\",route=\"/v1/chat/completions\",traffic=\"{}\"}}",
            class.label()
        );
        // The model is a label once the engine has said that it serves it.
        let other = series.replace("\"tiny\"", "\"other\"");
        let counted = [
            stand.greylag.metric(&series).await,
            stand.greylag.metric(&other).await,
        ];
        assert_eq!(counted.iter().flatten().sum::<f64>(), 1.0, "{series}");
        // Others are not forced, and unknown names do nothing.
        stand.chat(&["x-force: nobody"]).await;
        let records = stand.greylag.records_of(2).await;
        assert_eq!(
            (records[1].how, records[1].traffic),
            (Some(How::Draw), Class::Real)
        );
    }
}
