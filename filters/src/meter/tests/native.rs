//! The engines' own forms: SGLang's and TGI's `generate`, TGI's stream, llama.cpp's `completion`. What no recording has is
//! from SGLang's `tokenizer_manager`, TGI's router and its documentation, and llama.cpp's server README.

use super::*;

fn events(dialect: Dialect, events: &[&str]) -> Figures {
    let body: String = events
        .iter()
        .map(|event| format!("data:{event}\n\n"))
        .collect();
    let figures = stream(dialect, true, &body);
    assert_eq!(figures.bad_events, 0, "{body}");
    figures
}

/// One event of SGLang's: a choice, its text, its tokens so far, and why it ended.
fn sglang(index: u32, text: &str, tokens: u32, end: &str) -> String {
    let end = match end {
        "" => "null".to_owned(),
        end => format!(r#"{{"type":"{end}","length":4}}"#),
    };
    format!(
        r#"{{"index":{index},"text":"{text}","output_ids":[7],"meta_info":{{"id":"a","finish_reason":{end},"prompt_tokens":5,"completion_tokens":{tokens},"cached_tokens":2}}}}"#
    )
}

#[test]
fn sglang_bears_tokens_where_a_choice_has_more_than_before() {
    let check = |parts: &[(u32, &str, u32, &str)], tokens: u64, first: Option<u64>| {
        let parts: Vec<String> = parts
            .iter()
            .map(|(index, text, tokens, end)| sglang(*index, text, *tokens, end))
            .collect();
        let mut all: Vec<&str> = parts.iter().map(String::as_str).collect();
        all.push("[DONE]");
        let figures = events(Dialect::Generate, &all);
        assert_eq!(figures.token_events, tokens, "{parts:?}");
        assert_eq!(figures.first_token_event, first, "{parts:?}");
        assert!(figures.terminated);
        figures
    };
    let usage = Usage {
        cached: Some(2),
        ..usage(5, 3)
    };
    // Cumulative text, the default; the second token decodes to nothing yet.
    let figures = check(
        &[(0, "a", 1, ""), (0, "a", 2, ""), (0, "a é", 3, "length")],
        3,
        Some(1),
    );
    assert_eq!(figures.usage, Some(usage));
    assert_eq!(figures.finish_reasons.count(FinishReason::Length), 1);
    // Incremental text.
    let figures = check(
        &[(0, "a", 1, ""), (0, "", 2, ""), (0, " é", 3, "stop")],
        3,
        Some(1),
    );
    assert_eq!(figures.usage, Some(usage));
    // An end that brings nothing, and one before anything came.
    check(&[(0, "a", 1, ""), (0, "a", 1, "abort")], 1, Some(1));
    let figures = check(&[(0, "", 0, "abort")], 0, None);
    assert_eq!(figures.finish_reasons.count(FinishReason::Abort), 1);
    // Two choices, one after the other ended; the second's first token is its own.
    let figures = check(
        &[
            (0, "a", 1, ""),
            (1, "b", 1, ""),
            (0, "ab", 2, "stop"),
            (1, "bc", 3, "length"),
        ],
        4,
        Some(1),
    );
    assert!(!figures.one_choice);
    let all = figures.usage.expect("what all choices say");
    assert_eq!((all.prompt, all.completion), (None, Some(5)));
    // Without counts the text is all there is to go by.
    let figures = events(Dialect::Generate, &[r#"{"text":"a"}"#, r#"{"text":""}"#]);
    assert_eq!((figures.token_events, figures.usage), (1, None));
    assert!(!figures.terminated);
}

#[test]
fn sglang_reports_errors_under_status_200() {
    let figures = events(
        Dialect::Generate,
        &[
            &sglang(0, "a", 1, ""),
            r#"{"error":{"message":"secret"}}"#,
            "[DONE]",
        ],
    );
    assert!(figures.terminated && figures.error.is_some());
    assert!(!format!("{figures:?}").contains("secret"));
}

#[test]
fn a_plain_generate_is_sglangs_or_tgis_by_its_shape() {
    let check = |body: &str, expected: Option<Usage>, reasons: &[(FinishReason, u32)]| {
        let figures = whole_of(Dialect::Generate, body);
        assert_eq!(figures.usage, expected, "{body}");
        let found: Vec<_> = figures.finish_reasons.iter().collect();
        assert_eq!(found, reasons, "{body}");
        assert_eq!(
            (figures.terminated, figures.unmetered),
            (true, None),
            "{body}"
        );
        figures
    };
    let one = sglang(0, "hi", 3, "length");
    let cached = Usage {
        cached: Some(2),
        ..usage(5, 3)
    };
    check(&one, Some(cached), &[(FinishReason::Length, 1)]);
    // A batch, or several choices of one prompt: no index, and no word on which it is.
    let both = format!("[{one},{}]", one.replace(r#""index":0,"#, ""));
    let figures = check(
        &both,
        Some(Usage {
            completion: Some(6),
            ..Usage::default()
        }),
        &[(FinishReason::Length, 2)],
    );
    assert!(!figures.one_choice);
    let details = r#"{"generated_text":"hi","details":{"finish_reason":"eos_token","generated_tokens":4,"seed":null,"prefill":[],"tokens":[{"id":7,"text":"hi","logprob":-0.1,"special":false}]}}"#;
    let tgi = Usage {
        completion: Some(4),
        ..Usage::default()
    };
    check(details, Some(tgi), &[(FinishReason::Stop, 1)]);
    check(
        &format!("[{details}]"),
        Some(tgi),
        &[(FinishReason::Stop, 1)],
    );
    check(r#"{"generated_text":"hi"}"#, None, &[]);
    let error = check(r#"{"error":"secret","error_type":"validation"}"#, None, &[]);
    assert_eq!(error.error, Some(InStreamError::default()));
    for nonsense in ["[1]", "[[]]", "7", r#"[{"text":"a"}"#] {
        let figures = whole_of(Dialect::Generate, nonsense);
        assert_eq!(figures.unmetered, Some(Unmetered::Unparsable), "{nonsense}");
    }
}

#[test]
fn tgi_bears_a_token_an_event_and_ends_with_the_whole_text() {
    let token = |text: &str, special: bool| {
        format!(
            r#"{{"index":1,"token":{{"id":7,"text":"{text}","logprob":-0.1,"special":{special}}},"generated_text":null,"details":null}}"#
        )
    };
    let last = |reason: &str| {
        format!(
            r#"{{"index":2,"token":{{"id":2,"text":"</s>","logprob":-0.1,"special":true}},"generated_text":"hi","details":{{"finish_reason":"{reason}","generated_tokens":2,"seed":null,"input_length":5}}}}"#
        )
    };
    let check = |word: &str, reason: FinishReason| {
        let figures = events(Dialect::GenerateStream, &[&token("hi", false), &last(word)]);
        assert_eq!(
            (figures.token_events, figures.terminated),
            (2, true),
            "{word}"
        );
        assert_eq!(figures.usage, Some(usage(5, 2)));
        assert_eq!(figures.finish_reasons.count(reason), 1, "{word}");
    };
    check("length", FinishReason::Length);
    check("eos_token", FinishReason::Stop);
    check("stop_sequence", FinishReason::Stop);
    // A mark shows nothing.
    let figures = events(Dialect::GenerateStream, &[&token("<s>", true)]);
    assert_eq!((figures.token_events, figures.first_output), (1, None));
    assert!(!figures.terminated);
    // Without details there is no count, and the end is one all the same.
    let bare = r#"{"index":2,"token":{"id":2,"text":"i","special":false},"generated_text":"hi","details":null}"#;
    let figures = events(Dialect::GenerateStream, &[&token("h", false), bare]);
    assert_eq!((figures.usage, figures.terminated), (None, true));
    let error = r#"{"error":"secret","error_type":"overloaded"}"#;
    let figures = events(Dialect::GenerateStream, &[&token("h", false), error]);
    let kind = figures.error.expect("an error").kind;
    assert_eq!(kind.as_deref(), Some("overloaded"));
    let none = events(
        Dialect::GenerateStream,
        &[r#"{"error":"","error_type":"x"}"#],
    );
    assert_eq!(none.error, None);
}

#[test]
fn llamacpp_counts_as_it_goes_and_stops_each_choice() {
    let token = |index: u32, tokens: u32| {
        format!(
            r#"{{"index":{index},"content":"a","tokens":[7],"stop":false,"tokens_predicted":{tokens},"tokens_evaluated":4}}"#
        )
    };
    let last = |index: u32, tokens: u32, how: &str| {
        format!(
            r#"{{"index":{index},"content":"","tokens":[],"stop":true,"tokens_predicted":{tokens},"tokens_evaluated":4,"generation_settings":{{"stop":[],"n_predict":6}},{how}}}"#
        )
    };
    let check = |how: &str, reason: FinishReason| {
        let figures = events(Dialect::LlamaCompletion, &[&token(0, 1), &last(0, 1, how)]);
        assert_eq!(
            (figures.token_events, figures.terminated),
            (1, true),
            "{how}"
        );
        assert_eq!(figures.usage, Some(usage(4, 1)), "{how}");
        assert_eq!(figures.finish_reasons.count(reason), 1, "{how}");
    };
    check(r#""truncated":false,"stop_type":"eos""#, FinishReason::Stop);
    check(
        r#""stop_type":"word","stopping_word":"x""#,
        FinishReason::Stop,
    );
    check(
        r#""stop_type":"limit","truncated":false"#,
        FinishReason::Length,
    );
    check(
        r#""stop_type":"none","truncated":true"#,
        FinishReason::Length,
    );
    // Older builds.
    check(
        r#""stopped_eos":false,"stopped_word":false,"stopped_limit":true"#,
        FinishReason::Length,
    );
    check(
        r#""truncated":true,"stopped_eos":true,"stopped_limit":false"#,
        FinishReason::Stop,
    );

    let cut = events(Dialect::LlamaCompletion, &[&token(0, 1), &token(0, 2)]);
    assert_eq!((cut.usage, cut.terminated), (Some(usage(4, 2)), false));
    // The stream is whole when both choices are.
    let end = r#""stop_type":"limit""#;
    let both = [token(0, 1), token(1, 1), last(0, 1, end), last(1, 2, end)];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let figures = events(Dialect::LlamaCompletion, both.split_last().expect("four").1);
    assert!(!figures.terminated && !figures.one_choice);
    let figures = events(Dialect::LlamaCompletion, &both);
    assert!(figures.terminated);
    let all = figures.usage.expect("what both choices say");
    assert_eq!((all.prompt, all.completion), (None, Some(3)));

    // Progress with the prompt is no token.
    let progress =
        r#"{"index":0,"content":"","tokens":[],"stop":false,"prompt_progress":{"total":9}}"#;
    assert_eq!(
        events(Dialect::LlamaCompletion, &[progress]).token_events,
        0
    );
    let whole = whole_of(
        Dialect::LlamaCompletion,
        r#"{"index":0,"content":"hi","stop":true,"model":"m","tokens_predicted":2,"tokens_evaluated":4,"stop_type":"limit","timings":{"cache_n":3}}"#,
    );
    let cached = Usage {
        cached: Some(3),
        ..usage(4, 2)
    };
    assert_eq!((whole.usage, whole.terminated), (Some(cached), true));
    assert_eq!(whole.model.as_deref(), Some("m"));
    let error = stream(
        Dialect::LlamaCompletion,
        true,
        "error: {\"code\":500,\"message\":\"secret\",\"type\":\"server_error\"}\n\n",
    );
    assert_eq!(error.error.expect("an error").code.as_deref(), Some("500"));
}

#[test]
fn choices_past_the_most_are_not_counted_wrongly() {
    let body: String = (0..200)
        .map(|index| format!("data: {}\n\n", sglang(index, "a", 1, "length")))
        .collect();
    let figures = stream(Dialect::Generate, false, &body);
    assert_eq!((figures.token_events, figures.usage), (200, None));
}
