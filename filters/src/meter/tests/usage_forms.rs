//! The forms of usage.

use super::*;

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
