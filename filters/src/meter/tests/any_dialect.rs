//! What holds of every dialect.

use super::*;
use proptest::prelude::*;

#[test]
fn a_name_leads_back_to_its_dialect() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::named(dialect.name()), Some(*dialect));
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(dialect.name().bytes().all(plain), "{}", dialect.name());
    }
    assert_eq!(Dialect::named("Chat"), None);
    assert_eq!(Dialect::named(""), None);
}

#[test]
fn an_error_and_its_absence_are_known_in_every_dialect() {
    for dialect in Dialect::ALL {
        let check = |event: &str, failed: bool| {
            let figures = stream(*dialect, true, &format!("{event}\n\ndata: [DONE]\n\n"));
            assert_eq!(
                figures.error.is_some(),
                failed,
                "{} {event}",
                dialect.name()
            );
            assert!(figures.terminated, "{} {event}", dialect.name());
        };
        check(r#"data: {"error":{"message":"no","code":500}}"#, true);
        check(r#"data: {"error":"no"}"#, true);
        check(r#"error: {"code":500}"#, true);
        check(r#"data: {"error":""}"#, false);
        check(r#"data: {"error":null}"#, false);
        check(": {\"error\":1}", false);
    }
}

#[test]
fn the_first_token_event_is_counted_among_all_events() {
    let token = delta(r#"{"content":"a"}"#);
    let check = |body: String, nth: Option<u64>| {
        assert_eq!(chat(&body).first_token_event, nth, "{body}");
    };
    check(token.clone(), Some(1));
    check(format!(": comment\n\n{token}{token}"), Some(1));
    check(
        format!("{}{token}", delta(r#"{"role":"assistant"}"#)),
        Some(2),
    );
    check(format!("data: nonsense\n\ndata:\n\n{token}"), Some(3));
    check(token.trim_end().to_owned(), Some(1));
    check("data: [DONE]\n\n".to_owned(), None);
}

#[test]
fn an_engine_may_give_its_own_times() {
    let check = |metrics: &str, expected: Option<EngineTimes>| {
        let event = format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":5}},\"metrics\":{metrics}}}\n\n"
        );
        assert_eq!(chat(&event).engine_times, expected, "{metrics}");
        assert_eq!(chat(&event).bad_events, 0, "{metrics}");
    };
    let micros = |micros| Some(Duration::from_micros(micros));
    check(
        r#"{"time_to_first_token_ms":41.5,"queue_time_ms":0.25,"generation_time_ms":1000,"mean_itl_ms":9.75e0,"tokens_per_second":97.1,"speculative_decoding":{"mean_itl_ms":1}}"#,
        Some(EngineTimes {
            time_to_first_token: micros(41_500),
            queue: micros(250),
            generation: micros(1_000_000),
            mean_gap: micros(9_750),
        }),
    );
    check(
        r#"{"queue_time_ms":0,"mean_itl_ms":null,"generation_time_ms":-1,"time_to_first_token_ms":1e400}"#,
        Some(EngineTimes {
            queue: micros(0),
            ..EngineTimes::default()
        }),
    );
    check("null", None);
    check("{}", None);
    check("[1]", None);
    let body = r#"{"choices":[],"metrics":{"queue_time_ms":2}}"#;
    let times = whole_of(Dialect::Chat, body).engine_times;
    assert_eq!(times.expect("times").queue, micros(2_000));
}

/// Parts that make events of every dialect, and break them.
const PARTS: &[&str] = &[
    "data: ",
    "data:",
    "\n\n",
    "\r\n\r\n",
    "\n",
    "error: ",
    ": x\n",
    "[DONE]",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "7",
    "\"a\"",
    "\"\"",
    "\"type\":",
    "\"response.output_text.delta\"",
    "\"response.completed\"",
    "\"message_stop\"",
    "\"delta\":",
    "\"text\":",
    "\"usage\":{\"input_tokens\":5,\"output_tokens\":2}",
    "\"meta_info\":{\"completion_tokens\":3}",
    "\"index\":1",
    "\"stop\":true",
    "\"tokens_predicted\":2",
    "\"content\":\"hi\"",
    "\"content\":\"{\"",
    "\"tool_calls\":",
    "\"arguments\":\"{}\"",
    "\"partial_json\":\"}\"",
    "\"id\":\"a\"",
    "\"token\":{\"text\":\"a\"}",
    "\"generated_text\":\"a\"",
    "\"error\":",
    "\"choices\":",
    "\"metrics\":{\"queue_time_ms\":1}",
    "\"response\":{\"status\":\"failed\"}",
    "\"message\":{\"usage\":{\"input_tokens\":1}}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn the_fuzz_body_holds_on_parts_of_answers(
        kind: [u8; 3],
        parts in prop::collection::vec(prop::sample::select(PARTS), 0..24),
    ) {
        let mut bytes = kind.to_vec();
        bytes.extend_from_slice(parts.concat().as_bytes());
        fuzz_meter(&bytes);
    }

    #[test]
    fn the_fuzz_body_holds_on_any_bytes(bytes: Vec<u8>) {
        fuzz_meter(&bytes);
    }
}
