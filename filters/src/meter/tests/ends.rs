//! Errors, ends and nonsense.

use super::*;

#[test]
fn an_error_is_known_by_its_value_and_its_text_is_not_kept() {
    let check = |event: &str, error: Option<(Option<&str>, Option<&str>)>| {
        let figures = chat(event);
        let found = figures.error.as_ref();
        let found = found.map(|error| (error.code.as_deref(), error.kind.as_deref()));
        assert_eq!(found, error, "{event}");
        assert!(!format!("{figures:?}").contains("secret"), "{event}");
    };
    let vllm = r#"data: {"error": {"message": "secret words", "type": "InternalServerError", "param": null, "code": 500}}"#;
    check(
        &format!("{vllm}\n\n"),
        Some((Some("500"), Some("InternalServerError"))),
    );
    check(
        &format!("{vllm}\n\ndata: [DONE]\n\n"),
        Some((Some("500"), Some("InternalServerError"))),
    );
    check(vllm, Some((Some("500"), Some("InternalServerError"))));
    check("data: {\"error\":\"secret\"}\n\n", Some((None, None)));
    check(
        "data: {\"error\":{\"code\":\"rate_limit\",\"message\":\"secret\"}}\n\n",
        Some((Some("rate_limit"), None)),
    );
    check(
        "data: {\"error\":{\"code\":\"secret words\",\"type\":\"a secret\"}}\n\n",
        Some((None, None)),
    );
    check("data: {\"error\":503}\n\n", Some((Some("503"), None)));
    check("data: {\"error\":true}\n\n", Some((None, None)));
    check("data: {\"error\":[\"secret\"]}\n\n", Some((None, None)));
    // SGLang's shape, without a wrapper.
    check(
        "data: {\"object\":\"error\",\"message\":\"secret\",\"type\":\"Bad\",\"code\":400}\n\n",
        Some((Some("400"), Some("Bad"))),
    );
    // Anthropic's, should it come here.
    check(
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"secret\"}}\n\n",
        Some((None, Some("overloaded_error"))),
    );
    // Older llama.cpp: a field of its own.
    check(
        "error: {\"code\":500,\"message\":\"secret\",\"type\":\"server_error\"}\n\n",
        Some((Some("500"), Some("server_error"))),
    );
    check("error: secret\n\n", Some((None, None)));
    // The first is the cause.
    check(
        "data: {\"error\":{\"code\":1}}\n\ndata: {\"error\":{\"code\":2}}\n\n",
        Some((Some("1"), None)),
    );

    check("data: {\"error\":\"\"}\n\n", None);
    check("data: {\"error\":null}\n\n", None);
    check("data: {\"error\":{}}\n\n", None);
    check("data: {\"error\":[]}\n\n", None);
    check("data: {\"error\":false}\n\n", None);
    check("data: {\"error\":0}\n\n", None);
    check(&delta(r#"{"content":"error"}"#), None);
    check(
        "data: {\"choices\":[],\"error\":\"\",\"code\":500,\"type\":\"secret\"}\n\n",
        None,
    );
    check("error:\n\n", None);
}

#[test]
fn finish_reasons_are_counted_by_a_closed_list() {
    let reasons = [
        "stop",
        "length",
        "tool_calls",
        "function_call",
        "content_filter",
        "abort",
        "error",
        "repetition",
        "eos",
        "length",
    ];
    let body: String = reasons
        .iter()
        .map(|reason| {
            format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n")
        })
        .collect();
    let figures = chat(&format!(
        "{body}data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"\"}}]}}\n\n"
    ));
    for reason in FinishReason::ALL {
        let count = if reason == FinishReason::Length { 2 } else { 1 };
        assert_eq!(figures.finish_reasons.count(reason), count, "{reason:?}");
    }
    assert_eq!(figures.finish_reasons.iter().count(), 9);
    assert_eq!(figures.token_events, 0);
    assert!(chat("").finish_reasons.iter().next().is_none());
}

#[test]
fn only_the_terminator_ends_a_stream() {
    let token = delta(r#"{"content":"a"}"#);
    assert!(chat(&format!("{token}data: [DONE]\n\n")).terminated);
    assert!(chat(&format!("{token}data:[DONE]\r\n\r\n")).terminated);
    assert!(chat(&format!("{token}data: [DONE]")).terminated);
    assert!(!chat(&token).terminated);
    assert!(!chat(&format!("{token}data: [DONE")).terminated);
    assert!(!chat(&format!("{token}: [DONE]\n\n")).terminated);
    assert!(!chat(&delta(r#"{"content":"[DONE]"}"#)).terminated);
    assert!(!chat("").terminated);
}

#[test]
fn nonsense_is_counted_and_stepped_over() {
    let token = delta(r#"{"content":"a"}"#);
    for nonsense in [
        "data: {\"choices\":[\n\n",
        "data: hello\n\n",
        "data: 5\n\n",
        "data: []\n\n",
        "data: {\"a\":1}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]\n\n",
        "data: {\"a\":\"\\x\"}\n\n",
        "data: {'a':1}\n\n",
    ] {
        let figures = chat(&format!("{token}{nonsense}{token}data: [DONE]\n\n"));
        assert_eq!(
            (figures.token_events, figures.bad_events, figures.events),
            (2, 1, 4),
            "{nonsense}"
        );
        assert_eq!(
            (figures.terminated, figures.unmetered),
            (true, None),
            "{nonsense}"
        );
    }
    let figures = chat(&format!("data:\n\n{token}"));
    assert_eq!(
        (figures.token_events, figures.bad_events, figures.events),
        (1, 0, 2)
    );
}

#[test]
fn half_an_event_at_the_end_is_no_nonsense() {
    let token = delta(r#"{"content":"a"}"#);
    let figures = chat(&format!("{token}{}", token.split_at(30).0));
    assert_eq!(
        (figures.token_events, figures.events, figures.bad_events),
        (1, 1, 0)
    );
    // A whole one that lacks its blank line has the time of the piece it came in.
    let figures = chat(&format!("{token}{}", token.trim_end()));
    assert_eq!(
        (figures.token_events, figures.events, figures.last_token),
        (2, 2, Some(ms(7)))
    );
}

#[test]
fn an_event_past_the_limit_is_skipped_and_said() {
    let token = delta(r#"{"content":"a"}"#);
    let long = delta(&format!(r#"{{"content":"{}"}}"#, "a".repeat(10 << 20)));
    let body = format!("{token}{long}{token}data: [DONE]\n\n");
    for step in [100_000, body.len()] {
        let mut meter = Meter::stream(Dialect::Chat, true, LIMIT);
        for piece in body.as_bytes().chunks(step) {
            meter.feed(ms(1), piece);
        }
        let figures = meter.finish();
        assert_eq!(figures.unmetered, Some(Unmetered::EventTooLong));
        assert_eq!(
            (figures.token_events, figures.terminated, figures.bad_events),
            (2, true, 0)
        );
    }
}

#[test]
fn what_is_no_event_stream_is_said_to_be_none() {
    let check = |body: &str, unmetered| assert_eq!(chat(body).unmetered, unmetered, "{body:?}");
    check("{\"choices\":[],\"usage\":null}", Some(Unmetered::NotSse));
    check("<html>\n\n</html>\n\n", Some(Unmetered::NotSse));
    check("\u{1f}\u{8b}\u{8}\0\0", Some(Unmetered::NotSse));
    check("", None);
    check(": only a comment\n\n", None);
    check("data: x\n\n", None);
}
