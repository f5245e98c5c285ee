//! Spans as a collector gets them: their place, what they say, when they end; and that nothing of a prompt is in them.

#[path = "spans/away.rs"]
mod away;
#[path = "spans/kept.rs"]
mod kept;
#[path = "spans/program.rs"]
mod program;

use std::time::Duration;

use greylag_sim::Engine;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;

use crate::certs::Authority;
use crate::collector::{Collector, Manner, attribute, hex};
use crate::harness::{Client, Greylag, all, asked, engines, sim};

const BODY: &str = r#"{"model":"tiny","messages":[],"max_tokens":3}"#;
const STREAM: &str = r#"{"model":"tiny","messages":[],"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}"#;
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
/// Nothing is sampled, and nothing kept all the same, but for what a test says.
const NEVER: &str = r#"{ "share": "0%", "always": [] }"#;

// Greylag before one engine, and a collector.
struct Stand {
    engine: Engine,
    collector: Collector,
    greylag: Greylag,
}

impl Stand {
    async fn new(protocol: &'static str, otlp: &str, trace: &str) -> Stand {
        let (engine, collector) = (sim().await, Collector::start(protocol, Manner::Takes).await);
        let mut rules = engines(&[("stable", engine.address())]);
        rules["trace"] = serde_json::from_str(trace).expect("a test's rule");
        let greylag = Greylag::with(&collector.keys(otlp), &rules.to_string());
        Stand {
            engine,
            collector,
            greylag,
        }
    }

    async fn chat(&self, fields: &[&str]) {
        let mut client = Client::to(self.greylag.address()).await;
        client.chat(fields, BODY).await;
    }

    // Stops it, which sends what waits, and returns the spans and what the engine was asked last.
    async fn end(self) -> (Vec<Span>, Collector, Engine) {
        let (greylag, collector) = (self.greylag, self.collector);
        stop(greylag).await;
        (collector.spans(), collector, self.engine)
    }
}

// Beside the collector, which must go on to answer.
async fn stop(greylag: Greylag) {
    let stopped = tokio::task::spawn_blocking(move || greylag.stop()).await;
    stopped.expect("stopping does not panic");
}

fn parent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{CALLER}-{flags}")
}

#[tokio::test]
async fn a_span_has_the_callers_span_above_it_and_the_engines_below() {
    for protocol in ["grpc", "http"] {
        let stand = Stand::new(protocol, "", NEVER).await;
        stand
            .chat(&[
                &parent("01"),
                "tracestate: a=1",
                "x-request-id: r-1",
                "x-trace-id: t-1",
            ])
            .await;
        let record = stand.greylag.chats_of(1).await.remove(0);
        assert_eq!(record.x_trace_id.as_deref(), Some("t-1"));
        let (spans, collector, engine) = stand.end().await;
        let [span] = &spans[..] else {
            panic!("one span: {spans:?}");
        };
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), CALLER);
        assert_eq!(span.trace_state, "a=1");
        assert_eq!(span.flags & 1, 1);
        let told = all(&asked(&engine)[0], "traceparent");
        assert_eq!(told, [format!("00-{TRACE}-{}-01", hex(&span.span_id))]);
        assert_eq!(span.name, "chat tiny");
        assert_eq!(span.kind, SpanKind::Server as i32);
        for (name, expected) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "vllm"),
            ("gen_ai.request.model", "tiny"),
            ("gen_ai.usage.output_tokens", "3"),
            ("gen_ai.response.finish_reasons", "length"),
            ("http.response.status_code", "200"),
            ("client.address", "127.0.0.1"),
            ("server.address", "127.0.0.1"),
            ("gray.tag", "stable"),
            ("gray.enabled", "false"),
            ("greylag.engine", "stable"),
            ("greylag.outcome", "ok"),
            ("greylag.kept", "caller"),
            ("greylag.request_id", "r-1"),
            ("greylag.x_trace_id", "t-1"),
        ] {
            let found = attribute(span, name);
            assert_eq!(found.as_deref(), Some(expected), "{protocol} {name}");
        }
        let port = engine.address().port().to_string();
        assert_eq!(attribute(span, "server.port"), Some(port));
        assert_eq!(
            collector.resource("service.name").as_deref(),
            Some("greylag")
        );
        let instance = collector
            .resource("service.instance.id")
            .unwrap_or_default();
        assert_eq!(instance.len(), 36, "{instance}");
    }
}

