//! Whether what is said is JSON.

use super::*;
use crate::capture;
use crate::route::Route;

const BOTH: Wanted = Wanted {
    json: true,
    tools: true,
};

/// The two verdicts on a stream, which must not depend on its cutting.
fn judged(dialect: Dialect, wanted: Wanted, body: &str) -> (Option<bool>, Option<bool>) {
    let run = |step: usize| {
        let mut meter = Meter::stream(dialect, true, LIMIT).with_checks(wanted);
        for piece in body.as_bytes().chunks(step) {
            meter.feed(ms(7), piece);
        }
        let figures = meter.finish();
        (figures.json_ok, figures.tool_arguments_ok)
    };
    let whole = run(body.len().max(1));
    for step in [1, 2, 3, 5, 64] {
        assert_eq!(run(step), whole, "{body:?} by {step}");
    }
    whole
}

fn judged_whole(dialect: Dialect, body: &str) -> (Option<bool>, Option<bool>) {
    let mut meter = Meter::whole(dialect, true, LIMIT).with_checks(BOTH);
    meter.feed(ms(1), body.as_bytes());
    let figures = meter.finish();
    (figures.json_ok, figures.tool_arguments_ok)
}

fn events(events: &[&str]) -> String {
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect()
}

/// The pieces as the content of one choice.
fn said(pieces: &[&str]) -> String {
    pieces
        .iter()
        .map(|piece| delta(&format!(r#"{{"content":"{piece}"}}"#)))
        .collect()
}

const DONE: &str = "data: [DONE]\n\n";

#[test]
fn the_text_of_a_choice_is_judged_over_all_its_pieces() {
    let check = |pieces: &[&str], end: &str, expected: Option<bool>| {
        let body = format!("{}{end}", said(pieces));
        let (json, tools) = judged(Dialect::Chat, BOTH, &body);
        assert_eq!((json, tools), (expected, None), "{pieces:?} {end:?}");
    };
    check(&[r#"{\"a"#, r#"\":1"#, "}"], DONE, Some(true));
    check(
        &[r#"{\"a\":\"\\u00e"#, r#"9\u00e9\ud83d"#, r#"\"}"#],
        DONE,
        Some(true),
    );
    check(&["{\\n", "\\t}\\n"], DONE, Some(true));
    check(&["", "[]"], DONE, Some(true));
    check(&["```json\\n", "{}", "\\n```"], DONE, Some(false));
    check(&["{}", " {}"], DONE, Some(false));
    // Cut by a limit of the caller's: the answer is over, and no JSON.
    check(&["{\\\"a\\\":"], DONE, Some(false));
    // Cut by something else, or failed: nothing is known, but of what was wrong before.
    check(&["{\\\"a\\\":"], "", None);
    check(&["{}"], "", Some(true));
    check(&["Sure"], "", Some(false));
    check(
        &["{"],
        "data: {\"error\":{\"code\":500}}\n\ndata: [DONE]\n\n",
        None,
    );
    check(&[], DONE, Some(false));
    check(&[], "", None);
    check(&[""], DONE, Some(false));
    check(&[&"[".repeat(200)], DONE, None);
}

#[test]
fn nothing_is_judged_that_was_not_asked() {
    let body = format!("{}{DONE}", said(&["Sure"]));
    assert_eq!(
        judged(Dialect::Chat, Wanted::default(), &body),
        (None, None)
    );
    let tools = Wanted {
        json: false,
        tools: true,
    };
    assert_eq!(judged(Dialect::Chat, tools, &body), (None, None));
    let call = delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"x"}}]}"#);
    let json = Wanted {
        json: true,
        tools: false,
    };
    let (_, tools) = judged(Dialect::Chat, json, &format!("{call}{DONE}"));
    assert_eq!(tools, None);
    assert_eq!(chat(&body).json_ok, None);
}

#[test]
fn every_choice_must_be_json() {
    let choice = |index: u32, content: &str| {
        // The index may stand behind what it belongs to.
        format!(r#"{{"choices":[{{"delta":{{"content":"{content}"}},"index":{index}}}]}}"#)
    };
    let check = |choices: &[(u32, &str)], expected: Option<bool>| {
        let parts: Vec<String> = choices
            .iter()
            .map(|(index, text)| choice(*index, text))
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let body = format!("{}{DONE}", events(&parts));
        assert_eq!(
            judged(Dialect::Chat, BOTH, &body).0,
            expected,
            "{choices:?}"
        );
    };
    check(&[(0, "{"), (1, "["), (0, "}"), (1, "]")], Some(true));
    check(&[(0, "{"), (1, "["), (0, "}"), (1, "}")], Some(false));
    let many: Vec<(u32, &str)> = (0..9).map(|index| (index, "1")).collect();
    check(&many, None);
    let many: Vec<(u32, &str)> = (0..9).map(|index| (index, "x")).collect();
    check(&many, Some(false));
}

#[test]
fn the_arguments_of_every_call_must_be_an_object() {
    let call = |index: u32, id: &str, arguments: &str| {
        delta(&format!(
            r#"{{"tool_calls":[{{"index":{index},"id":{id},"function":{{"name":"f","arguments":"{arguments}"}}}}]}}"#
        ))
    };
    let check = |calls: &[(u32, &str, &str)], end: &str, expected: Option<bool>| {
        let body: String = calls
            .iter()
            .map(|(index, id, text)| call(*index, id, text))
            .collect();
        let (json, tools) = judged(Dialect::Chat, BOTH, &format!("{body}{end}"));
        assert_eq!(tools, expected, "{calls:?}");
        // A call stands in place of a text.
        assert_eq!(json, None, "{calls:?}");
    };
    check(
        &[
            (0, "\"a\"", ""),
            (0, "null", "{\\\"x\\\":"),
            (0, "null", "1}"),
        ],
        DONE,
        Some(true),
    );
    check(
        &[
            (0, "\"a\"", "{"),
            (1, "\"b\"", "{"),
            (0, "null", "}"),
            (1, "null", "}"),
        ],
        DONE,
        Some(true),
    );
    check(&[(0, "\"a\"", "{}"), (1, "\"b\"", "{]")], DONE, Some(false));
    check(&[(0, "\"a\"", "[]")], DONE, Some(false));
    check(&[(0, "\"a\"", "{\\\"x\\\":")], DONE, Some(false));
    check(&[(0, "\"a\"", "{\\\"x\\\":")], "", None);
    // No arguments at all.
    check(&[(0, "\"a\"", "")], DONE, None);
    // Several calls with one index, told apart by their ids; and an id that is repeated with each piece.
    check(&[(0, "\"a\"", "{}"), (0, "\"b\"", "{}")], DONE, Some(true));
    check(&[(0, "\"a\"", "{]"), (0, "\"b\"", "{}")], DONE, Some(false));
    check(&[(0, "\"a\"", "{"), (0, "\"a\"", "}")], DONE, Some(true));
    let many: Vec<(u32, &str, &str)> = (0..17).map(|index| (index, "null", "{}")).collect();
    check(&many, DONE, None);
    let old = delta(r#"{"function_call":{"name":"f","arguments":"{}"}}"#);
    assert_eq!(
        judged(Dialect::Chat, BOTH, &format!("{old}{DONE}")).1,
        Some(true)
    );
}

#[test]
fn each_dialect_says_its_text_and_calls_in_its_own_way() {
    let check = |dialect: Dialect, parts: &[&str], expected: (Option<bool>, Option<bool>)| {
        assert_eq!(judged(dialect, BOTH, &events(parts)), expected, "{parts:?}");
    };
    check(
        Dialect::Completions,
        &[
            r#"{"choices":[{"index":0,"text":"[1"}]}"#,
            r#"{"choices":[{"index":0,"text":"]"}]}"#,
            "[DONE]",
        ],
        (Some(true), None),
    );
    let completed = r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"{}"}]}]}}"#;
    check(
        Dialect::Responses,
        &[
            r#"{"type":"response.output_text.delta","output_index":1,"delta":"{"}"#,
            r#"{"type":"response.reasoning_text.delta","output_index":0,"delta":"hm"}"#,
            r#"{"type":"response.output_text.delta","output_index":1,"delta":"}"}"#,
            r#"{"type":"response.output_text.done","output_index":1,"text":"{}"}"#,
            r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call"}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{]"}"#,
            completed,
        ],
        (Some(true), Some(false)),
    );
    // Without an index, as llama.cpp has it: two calls, each an item.
    let added = r#"{"type":"response.output_item.added","item":{"type":"function_call"}}"#;
    let arguments = r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#;
    check(
        Dialect::Responses,
        &[added, arguments, added, arguments, completed],
        (None, Some(true)),
    );
    check(
        Dialect::Messages,
        &[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"[]"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        (Some(true), Some(true)),
    );
    // What is new cannot be told from what there is.
    check(
        Dialect::Generate,
        &[
            r#"{"text":"{","meta_info":{}}"#,
            r#"{"text":"{}","meta_info":{}}"#,
            "[DONE]",
        ],
        (None, None),
    );
    check(
        Dialect::GenerateStream,
        &[
            r#"{"token":{"text":"{","special":false},"generated_text":null}"#,
            r#"{"token":{"text":"}","special":false},"generated_text":null}"#,
            r#"{"token":{"text":"</s>","special":true},"generated_text":"{}"}"#,
        ],
        (Some(true), None),
    );
    check(
        Dialect::LlamaCompletion,
        &[
            r#"{"content":"{","stop":false}"#,
            r#"{"content":"}","stop":true}"#,
        ],
        (Some(true), None),
    );
}

