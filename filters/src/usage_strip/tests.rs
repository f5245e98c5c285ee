use super::*;
use crate::capture;
use proptest::prelude::*;

const LIMIT: usize = 1 << 16;

fn strip(pieces: impl Iterator<Item = impl AsRef<[u8]>>, limit: usize) -> (Vec<u8>, u64, bool) {
    let mut strip = Strip::new(limit);
    let mut out = Vec::new();
    for piece in pieces {
        strip.feed(piece.as_ref(), &mut out);
        assert!(strip.held.len() <= limit);
    }
    let (removed, gave_up) = (strip.removed(), strip.gave_up());
    strip.finish(&mut out);
    (out, removed, gave_up)
}

/// The stream, which must come out the same by every step.
fn check(stream: &str, expected: &str) {
    for step in 1..=stream.len() {
        let (out, ..) = strip(stream.as_bytes().chunks(step), LIMIT);
        assert_eq!(
            String::from_utf8_lossy(&out),
            expected,
            "{stream:?} by {step}"
        );
    }
}

const ADDED: &str =
    r#"data: {"id":"c","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}"#;
const TOKEN: &str = r#"data: {"choices":[{"index":0,"delta":{"content":"\"usage\""}}]}"#;

#[test]
fn the_added_event_is_taken_out_and_nothing_else() {
    check(
        &format!("{TOKEN}\n\n{ADDED}\n\ndata: [DONE]\n\n"),
        &format!("{TOKEN}\n\ndata: [DONE]\n\n"),
    );
    check(
        &format!("{TOKEN}\r\n\r\n{ADDED}\r\n\r\ndata: [DONE]\r\n\r\n"),
        &format!("{TOKEN}\r\n\r\ndata: [DONE]\r\n\r\n"),
    );
    check(
        &format!("{TOKEN}\r\r{ADDED}\r\rdata: [DONE]\r\r"),
        &format!("{TOKEN}\r\rdata: [DONE]\r\r"),
    );
    check(&format!("{TOKEN}\n\n{ADDED}"), &format!("{TOKEN}\n\n"));
    check(&format!("{TOKEN}\n\n{ADDED}\n"), &format!("{TOKEN}\n\n"));
    check(
        &format!("event: x\nid: 1\n{ADDED}\n\n{TOKEN}\n\n"),
        &format!("{TOKEN}\n\n"),
    );
    check(
        &format!(": a\n\n: b\n{ADDED}\n\n: c\n\n"),
        ": a\n\n: b\n: c\n\n",
    );
    check(
        "data: {\"choices\":[],\ndata: \"usage\":{}}\n\ndata: [DONE]\n\n",
        "data: [DONE]\n\n",
    );
}

#[test]
fn what_only_resembles_the_added_event_goes_on() {
    for event in [
        r#"data: {"choices":[],"usage":null}"#,
        r#"data: {"choices":[]}"#,
        r#"data: {"usage":{"prompt_tokens":1}}"#,
        r#"data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}"#,
        r#"data: {"choices":[],"x":{"usage":{}}}"#,
        r#"data: {"choices":[],"x":"\"usage\":{}"}"#,
        r#"data: {"choices":null,"usage":{}}"#,
        r#"data: {"choices":[],"prompt_filter_results":[{"usage":{}}]}"#,
        r#"data: {"choices":[],"usage":{}"#,
        r#": {"choices":[],"usage":{}}"#,
        r#"data: {"error":{"code":500}}"#,
        "data: [DONE]",
        "x: y",
    ] {
        for end in ["\n\n", "\r\n\r\n", "\r\r", "\n", "\r", "\r\n", ""] {
            let stream = format!("{TOKEN}\n\n{event}{end}");
            check(&stream, &stream);
        }
    }
    check("\n\n\r\n\r\r\n", "\n\n\r\n\r\r\n");
}

#[test]
fn only_an_open_event_is_held() {
    let mut strip = Strip::new(LIMIT);
    let mut step = |piece: &str, passes: &str| {
        let mut out = Vec::new();
        strip.feed(piece.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), passes, "after {piece:?}");
    };
    step(": keep", ": keep");
    step("-alive\n", "-alive\n");
    step("\n", "\n");
    step("data: x\n\n", "data: x\n\n");
    step("data: y\n\r", "data: y\n\r");
    step("\n:\r", "\n:\r");
    step("\nd", "\n");
    step("ata: z\n", "");
    step(": a comment inside\n", "");
    step("\n: after", "data: z\n: a comment inside\n\n: after");
}

