use super::*;
use proptest::prelude::*;

fn set<'a>(key: &'a str, json: &'a str) -> Edit<'a> {
    Edit::Set {
        key,
        json: json.as_bytes(),
    }
}

fn check(body: &str, edits: &[Edit<'_>], expected: &str) {
    let out = apply(body.as_bytes(), edits).unwrap_or_else(|fault| panic!("{fault} in {body}"));
    assert_eq!(String::from_utf8_lossy(&out), expected, "{body} {edits:?}");
    assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&out).is_ok());
}

#[test]
fn a_member_is_set_where_it_stands() {
    let model = set("model", r#""b""#);
    check(r#"{"model":"a"}"#, &[model], r#"{"model":"b"}"#);
    check(
        r#" { "x" : 1 , "model" : {"a":[1]} , "y":2 } "#,
        &[model],
        r#" { "x" : 1 , "model" : "b" , "y":2 } "#,
    );
    check(
        r#"{"x":{"model":"a"},"model":null}"#,
        &[model],
        r#"{"x":{"model":"a"},"model":"b"}"#,
    );
    check(r#"{"mod\u0065l":"a"}"#, &[model], r#"{"mod\u0065l":"b"}"#);
    check(
        r#"{"model":"a","x":1,"model":"c"}"#,
        &[model],
        r#"{"model":"b","x":1,"model":"b"}"#,
    );
    check(
        r#"{"model":"a","t":0.7}"#,
        &[set("t", "0"), model],
        r#"{"model":"b","t":0}"#,
    );
}

#[test]
fn an_absent_member_is_added_at_the_end() {
    let seed = set("seed", "1");
    check("{}", &[seed], r#"{"seed":1}"#);
    check("{ \n}", &[seed], "{ \n\"seed\":1}");
    check(r#"{ "a":1 }"#, &[seed], r#"{ "a":1 ,"seed":1}"#);
    check(
        r#"{"a":"seed"}  "#,
        &[seed, set("t", "0")],
        r#"{"a":"seed","seed":1,"t":0}  "#,
    );
    check("{}", &[set("a\"é\n", "1")], "{\"a\\\"é\\n\":1}");
}

#[test]
fn of_two_edits_of_one_key_the_later_counts() {
    let twice = [set("a", "1"), set("b", "2"), set("a", "3")];
    check("{}", &twice, r#"{"b":2,"a":3}"#);
    check(r#"{"a":0}"#, &twice, r#"{"a":3,"b":2}"#);
}

#[test]
fn everything_else_stays_as_it_was() {
    check(
        "{\"id\":12345678901234567890123,\"f\":1.50e+05,\"s\":\"\\u0041\\/é\",\t\"model\":\"a\",\"id\":-0,\"d\":[ { } ]}",
        &[set("model", "1")],
        "{\"id\":12345678901234567890123,\"f\":1.50e+05,\"s\":\"\\u0041\\/é\",\t\"model\":1,\"id\":-0,\"d\":[ { } ]}",
    );
    check(r#" {"a":1} "#, &[], r#" {"a":1} "#);
}

#[test]
fn usage_is_asked_for_whatever_the_options_were() {
    let usage = [Edit::IncludeUsage];
    check("{}", &usage, r#"{"stream_options":{"include_usage":true}}"#);
    check(
        r#"{"a":1}"#,
        &usage,
        r#"{"a":1,"stream_options":{"include_usage":true}}"#,
    );
    check(
        r#"{"a":1}"#,
        &[Edit::IncludeUsage, Edit::IncludeUsage],
        r#"{"a":1,"stream_options":{"include_usage":true}}"#,
    );
    check(
        r#"{"stream_options":null}"#,
        &usage,
        r#"{"stream_options":{"include_usage":true}}"#,
    );
    check(
        r#"{"stream_options":{ }}"#,
        &usage,
        r#"{"stream_options":{ "include_usage":true}}"#,
    );
    check(
        r#"{"stream_options":{"x":[1]},"b":2}"#,
        &usage,
        r#"{"stream_options":{"x":[1],"include_usage":true},"b":2}"#,
    );
    check(
        r#"{"stream_options":{"include_usage":false,"x":1}}"#,
        &usage,
        r#"{"stream_options":{"include_usage":true,"x":1}}"#,
    );
    check(
        r#"{"stream_options":{"include_us\u0061ge":null}}"#,
        &usage,
        r#"{"stream_options":{"include_us\u0061ge":true}}"#,
    );
    check(
        r#"{"stream_options":{"include_usage":true}}"#,
        &usage,
        r#"{"stream_options":{"include_usage":true}}"#,
    );
    check(
        r#"{"stream_options":null,"stream_options":{}}"#,
        &usage,
        r#"{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}"#,
    );
    check(
        r#"{"stream_options":{"x":{"include_usage":false}}}"#,
        &usage,
        r#"{"stream_options":{"x":{"include_usage":false},"include_usage":true}}"#,
    );
    check(
        r#"{"stream_options":"yes"}"#,
        &usage,
        r#"{"stream_options":"yes"}"#,
    );
    check(
        r#"{"stream_options":[]}"#,
        &usage,
        r#"{"stream_options":[]}"#,
    );
    check(
        r#"{"model":"a"}"#,
        &[Edit::IncludeUsage, set("model", "1")],
        r#"{"model":1,"stream_options":{"include_usage":true}}"#,
    );
    let word = set("stream_options", "{}");
    check(
        r#"{"stream_options":{"x":1}}"#,
        &[Edit::IncludeUsage, word],
        r#"{"stream_options":{}}"#,
    );
    check(
        "{}",
        &[word, Edit::IncludeUsage],
        r#"{"stream_options":{}}"#,
    );
}

#[test]
fn usage_is_wanted_of_a_stream_that_did_not_ask() {
    let check = |json: &str, wanted: bool| {
        let body = crate::facts::scan(json.as_bytes(), &[]).expect("an object");
        assert_eq!(wants_usage(&body), wanted, "{json}");
    };
    check(r#"{"stream":true}"#, true);
    check(r#"{"stream":true,"stream_options":null}"#, true);
    check(
        r#"{"stream":true,"stream_options":{"x":1,"include_usage":false}}"#,
        true,
    );
    check(
        r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        false,
    );
    check(
        r#"{"stream":true,"stream_options":{"continuous_usage_stats":true}}"#,
        false,
    );
    check(r#"{"stream":true,"stream_options":"yes"}"#, false);
    check(
        r#"{"stream":true,"stream_options":{},"stream_options":7}"#,
        false,
    );
    check(
        r#"{"stream":true,"stream_options":7,"stream_options":{}}"#,
        true,
    );
    check(r#"{"stream":false}"#, false);
    check("{}", false);
}

#[test]
fn what_is_no_object_is_a_fault() {
    for body in [
        "",
        " ",
        "[]",
        "1",
        "null",
        "{",
        "{}{}",
        "{\"a\":1}x",
        "{\"a\"}",
    ] {
        assert!(
            apply(body.as_bytes(), &[set("a", "1")]).is_err(),
            "{body:?}"
        );
    }
    assert!(apply("[".repeat(100_000).as_bytes(), &[]).is_err());
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(apply(deep.as_bytes(), &[]).is_err());
}

#[test]
fn spans_of_another_body_do_no_harm() {
    let spans = crate::facts::scan(br#"{"model":"a long enough one"}"#, &[])
        .expect("an object")
        .spans;
    let out = splice(b"{}", &spans, &[set("model", "1")]);
    assert!(out.len() <= r#"{},"model":1"#.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_edit_reads_back_and_the_rest_is_unchanged(
        members in prop::collection::vec(("[a-e]{1,2}", "(\"[a-z\u{e9}]{0,4}\"|-?(0|[1-9][0-9]{0,30})|\\[1, 2\\]|\\{ \"a\":null\\}|true)"), 0..8),
        space in "[ \n\t]{0,2}",
        key in "[a-e]{1,2}",
    ) {
        let text: Vec<_> = members.iter().map(|(key, value)| format!("{space}\"{key}\":{space}{value}{space}")).collect();
        let body = format!("{{{}}}", text.join(","));
        let out = apply(body.as_bytes(), &[set(&key, "[\"new\"]")]).expect("an object");
        let spans = Spans::of(&out).expect("an object");
        let read: Vec<(String, String)> = spans.members().iter().map(|member| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
            (text(member.key(&out).raw()), text(member.value(&out)))
        }).collect();
        let mut expected: Vec<(String, String)> = members.iter().map(|(name, value)| {
            (name.clone(), if *name == key { "[\"new\"]".to_owned() } else { value.clone() })
        }).collect();
        if !members.iter().any(|(name, _)| *name == key) {
            expected.push((key, "[\"new\"]".to_owned()));
        }
        prop_assert_eq!(read, expected);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
        fuzz_edit(body.as_bytes());
    }
}

#[test]
fn the_fuzz_body_holds_on_recorded_requests_and_their_ruins() {
    for capture in crate::capture::all() {
        let mut bytes = capture.request;
        fuzz_edit(&bytes);
        for spot in (0..bytes.len()).step_by(29) {
            bytes[spot] = bytes[spot].wrapping_add(5);
            fuzz_edit(&bytes);
        }
    }
}
