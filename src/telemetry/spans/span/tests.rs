use std::sync::Arc;

use greylag_filters::grpc;
use greylag_filters::meter::{Figures, InStreamError, Usage};
use greylag_filters::outcome::{End, Outcome};
use greylag_filters::route::Route;
use greylag_filters::rules::How;
use greylag_filters::rules::engine::Kind;
use greylag_filters::trace::{Always, Kept, Source};

use super::*;
use crate::record::{Requests, Times};
use crate::reply::Reason;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

// A stream of three tokens that went well.
fn record() -> Record {
    let mut figures = Figures {
        first_token: Some(ms(40)),
        first_output: Some(ms(45)),
        last_token: Some(ms(60)),
        token_events: 3,
        events: 4,
        usage: Some(Usage {
            prompt: Some(7),
            completion: Some(3),
            cached: Some(5),
            reasoning: None,
        }),
        terminated: true,
        model: Some("tiny-1".into()),
        one_choice: true,
        ..Figures::default()
    };
    figures.error = None;
    Record {
        id: "id-1".into(),
        started: SystemTime::UNIX_EPOCH + ms(1000),
        rules_version: 2,
        rules_hash: 0xab,
        method: http::Method::POST,
        path: "/v1/chat/completions".into(),
        route: Route::ChatCompletions,
        model: Some("tiny".into()),
        stream: true,
        engine: Some(Arc::from("stable")),
        kind: Some(Kind::Vllm),
        tag: Some(Arc::from("v1")),
        split: Some(Arc::from("default")),
        how: Some(How::Draw),
        attempts: 1,
        status: Some(200),
        engine_status: Some(200),
        end: End::Complete,
        outcome: Outcome::Ok,
        reason: None,
        times: Times {
            written: Some(ms(10)),
            ended: Some(ms(75)),
            ..Times::default()
        },
        figures: Some(figures),
        trace: Some(Trace {
            trace_id: [1; 16],
            parent: Some([2; 8]),
            span: [3; 8],
            flags: 1,
            source: Source::TraceParent,
            is_told: true,
        }),
        trace_state: Some("a=b".into()),
        kept: Some(Kept::Caller),
        ..Record::default()
    }
}

// A picture of what backends get, a line each.
fn picture(span: &SpanData) -> Vec<String> {
    let show = |attribute: &KeyValue| format!("{}={}", attribute.key, attribute.value);
    span.attributes.iter().map(show).collect()
}

fn value(span: &SpanData, name: &str) -> Option<String> {
    let mut all = span.attributes.iter();
    let found = all.find(|attribute| attribute.key.as_str() == name)?;
    Some(found.value.to_string())
}

#[test]
fn a_span_says_what_its_record_knows() {
    let span = Maker::new(Semconv::Latest).span(&record());
    assert_eq!(span.name, "chat tiny");
    assert_eq!(span.span_kind, SpanKind::Server);
    assert_eq!(
        picture(&span),
        [
            "http.request.method=POST",
            "url.path=/v1/chat/completions",
            "http.route=/v1/chat/completions",
            "http.response.status_code=200",
            "http.request.body.size=0",
            "http.response.body.size=0",
            "gray.tag=v1",
            "gray.enabled=true",
            "greylag.request_id=id-1",
            "greylag.kept=caller",
            "greylag.engine=stable",
            "greylag.engine_status=200",
            "greylag.split=default",
            "greylag.how=draw",
            "greylag.outcome=ok",
            "greylag.end=complete",
            "greylag.rules_version=2",
            "greylag.rules_hash=00000000000000ab",
            "greylag.traffic=real",
            "greylag.leg=primary",
            "greylag.attempts=1",
            "greylag.reused=false",
            "gen_ai.operation.name=chat",
            "gen_ai.provider.name=vllm",
            "gen_ai.request.model=tiny",
            "gen_ai.request.stream=true",
            "gen_ai.response.model=tiny-1",
            "gen_ai.usage.input_tokens=7",
            "gen_ai.usage.output_tokens=3",
            "gen_ai.usage.cache_read.input_tokens=5",
            "greylag.token_events=3",
            "gen_ai.response.time_to_first_chunk=0.03",
            "greylag.ttft=0.03",
            "greylag.time_to_first_output_token=0.035",
            "greylag.time_per_output_token=0.01",
            "greylag.e2e=0.05",
        ]
    );
}

#[test]
fn an_older_backend_gets_the_names_that_it_knows() {
    let span = Maker::new(Semconv::V1_36).span(&record());
    assert_eq!(value(&span, "gen_ai.system").as_deref(), Some("vllm"));
    for name in [
        "gen_ai.provider.name",
        "gen_ai.request.stream",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.usage.cache_read.input_tokens",
    ] {
        assert_eq!(value(&span, name), None, "{name}");
    }
    assert_eq!(value(&span, "greylag.ttft").as_deref(), Some("0.03"));
}