#[test]
fn an_event_past_the_limit_ends_the_stripping() {
    let long = format!("data: {}", "a".repeat(100));
    let stream = format!("{TOKEN}\n\n{long}\n\n{ADDED}\n\n");
    for step in 1..=stream.len() {
        let (out, removed, gave_up) = strip(stream.as_bytes().chunks(step), 90);
        assert_eq!(String::from_utf8_lossy(&out), stream, "by {step}");
        assert_eq!((removed, gave_up), (0, true));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_recorded_stream_comes_out_as_if_usage_had_not_been_asked_for(
        place in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        crlf: bool,
    ) {
        for capture in capture::all().iter().filter(|capture| capture.sse) {
            let asked: serde_json::Value = serde_json::from_slice(&capture.request).expect("JSON");
            if asked["stream_options"]["include_usage"] == true {
                continue;
            }
            let text = String::from_utf8(capture.body()).expect("servers send UTF-8");
            let mut events: Vec<&str> = text.split_inclusive("\n\n").collect();
            let original = events.concat();
            let added = format!("{ADDED}\n\n");
            events.insert(place.index(events.len() + 1), &added);
            let mut asked = events.concat();
            let mut expected = original;
            if crlf {
                asked = asked.replace('\n', "\r\n");
                expected = expected.replace('\n', "\r\n");
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(asked.len())).collect();
            cuts.sort_unstable();
            cuts.push(asked.len());
            let mut done = 0;
            let pieces = cuts.into_iter().map(|cut| {
                let piece = asked.as_bytes()[done..cut].to_vec();
                done = cut;
                piece
            });
            let (out, removed, gave_up) = strip(pieces, LIMIT);
            prop_assert_eq!(String::from_utf8_lossy(&out), expected, "{}", capture.name);
            prop_assert_eq!((removed, gave_up), (1, false));
        }
    }

    #[test]
    fn the_cutting_makes_no_difference(
        parts in prop::collection::vec(
            prop_oneof![Just(ADDED), Just(TOKEN), Just("\n"), Just("\n\n"), Just("\r\n\r\n"), Just("\r"), Just(": c"), Just("data: é")],
            0..12,
        ),
        step in 1usize..40,
        limit in 20usize..200,
    ) {
        let stream = parts.concat();
        let whole = strip(std::iter::once(stream.as_bytes()), limit);
        prop_assert_eq!(strip(stream.as_bytes().chunks(step), limit), whole);
    }
}

#[test]
fn an_error_is_the_callers_whatever_stands_beside_it() {
    let error = r#"data: {"choices":[],"usage":{"prompt_tokens":5},"error":{"code":500}}"#;
    check(
        &format!("{TOKEN}\n\n{error}\n\n"),
        &format!("{TOKEN}\n\n{error}\n\n"),
    );
    let bare = r#"data: {"object":"error","choices":[],"usage":{},"code":500}"#;
    check(&format!("{bare}\n\n"), &format!("{bare}\n\n"));
}

#[test]
fn a_stream_that_was_asked_for_usage_loses_one_event() {
    let mut seen = 0;
    for capture in capture::all().iter().filter(|capture| capture.sse) {
        let request: serde_json::Value = serde_json::from_slice(&capture.request).expect("JSON");
        let options = &request["stream_options"];
        if options["include_usage"] != true || options["continuous_usage_stats"] == true {
            continue;
        }
        seen += 1;
        let text = String::from_utf8(capture.body()).expect("servers send UTF-8");
        let (usage, rest): (Vec<&str>, Vec<&str>) = text
            .split_inclusive("\n\n")
            .partition(|event| event.contains("\"choices\":[],"));
        let (out, removed, _) = strip(capture.pieces.iter(), LIMIT);
        // llama.cpp's completions have their usage beside the last choice.
        let added = u64::from(capture.name != "llamacpp/completion-stream");
        assert_eq!(
            (usage.len() as u64, removed),
            (added, added),
            "{}",
            capture.name
        );
        assert_eq!(
            String::from_utf8_lossy(&out),
            rest.concat(),
            "{}",
            capture.name
        );
    }
    assert_eq!(seen, 10);
}

#[test]
fn usage_that_an_engine_tells_unasked_is_the_callers() {
    let forced =
        r#"data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":5}}"#;
    let stream = format!("{forced}\n\n{TOKEN}\n\n{ADDED}\n\ndata: [DONE]\n\n");
    check(&stream, &stream);
    let null = r#"data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}"#;
    check(
        &format!("{null}\n\n{ADDED}\n\ndata: [DONE]\n\n"),
        &format!("{null}\n\ndata: [DONE]\n\n"),
    );
}
