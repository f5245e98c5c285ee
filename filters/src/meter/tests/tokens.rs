//! What bears a token, and when.

use super::*;

#[test]
fn a_delta_bears_tokens_when_something_is_in_it() {
    let check = |inside: &str, bears: bool, shows: bool| {
        let figures = chat(&delta(inside));
        assert_eq!(figures.token_events, u64::from(bears), "{inside}");
        assert_eq!(figures.first_token, bears.then_some(ms(7)), "{inside}");
        assert_eq!(figures.first_output, shows.then_some(ms(7)), "{inside}");
        assert_eq!(figures.bad_events, 0, "{inside}");
    };
    check(r#"{"content":"hi"}"#, true, true);
    check(r#"{"role":"assistant","content":"hi"}"#, true, true);
    check(r#"{"role":"assistant","content":""}"#, false, false);
    check(r#"{"content":"","role":"assistant"}"#, false, false);
    check(r#"{"role":"assistant","content":null}"#, false, false);
    check(r#"{"role":"assistant"}"#, false, false);
    check(r#"{}"#, false, false);
    // A special token that decodes to nothing.
    check(r#"{"content":""}"#, true, false);
    check(r#"{"content":null}"#, false, false);
    check(r#"{"reasoning":"hm"}"#, true, false);
    check(r#"{"reasoning":""}"#, false, false);
    check(r#"{"reasoning_content":"hm","content":null}"#, true, false);
    check(r#"{"reasoning_content":null,"content":"hi"}"#, true, true);
    check(r#"{"reasoning_content":null}"#, false, false);
    check(r#"{"refusal":"no"}"#, true, true);
    check(r#"{"refusal":null,"content":"x"}"#, true, true);
    check(
        r#"{"tool_calls":[{"index":0,"function":{"arguments":""}}]}"#,
        true,
        false,
    );
    check(r#"{"tool_calls":[]}"#, false, false);
    check(r#"{"tool_calls":[ ]}"#, false, false);
    check(r#"{"function_call":{"name":"f"}}"#, true, false);
    check(r#"{"function_call":{ }}"#, false, false);
    check(r#"{"content":[{"type":"text","text":"hi"}]}"#, true, true);
    check(r#"{"content":"\u0000"}"#, true, true);
    check(r#"{"content":"\ud83d"}"#, true, true);
}

#[test]
fn a_key_counts_only_at_its_own_depth() {
    let check = |data: &str, token_events: u64| {
        let figures = chat(&format!("data: {data}\n\n"));
        assert_eq!(
            (figures.token_events, figures.bad_events),
            (token_events, 0),
            "{data}"
        );
        assert_eq!((figures.usage, figures.error), (None, None), "{data}");
    };
    check(r#"{"content":"hi"}"#, 0);
    check(r#"{"delta":{"content":"hi"}}"#, 0);
    check(r#"{"choices":[{"content":"hi"}]}"#, 0);
    check(r#"{"choices":[{"delta":{"x":{"content":"hi"}}}]}"#, 0);
    check(r#"{"choices":[{"delta":{"x":"\"content\":\"hi\""}}]}"#, 0);
    check(r#"{"x":{"choices":[{"delta":{"content":"hi"}}]}}"#, 0);
    check(r#"{"choices":{"delta":{"content":"hi"}}}"#, 0);
    check(r#"{"choices":["delta",{"delta":"content"},null]}"#, 0);
    check(
        r#"{"choices":[{"delta":{"content":"hi"},"usage":{"prompt_tokens":1},"error":"x"}]}"#,
        1,
    );
    check(
        r#"{"choices":[{"logprobs":{"content":[{"token":"a","error":"b"}]},"delta":{}}]}"#,
        0,
    );
    check(
        r#"{"choices":[{"delta":{"content":"\",\"usage\":{\"prompt_tokens\":1}"}}]}"#,
        1,
    );
}

#[test]
fn an_event_counts_once_however_many_choices_it_has() {
    let both = r#"data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}"#;
    assert_eq!(chat(&format!("{both}\n\n")).token_events, 1);
}

#[test]
fn a_completions_choice_with_text_is_a_token_event_even_when_the_text_is_empty() {
    let check = |choice: &str, bears: bool, shows: bool| {
        let figures = completions(&format!("data: {{\"choices\":[{choice}]}}\n\n"));
        assert_eq!(figures.token_events, u64::from(bears), "{choice}");
        assert_eq!(figures.first_output.is_some(), shows, "{choice}");
    };
    check(r#"{"index":0,"text":"hi"}"#, true, true);
    check(r#"{"index":0,"text":""}"#, true, false);
    check(r#"{"index":0,"text":null}"#, false, false);
    check(r#"{"index":0}"#, false, false);
    check(r#"{"index":0,"delta":{"content":"hi"}}"#, false, false);
}

#[test]
fn comments_and_usage_events_bear_no_tokens_and_do_not_move_the_gap() {
    let mut meter = Meter::stream(Dialect::Chat, true, LIMIT);
    let token = delta(r#"{"content":"a"}"#);
    let fed = |token_events, gap: Option<u64>| Fed {
        token_events,
        gap: gap.map(ms),
    };
    assert_eq!(meter.feed(ms(1), b": keep-alive\n\n"), fed(0, None));
    assert_eq!(
        meter.feed(ms(2), delta(r#"{"role":"a","content":""}"#).as_bytes()),
        fed(0, None)
    );
    assert_eq!(meter.feed(ms(10), token.as_bytes()), fed(1, None));
    assert_eq!(meter.feed(ms(12), b":\n"), fed(0, None));
    assert_eq!(meter.feed(ms(13), b": keep-alive\r\n\r\n"), fed(0, None));
    assert_eq!(meter.feed(ms(15), token.as_bytes()), fed(1, Some(5)));
    // Two in one read share one time; the first has the gap.
    assert_eq!(
        meter.feed(ms(25), token.repeat(2).as_bytes()),
        fed(2, Some(10))
    );
    let (head, tail) = token.split_at(20);
    assert_eq!(meter.feed(ms(30), head.as_bytes()), fed(0, None));
    assert_eq!(meter.feed(ms(40), tail.as_bytes()), fed(1, Some(15)));
    assert_eq!(
        meter.feed(
            ms(41),
            b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9}}\n\n"
        ),
        fed(0, None)
    );
    assert_eq!(meter.feed(ms(42), b"data: [DONE]\n\n"), fed(0, None));
    let figures = meter.finish();
    assert_eq!(
        (figures.first_token, figures.last_token),
        (Some(ms(10)), Some(ms(40)))
    );
    assert_eq!((figures.token_events, figures.events), (5, 8));
    // Nine tokens in five events: 30 ms over eight gaps.
    assert_eq!(
        figures.time_per_output_token(),
        Some(Duration::from_micros(3750))
    );
}

#[test]
fn a_clock_that_steps_back_makes_no_negative_gap() {
    let mut meter = Meter::stream(Dialect::Chat, true, LIMIT);
    let token = delta(r#"{"content":"a"}"#);
    meter.feed(ms(10), token.as_bytes());
    assert_eq!(meter.feed(ms(4), token.as_bytes()).gap, Some(ms(0)));
    assert_eq!(meter.finish().time_per_output_token(), None);
}

#[test]
fn data_in_several_lines_and_odd_line_ends_are_read() {
    let check = |body: &str| assert_eq!(chat(body).token_events, 1, "{body:?}");
    check("data: {\"choices\":[\ndata: {\"delta\":{\"content\":\"a\"}}\ndata: ]}\n\n");
    check("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n");
    check("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\r");
    check("\u{feff}data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
    check("data:{\"choices\":[{\"delta\":{\"content\":\"\u{2028}\u{85}😀\"}}]}\n\n");
    check(
        "id: 1\nevent: message\nretry: 3\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
    );
}

#[test]
fn the_model_is_the_first_named_and_bounded() {
    let check = |body: &str, model: Option<&str>| {
        assert_eq!(chat(body).model.as_deref(), model, "{body:?}")
    };
    check(
        "data: {\"model\":\"a\"}\n\ndata: {\"model\":\"b\"}\n\n",
        Some("a"),
    );
    check(
        "data: {\"model\":null}\n\ndata: {\"model\":\"b\\u002f\\\"c\\\"\"}\n\n",
        Some("b/\"c\""),
    );
    check("data: {\"x\":{\"model\":\"a\"}}\n\n", None);
    check(
        &format!("data: {{\"model\":\"{}\"}}\n\n", "a".repeat(257)),
        None,
    );
}

#[test]
fn one_of_three_choices_may_end_early() {
    let event = |index: u32, inside: &str, reason: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":{index},\"delta\":{inside},\"finish_reason\":{reason}}}]}}\n\n"
        )
    };
    let text = r#"{"content":"a"}"#;
    let body = [
        event(0, r#"{"role":"assistant","content":""}"#, "null"),
        event(2, r#"{"role":"assistant","content":""}"#, "null"),
        event(1, r#"{"role":"assistant","content":""}"#, "null"),
        event(2, text, "null"),
        event(0, text, "null"),
        event(1, text, "\"stop\""),
        event(2, text, "\"length\""),
        event(0, "{}", "\"length\""),
        "data: [DONE]\n\n".to_owned(),
    ];
    let figures = stream(Dialect::Chat, false, &body.concat());
    assert_eq!(
        (figures.token_events, figures.events, figures.terminated),
        (4, 9, true)
    );
    assert_eq!(figures.finish_reasons.count(FinishReason::Stop), 1);
    assert_eq!(figures.finish_reasons.count(FinishReason::Length), 2);
    assert!(!figures.one_choice);
}

#[test]
fn tool_calls_count_by_event_though_their_index_repeats() {
    let call = r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}"#;
    let two = r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}},{"index":0,"function":{"arguments":"}"}}]}"#;
    let figures = chat(&[delta(call), delta(call), delta(two), delta("{}")].concat());
    assert_eq!((figures.token_events, figures.first_output), (3, None));
}

#[test]
fn an_event_that_begins_as_the_one_before_is_read_as_if_it_were_alone() {
    let check = |events: &[&str], token_events: u64, bad_events: u64| {
        let body: String = events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect();
        let figures = chat(&body);
        assert_eq!(
            (figures.token_events, figures.bad_events),
            (token_events, bad_events),
            "{events:?}"
        );
        figures
    };
    let token = r#"{"id":"a","choices":[{"delta":{"content":"x"}}]}"#;
    let spaced = r#"{"id":"a","choices": [{"delta":{"content":"x"}}] }"#;
    check(&[token, spaced, token], 3, 0);
    check(&[spaced, token, spaced], 3, 0);
    check(&[token, r#"{"id":"a","choices":"#, token], 2, 1);
    check(&[token, r#"{"id":"a","choices":[]]"#, token], 2, 1);
    check(
        &[
            token,
            r#"{"id":"a","choices":null}"#,
            r#"{"id":"ab","choices":[]}"#,
            token,
        ],
        2,
        0,
    );
    // What stands before the choices is said each time.
    let failed = r#"{"error":"x","choices":[{"delta":{"content":"x"}}]}"#;
    assert!(check(&[failed, failed], 2, 0).error.is_some());
    let used = |tokens: u32| {
        format!(r#"{{"usage":{{"prompt_tokens":1,"completion_tokens":{tokens}}},"choices":[]}}"#)
    };
    let figures = check(&[&used(1), &used(2)], 0, 0);
    assert_eq!(figures.usage, Some(usage(1, 2)));
    let bare = r#"{"object":"error","code":5,"choices":[]}"#;
    assert!(check(&[token, bare], 1, 0).error.is_some());
}

#[test]
fn an_echo_of_the_prompt_bears_no_token() {
    let content = |index: u32, content: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"{content}\"}}}}]}}\n\n"
        )
    };
    let role = delta(r#"{"role":"assistant","content":""}"#);
    let check = |choices: u64, body: &str, first: Option<u64>, tokens: u64| {
        let mut meter = Meter::stream(Dialect::Chat, choices == 1, LIMIT).after_echoes(choices);
        meter.feed(ms(7), body.as_bytes());
        let figures = meter.finish();
        assert_eq!(
            (figures.first_token_event, figures.token_events),
            (first, tokens),
            "{body}"
        );
        assert_eq!(figures.first_output.is_some(), tokens > 0, "{body}");
    };
    let one = format!("{role}{}", content(0, "said before"));
    check(1, &one, None, 0);
    check(1, &format!("{one}{}", content(0, " a")), Some(3), 1);
    let two = format!("{}{}", content(0, "before"), content(1, "before"));
    check(2, &format!("{two}{}", content(1, " a")), Some(3), 1);
    check(0, &one, Some(2), 1);
}