#[test]
fn a_whole_answer_is_judged_too() {
    let check = |dialect: Dialect, body: &str, expected: (Option<bool>, Option<bool>)| {
        assert_eq!(judged_whole(dialect, body), expected, "{body}");
    };
    check(
        Dialect::Chat,
        r#"{"choices":[{"index":0,"message":{"content":"{}"}},{"index":1,"message":{"content":null,"tool_calls":[{"id":"a","function":{"arguments":"{}"}},{"id":"b","function":{"arguments":"{}"}}]}}]}"#,
        (Some(true), Some(true)),
    );
    check(
        Dialect::Chat,
        r#"{"choices":[{"message":{"content":"no"}}]}"#,
        (Some(false), None),
    );
    check(
        Dialect::Responses,
        r#"{"object":"response","status":"completed","output":[{"type":"reasoning","content":[]},{"type":"message","content":[{"type":"output_text","text":"[]"}]},{"type":"function_call","arguments":"[]"}]}"#,
        (Some(true), Some(false)),
    );
    check(
        Dialect::Messages,
        r#"{"type":"message","content":[{"type":"text","text":"{}"},{"type":"tool_use","input":{}}]}"#,
        (Some(true), Some(true)),
    );
    check(
        Dialect::Generate,
        r#"[{"text":"{}","meta_info":{}},{"text":"{","meta_info":{}}]"#,
        (Some(false), None),
    );
    check(
        Dialect::Generate,
        r#"{"generated_text":"{}"}"#,
        (Some(true), None),
    );
    check(
        Dialect::LlamaCompletion,
        r#"{"content":"{}","stop":true}"#,
        (Some(true), None),
    );
    check(Dialect::Chat, r#"{"error":{"code":400}}"#, (None, None));
    check(Dialect::Chat, "{", (None, None));
}

#[test]
fn what_cannot_be_judged_is_not_judged() {
    let silent = [
        (Dialect::Json, r#"{"answer":"no JSON"}"#),
        (
            Dialect::TritonGenerate,
            r#"{"model_name":"m","text_output":"no JSON"}"#,
        ),
        (
            Dialect::Embeddings,
            r#"{"object":"list","data":[{"embedding":[0.5]}]}"#,
        ),
        (
            Dialect::Rerank,
            r#"{"results":[{"index":0,"relevance_score":0.5}]}"#,
        ),
    ];
    for (dialect, body) in silent {
        assert_eq!(judged_whole(dialect, body), (None, None), "{body}");
    }
    // Reasoning is no answer.
    let body = r#"{"object":"response","status":"completed","output":[
        {"type":"reasoning","content":[{"type":"reasoning_text","text":"let me see"}]},
        {"type":"message","content":[{"text":"{}","type":"output_text"}]}]}"#;
    assert_eq!(judged_whole(Dialect::Responses, body), (Some(true), None));
    // Who asked for JSON alone is told nothing of calls.
    let json = Wanted {
        json: true,
        tools: false,
    };
    let body = r#"{"type":"message","content":[{"type":"tool_use","id":"t","name":"f","input":{}}],"stop_reason":"tool_use"}"#;
    let mut meter = Meter::whole(Dialect::Messages, true, LIMIT).with_checks(json);
    meter.feed(ms(1), body.as_bytes());
    assert_eq!(meter.finish().tool_arguments_ok, None);
}