#[tokio::test]
async fn what_the_configuration_says_reaches_the_collector() {
    for protocol in ["grpc", "http"] {
        let otlp = "headers: { x-token: t0ken }, compression: gzip, service_name: edge, semconv: gen_ai_1_36";
        let stand = Stand::new(protocol, otlp, NEVER).await;
        stand.chat(&[&parent("01")]).await;
        let (spans, collector, _) = stand.end().await;
        assert_eq!(
            attribute(&spans[0], "gen_ai.system").as_deref(),
            Some("vllm")
        );
        assert_eq!(attribute(&spans[0], "gen_ai.provider.name"), None);
        assert_eq!(collector.resource("service.name").as_deref(), Some("edge"));
        let head = &collector.batches()[0].head;
        assert!(head.contains("t0ken"), "{protocol}: {head}");
        let encoding = head
            .lines()
            .any(|line| line.contains("content-encoding: gzip"));
        let is_zipped = encoding || head.contains("\"grpc-encoding\": \"gzip\"");
        assert!(is_zipped, "{protocol}: {head}");
    }
}

#[tokio::test]
async fn a_collector_is_reached_over_tls_with_a_certificate_of_ones_own() {
    let authority = Authority::new();
    let pair = authority.sign("localhost");
    for protocol in ["grpc", "http"] {
        let (engine, collector) = (sim().await, Collector::start(protocol, Manner::Takes).await);
        let rules = engines(&[("stable", engine.address())]).to_string();
        let keys = collector.keys_behind_tls(&authority, &pair).await;
        let greylag = Greylag::with(&keys, &rules);
        let mut client = Client::to(greylag.address()).await;
        client.chat(&[&parent("01")], BODY).await;
        stop(greylag).await;
        assert_eq!(collector.spans().len(), 1, "{protocol}");
        // A stranger's certificate is not taken.
        let other = Authority::new();
        let keys = collector.keys_behind_tls(&authority, &pair).await;
        let (ca, wrong) = (authority.file(), other.file());
        let keys = keys.replace(&format!("{ca:?}"), &format!("{wrong:?}"));
        let greylag = Greylag::with(&keys, &rules);
        let mut client = Client::to(greylag.address()).await;
        client.chat(&[&parent("01")], BODY).await;
        greylag
            .metric_reaches("greylag_spans_dropped_total{reason=\"refused\"}", 1.0)
            .await;
        assert_eq!(collector.spans().len(), 1, "{protocol}");
    }
}

#[tokio::test]
async fn a_span_ends_with_the_last_byte_and_not_before_the_first_token() {
    let stand = Stand::new("http", "", NEVER).await;
    let mut client = Client::to(stand.greylag.address()).await;
    let fields = [&parent("01"), "x-sim: ttft=40ms;itl=40ms"];
    let answer = client.chat(&fields, STREAM).await;
    assert!(answer.whole);
    let record = stand.greylag.chats_of(1).await.remove(0);
    let (spans, ..) = stand.end().await;
    let span = &spans[0];
    let took = Duration::from_nanos(span.end_time_unix_nano - span.start_time_unix_nano);
    assert_eq!(Some(took), record.times.ended);
    let ttft: f64 = attribute(span, "greylag.ttft")
        .and_then(|ttft| ttft.parse().ok())
        .expect("a TTFT");
    assert!(took.as_secs_f64() >= ttft, "{took:?} {ttft}");
    let names: Vec<&str> = span
        .events
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    assert_eq!(names, ["greylag.request_written", "gen_ai.first_token"]);
    let [written, token] = &span.events[..] else {
        panic!("two events: {names:?}");
    };
    let between = Duration::from_nanos(token.time_unix_nano - written.time_unix_nano);
    assert!(
        (between.as_secs_f64() - ttft).abs() < 1e-6,
        "{between:?} {ttft}"
    );
    assert!((span.start_time_unix_nano..=span.end_time_unix_nano).contains(&token.time_unix_nano));
    assert_eq!(
        attribute(span, "gen_ai.usage.output_tokens").as_deref(),
        Some("3")
    );
}

