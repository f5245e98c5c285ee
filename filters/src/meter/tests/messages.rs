//! Anthropic's messages. The forms that no recording has are from Anthropic's reference of streaming messages.

use super::*;

fn messages(events: &[&str]) -> Figures {
    let body: String = events
        .iter()
        .map(|event| format!("event: x\ndata: {event}\n\n"))
        .collect();
    let figures = stream(Dialect::Messages, true, &body);
    assert_eq!(figures.bad_events, 0, "{body}");
    figures
}

#[test]
fn text_thinking_and_arguments_bear_tokens() {
    let check = |event: &str, bears: bool, shows: bool| {
        let figures = messages(&[event]);
        assert_eq!(figures.token_events, u64::from(bears), "{event}");
        assert_eq!(figures.first_output.is_some(), shows, "{event}");
        assert_eq!(
            (figures.terminated, figures.error),
            (false, None),
            "{event}"
        );
    };
    let delta = |delta: &str| {
        format!(r#"{{"type":"content_block_delta","index":1,"delta":{{"type":{delta}}}}}"#)
    };
    check(&delta(r#""text_delta","text":"hi""#), true, true);
    check(&delta(r#""text_delta","text":"""#), false, false);
    check(&delta(r#""thinking_delta","thinking":"hm""#), true, false);
    check(
        &delta(r#""input_json_delta","partial_json":"{\"a\"""#),
        true,
        false,
    );
    check(
        &delta(r#""input_json_delta","partial_json":"""#),
        false,
        false,
    );
    check(
        &delta(r#""signature_delta","signature":"EqQB""#),
        false,
        false,
    );
    check(
        &delta(r#""citations_delta","citation":{"text":"x"}"#),
        false,
        false,
    );
    check(r#"{"type":"ping"}"#, false, false);
    check(
        r#"{"type":"message_start","message":{"content":[]}}"#,
        false,
        false,
    );
    check(
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}"#,
        false,
        false,
    );
    check(r#"{"type":"content_block_stop","index":0}"#, false, false);
}

const START: &str = r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":5,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}}"#;

#[test]
fn counts_are_running_totals_and_caches_are_added_to_the_prompt() {
    let cached = |prompt: u64, completion: Option<u64>| Usage {
        prompt: Some(prompt),
        completion,
        cached: Some(100),
        reasoning: None,
    };
    let delta = |usage: &str| {
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":null}},"usage":{{{usage}}}}}"#)
    };
    let check = |deltas: &[&str], expected: Usage| {
        let deltas: Vec<String> = deltas.iter().map(|usage| delta(usage)).collect();
        let mut events = vec![START];
        events.extend(deltas.iter().map(String::as_str));
        assert_eq!(messages(&events).usage, Some(expected), "{deltas:?}");
    };
    // What a message starts with is no count of its answer.
    check(&[], cached(125, None));
    check(&[r#""output_tokens":7"#], cached(125, Some(7)));
    check(
        &[r#""output_tokens":3"#, r#""output_tokens":7"#],
        cached(125, Some(7)),
    );
    // As Anthropic and vLLM have it: the whole once more.
    check(
        &[
            r#""input_tokens":6,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":7"#,
        ],
        cached(126, Some(7)),
    );
    check(
        &[r#""output_tokens":7,"input_tokens":null"#],
        cached(125, Some(7)),
    );
    assert_eq!(
        messages(&[r#"{"type":"message_delta","usage":null}"#]).usage,
        None
    );
    assert_eq!(
        messages(&[
            r#"{"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}"#
        ])
        .usage,
        None
    );
}

#[test]
fn the_reason_of_the_end_is_put_into_the_closed_list() {
    let check = |word: &str, reason: FinishReason| {
        let event = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}","stop_sequence":null}},"usage":{{"output_tokens":2}}}}"#
        );
        let figures = messages(&[&event, r#"{"type":"message_stop"}"#]);
        assert_eq!(figures.finish_reasons.count(reason), 1, "{word}");
        assert!(figures.terminated);
        let body = format!(
            r#"{{"type":"message","stop_reason":"{word}","usage":{{"output_tokens":2,"input_tokens":3}}}}"#
        );
        let figures = whole_of(Dialect::Messages, &body);
        assert_eq!(figures.finish_reasons.count(reason), 1, "{word}");
        assert_eq!(figures.usage, Some(usage(3, 2)));
    };
    check("end_turn", FinishReason::Stop);
    check("stop_sequence", FinishReason::Stop);
    check("max_tokens", FinishReason::Length);
    check("model_context_window_exceeded", FinishReason::Length);
    check("tool_use", FinishReason::ToolCalls);
    check("refusal", FinishReason::ContentFilter);
    check("pause_turn", FinishReason::Other);
}

#[test]
fn an_error_event_is_one_and_ends_nothing_well() {
    let figures = messages(&[
        START,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"secret"}}"#,
    ]);
    let error = figures.error.as_ref().expect("an error");
    assert_eq!(error.kind.as_deref(), Some("overloaded_error"));
    assert!(!figures.terminated && !format!("{figures:?}").contains("secret"));
    assert!(messages(&[r#"{"type":"error"}"#]).error.is_some());
    let whole = whole_of(
        Dialect::Messages,
        r#"{"type":"error","error":{"type":"NotFoundError"}}"#,
    );
    assert!(whole.error.is_some());
}