#[test]
fn recorded_answers_are_judged_as_another_reader_judges_them() {
    // Those whose requests asked for JSON or offered tools; the other reader puts the pieces together and parses them.
    let expected = [
        ("llamacpp/chat-stream-json-schema", Some(true), None),
        ("llamacpp/chat-stream-tool-required", None, None),
        ("sglang/chat-tool-named", None, None),
        ("vllm/chat-stream-tool-named", None, Some(true)),
        ("vllm/chat-tool-named", None, Some(true)),
    ];
    let mut found = Vec::new();
    let captures = capture::all();
    for capture in &captures {
        let Ok(facts) = crate::facts::scan(&capture.request, &[]) else {
            continue;
        };
        let wanted = Wanted {
            json: facts.wants_json,
            tools: facts.has_tools,
        };
        if wanted == Wanted::default() {
            continue;
        }
        let dialect = Route::of(&capture.path).dialect().expect("a metered route");
        let meter = match capture.sse {
            true => Meter::stream(dialect, true, LIMIT),
            false => Meter::whole(dialect, true, LIMIT),
        };
        let mut meter = meter.with_checks(wanted);
        meter.feed(ms(1), &capture.body());
        let figures = meter.finish();
        found.push((&*capture.name, figures.json_ok, figures.tool_arguments_ok));
    }
    assert_eq!(found, expected);
}
