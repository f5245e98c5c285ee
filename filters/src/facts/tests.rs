use super::*;
use proptest::prelude::*;

fn read(json: &str, wanted: &[&str]) -> Body {
    let wanted: Vec<Box<str>> = wanted.iter().copied().map(Box::from).collect();
    scan(json.as_bytes(), &wanted).unwrap_or_else(|fault| panic!("{fault} in {json}"))
}

#[test]
fn the_facts_of_a_chat_request_are_read() {
    let body = read(
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"n":2,"user":"u",
            "stream_options":{"include_usage":true,"continuous_usage_stats":true},"temperature":0}"#,
        &["user", "session", "temperature"],
    );
    assert_eq!(body.model.as_deref(), Some("m"));
    assert_eq!(body.user.as_deref(), Some("u"));
    assert_eq!((body.stream, body.n), (true, Some(2)));
    assert_eq!((body.include_usage, body.continuous_usage), (true, true));
    assert_eq!(
        body.prompt_bytes,
        Some(r#"[{"role":"user","content":"hi"}]"#.len() as u64)
    );
    assert_eq!(
        body.keys,
        [Some(Box::from("u")), None, Some(Box::from("0"))]
    );
}

#[test]
fn what_is_absent_or_of_another_kind_is_no_fact() {
    let empty = Body {
        spans: read("{}", &[]).spans,
        ..Body::default()
    };
    assert_eq!(read("{}", &[]), empty);
    let odd = read(
        r#"{"model":null,"user":7,"stream":"true","n":null,"stream_options":[true],"x":{"model":"m","stream":true}}"#,
        &[],
    );
    assert_eq!(
        (odd.model, odd.user, odd.stream, odd.n),
        (None, None, false, None)
    );
    assert_eq!(
        (odd.include_usage, odd.continuous_usage, odd.prompt_bytes),
        (false, false, None)
    );
    assert_eq!(read(r#"{"n":1.0}"#, &[]).n, None);
    assert!(!read(r#"{"stream":1}"#, &[]).stream);
    for (said, asks) in [
        ("true", true),
        ("\"true\"", true),
        ("1", true),
        ("0", true),
        ("false", false),
        ("null", false),
    ] {
        let body = format!(r#"{{"stream_options":{{"include_usage":{said}}}}}"#);
        assert_eq!(read(&body, &[]).include_usage, asks, "{said}");
    }
    assert!(!read(r#"{"stream_options":{"x":{"include_usage":true}}}"#, &[]).include_usage);
}

#[test]
fn of_duplicate_keys_the_last_counts() {
    let body = read(
        r#"{"model":"a","model":"b","stream":true,"stream":false,"k":"x","k":null,"prompt":"long","prompt":"s",
            "stream_options":{"include_usage":true},"stream_options":{}}"#,
        &["k"],
    );
    assert_eq!(body.model.as_deref(), Some("b"));
    assert_eq!(
        (body.stream, body.include_usage, body.prompt_bytes),
        (false, false, Some(3))
    );
    assert_eq!(body.keys, [None]);
    assert_eq!(read(r#"{"model":"a","model":7}"#, &[]).model, None);
}

#[test]
fn keys_are_compared_as_read() {
    let body = read(
        r#"{"mod\u0065l":"a\u002fb","\u0073tream":true,"us\u0065r":"\ud83d\ude00"}"#,
        &["user"],
    );
    assert_eq!(body.model.as_deref(), Some("a/b"));
    assert!(body.stream);
    assert_eq!(body.keys, [Some(Box::from("😀"))]);
}

#[test]
fn a_wanted_key_is_text_a_number_or_a_boolean() {
    let check = |value: &str, expected: Option<&str>| {
        let body = read(&format!(r#"{{"k":{value}}}"#), &["k"]);
        assert_eq!(body.keys, [expected.map(Box::from)], "{value}");
    };
    check(r#""a b""#, Some("a b"));
    check(r#""""#, Some(""));
    check("12345678901234567890123", Some("12345678901234567890123"));
    check("1.50", Some("1.50"));
    check("false", Some("false"));
    check("null", None);
    check("[1]", None);
    check("{}", None);
    check(
        &format!("\"{}\"", "a".repeat(LONGEST)),
        Some(&"a".repeat(LONGEST)),
    );
    check(&format!("\"{}\"", "a".repeat(LONGEST + 1)), None);
    check(&"1".repeat(LONGEST + 1), None);
}

#[test]
fn the_prompt_is_measured_in_all_its_forms() {
    let check = |json: &str, bytes: Option<u64>| {
        assert_eq!(read(json, &[]).prompt_bytes, bytes, "{json}");
    };
    check(r#"{"prompt":"abc"}"#, Some(5));
    check(r#"{"prompt":["a","b"]}"#, Some(9));
    check(r#"{"input": "x" }"#, Some(3));
    check(r#"{"messages":[],"prompt":"a","input":[1]}"#, Some(8));
    check(r#"{"query":"q","documents":["d"]}"#, Some(8));
    check(r#"{"text_1":"a","text_2":["b"]}"#, Some(8));
    check(r#"{"text":"sglang"}"#, Some(8));
    check(
        r#"{"input":"x","text":{"format":{"type":"text"}}}"#,
        Some(3),
    );
    check(r#"{"prompt":"a","prompt":null}"#, None);
    check(r#"{"model":"m"}"#, None);
}

#[test]
fn what_is_no_object_has_no_facts_and_says_why() {
    let check = |json: &[u8], message: &str| {
        let fault = scan(json, &[]).expect_err(message);
        assert_eq!(fault.to_string(), message);
    };
    check(b"", "found no JSON, expected an object at byte 0");
    check(b" \n", "found no JSON, expected an object at byte 2");
    check(b"[1]", "found an array, expected an object at byte 0");
    check(b" \"a\"", "found a string, expected an object at byte 1");
    check(b"7", "found a number, expected an object at byte 0");
    check(b"null", "found null, expected an object at byte 0");
    check(b"hello", "found 0x68, expected a value at byte 0");
    check(b"{} x", "found more after the end of the value at byte 3");
    check(
        b"{\"a\":\"\xff\"}",
        "found bytes that are not UTF-8 at byte 6",
    );
    check(
        b"{\"a\":\"\xed\xa0\x80\"}",
        "found bytes that are not UTF-8 at byte 6",
    );
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    check(
        deep.as_bytes(),
        "found more than 1024 nested arrays and objects at byte 1030",
    );
}

#[test]
fn a_long_prompt_is_read_whole() {
    let prompt = "say \\\"hi\\\" \\u00e9 é\\n".repeat(100_000);
    let body = read(
        &format!(r#"{{"messages":[{{"content":"{prompt}"}}],"model":"m"}}"#),
        &[],
    );
    assert_eq!(body.model.as_deref(), Some("m"));
    assert_eq!(
        body.prompt_bytes,
        Some(prompt.len() as u64 + "[{\"content\":\"\"}]".len() as u64)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_fuzz_body_holds_on_small_objects(
        json in "\\{(\"(model|user|k|n|stream|mod\\\\u0065l)\":(\"[a-z\\\\é]{0,3}\"|-?[0-9]{1,3}|true|null|\\[\\]),?){0,5}\\}?"
    ) {
        fuzz_facts(json.as_bytes());
    }

    #[test]
    fn the_fuzz_body_holds_on_any_bytes(bytes: Vec<u8>) {
        fuzz_facts(&bytes);
    }
}

#[test]
fn the_fuzz_body_holds_on_recorded_requests_and_their_ruins() {
    for capture in crate::capture::all() {
        for mut bytes in [capture.request.clone(), capture.body()] {
            fuzz_facts(&bytes);
            for spot in (0..bytes.len()).step_by(41) {
                bytes[spot] = bytes[spot].wrapping_add(3);
                fuzz_facts(&bytes);
            }
        }
    }
}

#[test]
fn a_wish_for_json_is_known_in_every_dialect() {
    let check = |body: &str, wants: bool| {
        let facts = scan(body.as_bytes(), &[]).unwrap();
        assert_eq!(facts.wants_json, wants, "{body}");
    };
    check(r#"{"response_format":{"type":"json_object"}}"#, true);
    check(
        r#"{"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}}"#,
        true,
    );
    check(r#"{"response_format":{"type":"text"}}"#, false);
    check(r#"{"response_format":{"type":"structural_tag"}}"#, false);
    check(r#"{"response_format":null}"#, false);
    // Audio, where it is a container's name.
    check(r#"{"response_format":"json"}"#, false);
    check(
        r#"{"text":{"format":{"type":"json_schema","schema":{}}}}"#,
        true,
    );
    check(r#"{"text":{"format":{"type":"text"}}}"#, false);
    check(r#"{"text":"a \"json_object\" please"}"#, false);
    check(
        r#"{"output_config":{"format":{"type":"json_schema","schema":{}}}}"#,
        true,
    );
    check(r#"{"guided_json":{"type":"object"}}"#, true);
    check(r#"{"guided_json":null}"#, false);
    check(r#"{"structured_outputs":{"json":{"type":"object"}}}"#, true);
    check(r#"{"structured_outputs":{"json_object":true}}"#, true);
    check(r#"{"structured_outputs":{"json_object":false}}"#, false);
    check(r#"{"structured_outputs":{"regex":"a"}}"#, false);
    check(r#"{"sampling_params":{"json_schema":"{}"}}"#, true);
    check(
        r#"{"sampling_params":{"json_schema":null,"regex":"a"}}"#,
        false,
    );
    check(r#"{"json_schema":{"type":"object"}}"#, true);
    check(
        r#"{"parameters":{"grammar":{"type":"json","value":{}}}}"#,
        true,
    );
    check(
        r#"{"parameters":{"grammar":{"type":"regex","value":"a"}}}"#,
        false,
    );
    check(
        r#"{"messages":[{"response_format":{"type":"json_object"}}]}"#,
        false,
    );
    check("{}", false);
}

#[test]
fn tools_are_there_if_there_is_one() {
    let check = |body: &str, has: bool| {
        assert_eq!(scan(body.as_bytes(), &[]).unwrap().has_tools, has, "{body}");
    };
    check(r#"{"tools":[{"type":"function"}]}"#, true);
    check(r#"{"tools":[]}"#, false);
    check("{\"tools\":[ \n ]}", false);
    check(r#"{"tools":null}"#, false);
    check(r#"{}"#, false);
}

#[test]
fn an_answer_repeats_only_an_assistants_message() {
    let check = |body: &str, echoes: bool| {
        assert_eq!(scan(body.as_bytes(), &[]).unwrap().echoes, echoes, "{body}");
    };
    let messages = |last: &str| {
        format!(r#"{{"messages":[{{"role":"user","content":"a"}},{last}],"echo":true}}"#)
    };
    check(&messages(r#"{"role":"assistant","content":"b"}"#), true);
    check(&messages(r#"{"content":"b","role":"assistant"}"#), true);
    check(&messages(r#"{"role":"assistant","content":""}"#), false);
    check(&messages(r#"{"role":"assistant","content":null}"#), false);
    check(&messages(r#"{"role":"user","content":"b"}"#), false);
    check(&messages("7"), false);
    check(r#"{"echo":true,"messages":[]}"#, false);
    check(r#"{"echo":true,"prompt":"a"}"#, false);
    check(r#"{"echo":true,"messages":7}"#, false);
    check(
        r#"{"echo":false,"messages":[{"role":"assistant","content":"b"}]}"#,
        false,
    );
    check(
        r#"{"messages":[{"role":"assistant","content":"b"}]}"#,
        false,
    );
}
