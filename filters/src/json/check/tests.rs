use super::*;
use proptest::prelude::*;

#[test]
fn a_text_is_json_or_is_not() {
    let check = |text: &str, verdict: Verdict| {
        for step in 1..=text.len().max(1) {
            let mut check = Check::default();
            for piece in text.as_bytes().chunks(step) {
                check.feed(piece);
            }
            assert_eq!(check.verdict(), verdict, "{text:?} by {step}");
        }
        fuzz_json_check(&[&[3], text.as_bytes()].concat());
    };
    for text in [
        "{}",
        "[]",
        " {\"a\" : [1, -0.5e+3, true, null, \"\\u00e9\\n\"], \"b\":{}}\n",
        "0",
        "-1",
        "12",
        "1e9",
        "\"é\"",
        "false",
        "[[],{}]",
        "[\"]\"]",
    ] {
        check(text, Verdict::Whole);
    }
    for text in [
        "{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1", "[1,", "-", "1.", "1e", "\"", "\"\\",
        "\"\\u00", "tru", "[{}",
    ] {
        check(text, Verdict::Unfinished);
    }
    for text in [
        "```json\n{}\n```",
        "{} {}",
        "{]",
        "[}",
        "{,}",
        "[1,]",
        "{\"a\":1,}",
        "{1:2}",
        "01",
        "+1",
        ".5",
        "1.e",
        "--1",
        "True",
        "nul!",
        "\"\u{1}\"",
        "\"\\x\"",
        "\"\\u00g\"",
        "{\"a\" 1}",
        "[1 2]",
        "]",
        "}",
        "{'a':1}",
        "Sure: {}",
        "NaN",
    ] {
        check(text, Verdict::Broken);
    }
    check("", Verdict::Empty);
    check(" \r\n\t", Verdict::Empty);
    check(&"[".repeat(128), Verdict::Unfinished);
    check(&"[".repeat(129), Verdict::TooDeep);
    check(
        &format!("{}{}", "[".repeat(127), "]".repeat(127)),
        Verdict::Whole,
    );
}

#[test]
fn the_outermost_value_is_known() {
    let check = |text: &str, object: bool| {
        let mut check = Check::default();
        check.feed(text.as_bytes());
        assert_eq!(check.is_object(), object, "{text}");
    };
    check(" {\"a\":[", true);
    check("[{}]", false);
    check("", false);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn the_verdict_is_that_of_a_parser(
        step: u8,
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\\", "\\\"", "\\u00e9", "1", "0", "-", ".", "e", "+", "true",
                "fals", "null", " ", "\n", "é", "\u{1}", "a",
            ]),
            0..12,
        ),
    ) {
        let mut bytes = vec![step];
        bytes.extend_from_slice(parts.concat().as_bytes());
        fuzz_json_check(&bytes);
    }

    #[test]
    fn any_value_is_whole_and_no_beginning_of_an_object_is(
        value in any_json(),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = serde_json::json!({ "x": value }).to_string();
        let mut check = Check::default();
        check.feed(text.as_bytes());
        prop_assert_eq!(check.verdict(), Verdict::Whole);
        let mut check = Check::default();
        check.feed(&text.as_bytes()[..cut.index(text.len() - 1) + 1]);
        prop_assert_eq!(check.verdict(), Verdict::Unfinished);
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}
