//! OpenAI's Responses. The forms that no recording has are from OpenAI's reference of streaming events, and from vLLM's
//! `serving_responses`.

use super::*;

fn responses(events: &[&str]) -> Figures {
    let body: String = events
        .iter()
        .map(|event| format!("event: x\ndata: {event}\n\n"))
        .collect();
    let figures = stream(Dialect::Responses, true, &body);
    assert_eq!(figures.bad_events, 0, "{body}");
    figures
}

#[test]
fn only_deltas_bear_tokens() {
    let check = |event: &str, bears: bool, shows: bool| {
        let figures = responses(&[event]);
        assert_eq!(figures.token_events, u64::from(bears), "{event}");
        assert_eq!(figures.first_output.is_some(), shows, "{event}");
        assert!(!figures.terminated, "{event}");
    };
    let delta = |kind: &str, delta: &str| {
        format!(
            r#"{{"type":"response.{kind}.delta","sequence_number":4,"output_index":0,"delta":{delta}}}"#
        )
    };
    check(&delta("output_text", r#""hi""#), true, true);
    check(&delta("refusal", r#""no""#), true, true);
    for kind in [
        "reasoning_text",
        "reasoning_summary_text",
        "function_call_arguments",
        "custom_tool_call_input",
        "mcp_call_arguments",
        "code_interpreter_call_code",
        "audio",
    ] {
        check(&delta(kind, r#""x""#), true, false);
    }
    check(&delta("output_text", r#""""#), false, false);
    check(&delta("output_text", "null"), false, false);
    check(&delta("unheard_of", r#""x""#), false, false);
    for event in [
        r#"{"type":"response.created","response":{"id":"r","status":"in_progress","usage":null,"error":null}}"#,
        r#"{"type":"response.in_progress","response":{"id":"r","status":"in_progress"}}"#,
        r#"{"type":"response.queued","response":{"status":"queued"}}"#,
        r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
        r#"{"type":"response.content_part.added","part":{"type":"output_text","text":""}}"#,
        r#"{"type":"response.output_text.done","text":"hi"}"#,
        r#"{"type":"response.function_call_arguments.done","arguments":"{}"}"#,
        r#"{"type":"response.output_item.done","item":{"type":"message","status":"completed"}}"#,
        // The word may stand in a text without meaning anything.
        r#"{"type":"response.output_text.done","text":"response.completed","x":{"type":"error"}}"#,
    ] {
        check(event, false, false);
    }
}

#[test]
fn the_last_event_says_how_and_with_how_many_tokens() {
    let check = |event: &str,
                 reason: Option<FinishReason>,
                 expected: Option<Usage>,
                 error: Option<Option<&str>>| {
        let figures = responses(&[event]);
        assert!(figures.terminated, "{event}");
        let found: Vec<_> = figures.finish_reasons.iter().collect();
        let reason: Vec<_> = reason.map(|reason| (reason, 1)).into_iter().collect();
        assert_eq!(found, reason, "{event}");
        assert_eq!(figures.usage, expected, "{event}");
        let found = figures.error.as_ref().map(|error| error.code.as_deref());
        assert_eq!(found, error, "{event}");
    };
    check(
        r#"{"type":"response.completed","response":{"status":"completed","incomplete_details":null,"error":null,"output":[{"type":"message"}],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":3},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":14}}}"#,
        Some(FinishReason::Stop),
        Some(Usage {
            cached: Some(3),
            reasoning: Some(2),
            ..usage(5, 9)
        }),
        None,
    );
    check(
        r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning"},{"type":"function_call","arguments":"{}"}],"usage":null}}"#,
        Some(FinishReason::ToolCalls),
        None,
        None,
    );
    // vLLM: cut by max_output_tokens, and still called completed.
    check(
        r#"{"type":"response.completed","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":5,"output_tokens":9}}}"#,
        Some(FinishReason::Length),
        Some(usage(5, 9)),
        None,
    );
    check(
        r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#,
        Some(FinishReason::ContentFilter),
        None,
        None,
    );
    check(
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"secret"},"usage":null}}"#,
        Some(FinishReason::Error),
        None,
        Some(Some("server_error")),
    );
    check(
        r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#,
        Some(FinishReason::Error),
        None,
        Some(None),
    );
}

#[test]
fn an_error_may_come_in_three_shapes() {
    let check = |event: &str, code: Option<&str>, kind: Option<&str>| {
        let figures = responses(&[event]);
        assert!(!format!("{figures:?}").contains("secret"), "{event}");
        let error = figures.error.expect("an error");
        assert_eq!(
            (error.code.as_deref(), error.kind.as_deref()),
            (code, kind),
            "{event}"
        );
        assert!(!figures.terminated, "{event}");
    };
    // OpenAI's own event.
    check(
        r#"{"type":"error","sequence_number":3,"code":"rate_limit_exceeded","message":"secret","param":null}"#,
        Some("rate_limit_exceeded"),
        None,
    );
    check(
        r#"{"type":"error","error":{"type":"server_error","code":null,"message":"secret"}}"#,
        None,
        Some("server_error"),
    );
    // vLLM, which then stops without a last event.
    check(
        r#"{"error":{"message":"secret","type":"InternalServerError","param":null,"code":500}}"#,
        Some("500"),
        Some("InternalServerError"),
    );
}

#[test]
fn a_whole_response_is_read_as_the_last_event_is() {
    let body = r#"{"id":"r","object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"error":null,"model":"m","output":[],"usage":{"input_tokens":5,"output_tokens":9}}"#;
    let figures = whole_of(Dialect::Responses, body);
    assert_eq!(figures.usage, Some(usage(5, 9)));
    assert_eq!(figures.finish_reasons.count(FinishReason::Length), 1);
    assert_eq!(
        (figures.terminated, figures.error, figures.model.as_deref()),
        (true, None, Some("m"))
    );
    let error = whole_of(Dialect::Responses, r#"{"error":{"code":"x"},"type":"y"}"#);
    assert!(error.error.is_some());
}