#[test]
fn a_span_has_its_place_and_ends_with_the_last_byte() {
    let span = Maker::new(Semconv::Latest).span(&record());
    let context = &span.span_context;
    assert_eq!(context.trace_id(), TraceId::from_bytes([1; 16]));
    assert_eq!(context.span_id(), SpanId::from_bytes([3; 8]));
    assert_eq!(span.parent_span_id, SpanId::from_bytes([2; 8]));
    assert!(context.is_sampled() && span.parent_span_is_remote);
    assert_eq!(context.trace_state().header(), "a=b");
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(
        (since(span.start_time), since(span.end_time)),
        (ms(1000), ms(1075))
    );
    let events: Vec<_> = span
        .events
        .iter()
        .map(|event| (&*event.name, since(event.timestamp)))
        .collect();
    assert_eq!(
        events,
        [
            ("greylag.request_written", ms(1010)),
            ("gen_ai.first_token", ms(1040))
        ]
    );
    // A trace that begins here has no parent, and another standard's no state of this one.
    let root = Record {
        trace: record().trace.map(|trace| Trace {
            parent: None,
            source: Source::Here,
            ..trace
        }),
        ..record()
    };
    let span = Maker::new(Semconv::Latest).span(&root);
    assert_eq!(
        (span.parent_span_id, span.parent_span_is_remote),
        (SpanId::INVALID, false)
    );
    assert_eq!(span.span_context.trace_state().header(), "");
}

// What the status of a span says, and its `error.type`.
fn check_error(record: Record, expected: Option<(&str, &str)>) {
    let span = Maker::new(Semconv::Latest).span(&record);
    match expected {
        Some((status, kind)) => {
            assert_eq!(span.status, Status::error(status.to_owned()));
            assert_eq!(value(&span, "error.type").as_deref(), Some(kind));
        }
        None => {
            assert_eq!(span.status, Status::Unset);
            assert_eq!(value(&span, "error.type"), None);
        }
    }
}

#[test]
fn an_error_is_named_in_few_words() {
    check_error(record(), None);
    check_error(
        Record {
            outcome: Outcome::ClientGone,
            ..record()
        },
        None,
    );
    check_error(
        Record {
            outcome: Outcome::EngineError,
            engine_status: Some(503),
            ..record()
        },
        Some(("engine_error", "503")),
    );
    check_error(
        Record {
            outcome: Outcome::EngineError,
            engine_status: None,
            reason: Some(Reason::Internal),
            ..record()
        },
        Some(("engine_error", Reason::Internal.code())),
    );
    let mut failed = record();
    failed.outcome = Outcome::ErrorInStream;
    failed.kept = Some(Kept::Always(Always::Error));
    failed.figures.as_mut().unwrap().error = Some(InStreamError {
        code: Some("overloaded".into()),
        kind: None,
    });
    let span = Maker::new(Semconv::Latest).span(&failed);
    assert_eq!(
        value(&span, "greylag.stream_error").as_deref(),
        Some("overloaded")
    );
    assert_eq!(value(&span, "greylag.kept").as_deref(), Some("error"));
    check_error(failed, Some(("error_in_stream", "error_in_stream")));
}

#[test]
fn a_call_of_many_requests_says_how_it_ended_and_how_many_they_were() {
    let mut requests = Requests::default();
    requests.tally.requests = 70;
    let span = Maker::new(Semconv::Latest).span(&Record {
        route: Route::ModelStreamInfer,
        kind: Some(Kind::Triton),
        model: None,
        figures: None,
        grpc_status: Some(grpc::Status::Unavailable),
        requests: Some(Box::new(requests)),
        ..record()
    });
    assert_eq!(span.name, "infer");
    for (name, expected) in [
        ("rpc.grpc.status_code", "14"),
        ("greylag.requests", "70"),
        ("gen_ai.provider.name", "triton"),
        (
            "http.route",
            "/inference.GRPCInferenceService/ModelStreamInfer",
        ),
    ] {
        assert_eq!(value(&span, name).as_deref(), Some(expected), "{name}");
    }
}

#[test]
fn what_is_no_inference_is_named_by_its_method() {
    let span = Maker::new(Semconv::Latest).span(&Record {
        path: "/health".into(),
        ..Record::default()
    });
    assert_eq!(span.name, "GET");
    assert_eq!(span.end_time, span.start_time);
    assert_eq!(value(&span, "gen_ai.operation.name"), None);
    assert_eq!(value(&span, "http.route"), None);
}
