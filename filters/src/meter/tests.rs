//! Recorded answers in `recorded`, hand-written ones here.

mod recorded;

use super::*;

const LIMIT: usize = 1 << 20;

fn ms(millis: u64) -> Offset {
    Offset::from_millis(millis)
}

/// The figures of a chat stream, fed in pieces of each of some sizes; they must not depend on it.
fn stream(dialect: Dialect, n_is_one: bool, body: &str) -> Figures {
    let run = |step: usize| {
        let mut meter = Meter::stream(dialect, n_is_one, LIMIT);
        for piece in body.as_bytes().chunks(step) {
            meter.feed(ms(7), piece);
        }
        meter.finish()
    };
    let whole = run(body.len().max(1));
    for step in [1, 2, 3, 5, 64] {
        assert_eq!(run(step), whole, "{body:?} by {step}");
    }
    whole
}

fn chat(body: &str) -> Figures {
    stream(Dialect::Chat, true, body)
}

fn completions(body: &str) -> Figures {
    stream(Dialect::Completions, true, body)
}

fn whole(body: &str) -> Figures {
    let run = |step: usize, limit: usize| {
        let mut meter = Meter::whole(Dialect::Chat, true, limit);
        for piece in body.as_bytes().chunks(step) {
            assert_eq!(meter.feed(ms(7), piece), Fed::default());
        }
        meter.finish()
    };
    let whole = run(body.len().max(1), LIMIT);
    for step in [1, 2, 3, 5, 64] {
        assert_eq!(run(step, LIMIT), whole, "{body:?} by {step}");
    }
    whole
}

/// One chat event with this delta.
fn delta(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n")
}

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
fn the_time_per_token_is_absent_where_it_is_unknown() {
    let token = delta(r#"{"content":"a"}"#);
    let check = |n_is_one: bool, body: String, known: bool| {
        let mut meter = Meter::stream(Dialect::Chat, n_is_one, LIMIT);
        let (first, rest) = body.split_at(token.len());
        meter.feed(ms(0), first.as_bytes());
        meter.feed(ms(90), rest.as_bytes());
        let figures = meter.finish();
        let found = figures.time_per_output_token();
        assert_eq!(found, known.then_some(ms(10)), "{body}");
    };
    let usage = |completion: u32| {
        format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{completion}}}}}\n\n"
        )
    };
    let second = r#"data: {"choices":[{"index":1,"delta":{"content":"b"}}]}"#;
    check(true, format!("{token}{token}{}", usage(10)), true);
    check(false, format!("{token}{token}{}", usage(10)), false);
    check(true, format!("{token}{second}\n\n{}", usage(10)), false);
    check(true, format!("{token}{}", usage(10)), false);
    check(true, format!("{token}{token}{}", usage(1)), false);
    check(true, format!("{token}{token}{}", usage(0)), false);
    check(true, format!("{token}{token}"), false);
    check(
        true,
        format!("{token}{token}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":5}}}}\n\n"),
        false,
    );
}

fn usage(prompt: u64, completion: u64) -> Usage {
    Usage {
        prompt: Some(prompt),
        completion: Some(completion),
        ..Usage::default()
    }
}