#[tokio::test]
async fn a_span_of_a_caller_that_leaves_ends_when_it_is_gone() {
    let stand = Stand::new("grpc", "", NEVER).await;
    let mut client = Client::to(stand.greylag.address()).await;
    let fields = [
        &parent("01"),
        "content-type: application/json",
        "x-sim: stall=1",
    ];
    client
        .ask("POST /v1/chat/completions", &fields, STREAM)
        .await;
    client.until("\"content\":\"").await;
    drop(client);
    let record = stand.greylag.chats_of(1).await.remove(0);
    let (spans, ..) = stand.end().await;
    let span = &spans[0];
    assert_eq!(
        attribute(span, "greylag.outcome").as_deref(),
        Some("client_gone")
    );
    assert_eq!(
        span.status.as_ref().map_or(0, |status| status.code),
        StatusCode::Unset as i32
    );
    let took = Duration::from_nanos(span.end_time_unix_nano - span.start_time_unix_nano);
    assert_eq!(Some(took), record.times.ended);
    assert_eq!(
        span.events.last().map(|event| event.name.as_str()),
        Some("greylag.client_left")
    );
}

#[tokio::test]
async fn a_split_that_decided_is_named() {
    let (stable, candidate) = (sim().await, sim().await);
    let collector = Collector::start("grpc", Manner::Takes).await;
    let mut rules = engines(&[
        ("stable", stable.address()),
        ("candidate", candidate.address()),
    ]);
    rules["engines"]["candidate"]["tag"] = json!("v2");
    rules["splits"] = json!([{ "name": "default", "weights": { "candidate": 1 } }]);
    let greylag = Greylag::with(&collector.keys(""), &rules.to_string());
    let mut client = Client::to(greylag.address()).await;
    client.chat(&[&parent("01")], BODY).await;
    stop(greylag).await;
    let span = collector.spans().remove(0);
    for (name, expected) in [
        ("gray.tag", "v2"),
        ("gray.enabled", "true"),
        ("greylag.split", "default"),
        ("greylag.how", "draw"),
    ] {
        assert_eq!(attribute(&span, name).as_deref(), Some(expected), "{name}");
    }
    let port = candidate.address().port().to_string();
    assert_eq!(attribute(&span, "server.port"), Some(port));
}

#[tokio::test]
async fn without_injection_the_engine_sees_the_caller_and_the_span_is_kept_all_the_same() {
    let stand = Stand::new("grpc", "", r#"{ "inject": false }"#).await;
    stand.chat(&[&parent("01"), "tracestate: a=1"]).await;
    let (spans, _, engine) = stand.end().await;
    let told = all(&asked(&engine)[0], "traceparent");
    assert_eq!(told, [format!("00-{TRACE}-{CALLER}-01")]);
    assert_eq!(all(&asked(&engine)[0], "baggage"), [""; 0]);
    assert_eq!(hex(&spans[0].parent_span_id), CALLER);
}

#[tokio::test]
async fn nothing_of_a_prompt_or_an_answer_is_in_a_span() {
    const MARK: &str = "xyzzy-never-told";
    let stand = Stand::new("http", "", r#"{ "share": "100%", "max_per_second": 1000 }"#).await;
    let mut client = Client::to(stand.greylag.address()).await;
    let body = format!(
        r#"{{"model":"tiny","user":"{MARK}","messages":[{{"role":"user","content":"{MARK}"}}],"max_tokens":5"#
    );
    let secret = format!("authorization: Bearer {MARK}");
    let answer = client.chat(&[&secret], &format!("{body}}}")).await.json();
    let words = answer["choices"][0]["message"]["content"]
        .as_str()
        .expect("an answer")
        .to_owned();
    client
        .chat(&["x-sim: status=400"], &format!("{body}}}"))
        .await;
    client
        .chat(&["x-sim: error=1"], &format!("{body},\"stream\":true}}"))
        .await;
    client.get(&format!("/version?key={MARK}")).await;
    let (spans, collector, _) = stand.end().await;
    assert!(spans.len() >= 4, "{spans:?}");
    let all = format!("{:?}", collector.batches());
    assert!(!all.contains(MARK), "{all}");
    assert!(words.len() > 5 && !all.contains(&words), "{words:?}: {all}");
}

#[tokio::test]
async fn what_was_taken_is_counted() {
    let stand = Stand::new("grpc", "", NEVER).await;
    stand.chat(&[&parent("01")]).await;
    stand.chat(&[]).await;
    stand
        .greylag
        .metric_reaches("greylag_spans_exported_total", 1.0)
        .await;
    let dropped = stand
        .greylag
        .metric("greylag_spans_dropped_total{reason=\"queue_full\"}")
        .await;
    assert_eq!(dropped, Some(0.0));
    assert_eq!(stand.collector.spans().len(), 1);
}
