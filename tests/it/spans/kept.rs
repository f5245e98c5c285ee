//! Whose spans are kept: by the caller's word, by share and cap, and at the end all the same.

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use crate::collector::{attribute, hex};
use crate::harness::{Client, all, asked};

use super::{BODY, CALLER, NEVER, Stand, TRACE, parent};

// Whether an exchange with these fields has a span; and what its engine was told: trace id and flags.
async fn check_kept(trace: &str, fields: &[&str], is_kept: bool, told: (Option<&str>, &str)) {
    let stand = Stand::new("grpc", "", trace).await;
    stand.chat(fields).await;
    let (spans, _, engine) = stand.end().await;
    assert_eq!(spans.len(), usize::from(is_kept), "{trace} {fields:?}");
    let parents = all(&asked(&engine)[0], "traceparent");
    let [parent] = &parents[..] else {
        panic!("one traceparent: {parents:?}");
    };
    assert!(
        parent.ends_with(&format!("-{}", told.1)),
        "{trace} {fields:?}: {parent}"
    );
    if let Some(trace_id) = told.0 {
        assert_eq!(&parent[3..35], trace_id, "{trace} {fields:?}");
    }
    if let (true, [span]) = (is_kept, &spans[..]) {
        assert_eq!(parent[36..52], hex(&span.span_id), "{trace} {fields:?}");
        assert_eq!(parent[3..35], hex(&span.trace_id), "{trace} {fields:?}");
    }
}

#[tokio::test]
async fn the_callers_decision_stands_and_a_new_trace_is_sampled_by_share() {
    let all = r#"{ "share": "100%" }"#;
    check_kept(all, &[], true, (None, "01")).await;
    check_kept(NEVER, &[], false, (None, "00")).await;
    check_kept(all, &[&parent("00")], false, (Some(TRACE), "00")).await;
    check_kept(NEVER, &[&parent("01")], true, (Some(TRACE), "01")).await;
    let capped = r#"{ "share": "100%", "max_per_second": 0 }"#;
    check_kept(capped, &[], false, (None, "00")).await;
}

#[tokio::test]
async fn b3_is_read_and_w3c_is_written() {
    let single = |end: &str| format!("b3: {TRACE}-{CALLER}{end}");
    check_kept(NEVER, &[&single("-1")], true, (Some(TRACE), "01")).await;
    check_kept(
        r#"{ "share": "100%" }"#,
        &[&single("-0")],
        false,
        (Some(TRACE), "00"),
    )
    .await;
    let ids = [
        format!("X-B3-TraceId: {TRACE}"),
        format!("X-B3-SpanId: {CALLER}"),
    ];
    let several = [&ids[0], &ids[1], "X-B3-Sampled: 1"];
    check_kept(NEVER, &several, true, (Some(TRACE), "01")).await;
    let other = format!("b3: {}-{CALLER}-1", "1".repeat(32));
    check_kept(NEVER, &[&other, &parent("00")], false, (Some(TRACE), "00")).await;
}

#[tokio::test]
async fn errors_and_slow_ones_are_kept_though_nothing_is_sampled() {
    let rule = r#"{ "share": "0%", "slow": "2s" }"#;
    let stand = Stand::new("grpc", "", rule).await;
    for fields in [
        &["x-request-id: fine"][..],
        &["x-request-id: failed", "x-sim: status=500"],
        // The caller's "no" is for engines; the span is ours.
        &["x-request-id: told", "x-sim: status=503", &parent("00")],
        &["x-request-id: slow", "x-sim: ttft=2s"],
        // Refused before anything is known of its body.
        &["x-request-id: refused", "expect: nonsense"],
    ] {
        stand.chat(fields).await;
    }
    let (mut spans, ..) = stand.end().await;
    spans.sort_by_key(|span| span.start_time_unix_nano);
    let kept: Vec<_> = spans
        .iter()
        .map(|span| {
            let of = |name: &str| attribute(span, name).unwrap_or_default();
            assert_eq!(span.flags & 1, 0, "what engines were told stands");
            let status = span.status.as_ref().map_or(0, |status| status.code);
            let is_error = status == StatusCode::Error as i32;
            (
                of("greylag.request_id"),
                of("greylag.kept"),
                of("error.type"),
                is_error,
            )
        })
        .collect();
    let row = |id: &str, kept: &str, kind: &str, is_error| {
        (id.to_owned(), kept.to_owned(), kind.to_owned(), is_error)
    };
    assert_eq!(
        kept,
        [
            row("failed", "error", "500", true),
            row("told", "error", "503", true),
            row("slow", "slow", "", false),
            row("refused", "error", "expectation_failed", true),
        ]
    );
    assert_eq!(hex(&spans[1].parent_span_id), CALLER);
}

#[tokio::test]
async fn every_error_is_kept_at_a_share_of_one_per_cent() {
    let stand = Stand::new("http", "", "{}").await;
    let mut client = Client::to(stand.greylag.address()).await;
    for number in 0..30 {
        let id = format!("x-request-id: {number}");
        let order = if number % 3 == 0 {
            "x-sim: status=500"
        } else {
            "x-sim: itl=0ms"
        };
        client.chat(&[&id, order], BODY).await;
    }
    let records = stand.greylag.chats_of(30).await;
    let (spans, ..) = stand.end().await;
    let sampled = |id: &str| {
        let mut all = records.iter().filter(|record| &*record.id == id);
        all.any(|record| record.trace.is_some_and(|trace| trace.sampled()))
    };
    for number in 0..30 {
        let id = number.to_string();
        let mut all = spans.iter();
        let span = all.find(|span| attribute(span, "greylag.request_id").as_ref() == Some(&id));
        let kept = span.and_then(|span| attribute(span, "greylag.kept"));
        let expected = match (sampled(&id), number % 3) {
            (true, _) => Some("share"),
            (false, 0) => Some("error"),
            (false, _) => None,
        };
        assert_eq!(kept.as_deref(), expected, "{id}");
    }
}

#[tokio::test]
async fn errors_are_kept_under_a_cap_of_their_own() {
    let rule = r#"{ "share": "100%", "max_per_second": 2 }"#;
    let stand = Stand::new("grpc", "", rule).await;
    let mut client = Client::to(stand.greylag.address()).await;
    for _ in 0..20 {
        client.chat(&["x-sim: status=500"], BODY).await;
    }
    let (spans, ..) = stand.end().await;
    let mut seconds = std::collections::BTreeMap::new();
    for span in &spans {
        let kept = attribute(span, "greylag.kept").unwrap_or_default();
        *seconds.entry(kept).or_insert(0_u32) += 1;
    }
    // Twenty take no longer than a few seconds, of which each has two of both kinds at most.
    for kind in ["share", "error"] {
        let count = seconds.get(kind).copied().unwrap_or_default();
        assert!((1..20).contains(&count), "{seconds:?}");
    }
}