#[test]
fn the_last_real_usage_counts() {
    let check = |n_is_one: bool, events: &[&str], expected: Option<Usage>| {
        let body: String = events
            .iter()
            .map(|event| format!("data: {{{event}}}\n\n"))
            .collect();
        let figures = stream(Dialect::Chat, n_is_one, &body);
        assert_eq!(figures.usage, expected, "{events:?}");
        assert_eq!(figures.bad_events, 0, "{events:?}");
    };
    let choice =
        |index: u32| format!(r#""choices":[{{"index":{index},"delta":{{"content":"a"}}}}]"#);
    let beside = |index: u32, completion: u32| {
        let choice = choice(index);
        format!(r#"{choice},"usage":{{"prompt_tokens":5,"completion_tokens":{completion}}}"#)
    };
    let last = r#""choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9}"#;
    let zero = r#""choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#;
    let null = format!(r#"{},"usage":null"#, choice(0));
    check(true, &[], None);
    check(true, &[&choice(0)], None);
    check(true, &[&null, &null], None);
    check(true, &[zero], None);
    check(
        true,
        &[r#""usage":{}"#, r#""usage":[]"#, r#""usage":7"#],
        None,
    );
    check(true, &[&null, last], Some(usage(5, 9)));
    check(true, &[last, &null], Some(usage(5, 9)));
    check(true, &[zero, last], Some(usage(5, 9)));
    check(true, &[last, zero], Some(usage(5, 9)));
    check(
        true,
        &[
            r#""choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}"#,
            last,
        ],
        Some(usage(5, 9)),
    );
    // No choices at all, as some servers have it.
    check(
        true,
        &[r#""usage":{"prompt_tokens":5,"completion_tokens":9}"#],
        Some(usage(5, 9)),
    );
    // A prompt read and nothing written is real.
    check(true, &[&beside(0, 0)], Some(usage(5, 0)));
    // Cumulative on every event, cut before the final one.
    check(true, &[&beside(0, 1), &beside(0, 2)], Some(usage(5, 2)));
    check(
        true,
        &[&beside(0, 1), &beside(0, 2), last],
        Some(usage(5, 9)),
    );
    // With several choices it is each choice's own, so without the final one the sum is unknown.
    check(false, &[&beside(0, 1), &beside(1, 1)], None);
    check(true, &[&beside(0, 1), &beside(1, 1)], None);
    check(
        false,
        &[&beside(0, 4), &beside(1, 5), last],
        Some(usage(5, 9)),
    );
}

#[test]
fn details_of_usage_are_read_where_the_servers_put_them() {
    let check = |inside: &str, expected: Usage| {
        let body = format!("data: {{\"choices\":[],\"usage\":{{{inside}}}}}\n\n");
        assert_eq!(chat(&body).usage, Some(expected), "{inside}");
    };
    let plain = usage(5, 9);
    check(
        r#""completion_tokens":9,"prompt_tokens":5,"x":{"prompt_tokens":1}"#,
        plain,
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4,"created_cache_tokens":0,"multimodal_tokens":null}"#,
        Usage {
            cached: Some(4),
            ..plain
        },
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":3}"#,
        Usage {
            reasoning: Some(3),
            ..plain
        },
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":9,"reasoning_tokens":0,"completion_tokens_details":null"#,
        Usage {
            reasoning: Some(0),
            ..plain
        },
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":9,"prompt_tokens_details":null"#,
        plain,
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":1.5"#,
        Usage {
            completion: None,
            ..plain
        },
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":-1"#,
        Usage {
            completion: None,
            ..plain
        },
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":"9""#,
        Usage {
            completion: None,
            ..plain
        },
    );
    check(
        r#""prompt_tokens":5,"completion_tokens":99999999999999999999"#,
        Usage {
            completion: None,
            ..plain
        },
    );
}

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
fn a_whole_answer_is_read_at_its_end() {
    let body = r#"{"id":"1","model":"m","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"},{"index":1,"message":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":9}}"#;
    let figures = whole(body);
    assert_eq!(figures.usage, Some(usage(5, 9)));
    assert_eq!(figures.model.as_deref(), Some("m"));
    assert_eq!(
        figures.finish_reasons.iter().collect::<Vec<_>>(),
        [(FinishReason::Stop, 1), (FinishReason::Length, 1)]
    );
    assert_eq!(
        (figures.terminated, figures.unmetered, figures.first_token),
        (true, None, None)
    );
    assert_eq!(whole(&format!(" \n{body}\r\n ")), figures);

    let check = |body: &str, unmetered| {
        let figures = whole(body);
        assert_eq!(
            (figures.unmetered, figures.terminated, figures.usage),
            (Some(unmetered), false, None),
            "{body}"
        );
    };
    check("", Unmetered::Unparsable);
    check("[]", Unmetered::Unparsable);
    check(body.split_at(100).0, Unmetered::Unparsable);
    check(&format!("{body}{body}"), Unmetered::Unparsable);
    check(&format!("{body} x"), Unmetered::Unparsable);
    check(&" ".repeat(LIMIT + 1), Unmetered::TooLarge);

    let error = whole(r#"{"error":"secret"}"#);
    assert_eq!(
        (error.error, error.terminated),
        (Some(InStreamError::default()), true)
    );
}

#[test]
fn a_whole_answer_past_the_limit_is_let_go() {
    let body = format!(r#"{{"x":"{}"}}"#, "a".repeat(LIMIT));
    for step in [1000, body.len()] {
        let mut meter = Meter::whole(Dialect::Chat, true, LIMIT);
        for piece in body.as_bytes().chunks(step) {
            meter.feed(ms(1), piece);
        }
        assert_eq!(meter.finish().unmetered, Some(Unmetered::TooLarge));
    }
}

#[test]
fn something_may_follow_a_whole_answer_only_if_it_is_white_space() {
    let body = br#"{"usage":{"prompt_tokens":5,"completion_tokens":9}}"#;
    let mut meter = Meter::whole(Dialect::Chat, true, LIMIT);
    meter.feed(ms(1), body);
    meter.feed(ms(2), b" \r\n");
    assert_eq!(meter.finish().usage, Some(usage(5, 9)));
    let mut meter = Meter::whole(Dialect::Chat, true, LIMIT);
    meter.feed(ms(1), body);
    meter.feed(ms(2), b"}");
    let figures = meter.finish();
    assert_eq!(
        (figures.usage, figures.unmetered),
        (None, Some(Unmetered::Unparsable))
    );
}
