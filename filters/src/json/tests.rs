use super::*;
use proptest::prelude::*;

fn walk(json: &[u8]) -> Result<Kind, Fault> {
    let mut cursor = Cursor::new(json);
    let kind = cursor.skip()?;
    cursor.end()?;
    Ok(kind)
}

#[test]
fn a_valid_value_is_walked_over() {
    let check = |json: &str, kind: Kind| assert_eq!(walk(json.as_bytes()), Ok(kind), "{json}");
    check("{}", Kind::Object);
    check(
        " \t\r\n{ \"a\" : [ 1 , { } , [ ] , \"x\" ] , \"b\":null } \n",
        Kind::Object,
    );
    check("[[[],{}],{\"a\":{\"b\":[true,false]}}]", Kind::Array);
    check("\"\"", Kind::String);
    check(
        r#""\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00\ud800 é 😀""#,
        Kind::String,
    );
    check("\"\u{2028}\u{7f}\"", Kind::String);
    for number in [
        "0",
        "-0",
        "1",
        "-12",
        "1.5",
        "0.0",
        "1e5",
        "1E+5",
        "1e-05",
        "123456789012345678901234567890",
    ] {
        check(number, Kind::Number);
    }
    check("true", Kind::Bool);
    check("false", Kind::Bool);
    check("null", Kind::Null);
    check("{\"a\":1,\"a\":2}", Kind::Object);
}

#[test]
fn a_fault_names_what_was_found_what_is_allowed_and_where() {
    let check = |json: &str, message: &str| {
        let fault = walk(json.as_bytes()).expect_err(json);
        assert_eq!(fault.to_string(), message, "{json}");
    };
    check("", "found the end of the text, expected a value at byte 0");
    check(
        "{",
        "found the end of the text, expected a string at byte 1",
    );
    check(
        "{\"a\"",
        "found the end of the text, expected a colon at byte 4",
    );
    check(
        "{\"a\":",
        "found the end of the text, expected a value at byte 5",
    );
    check(
        "{\"a\":1",
        "found the end of the text, expected a comma or a closing brace at byte 6",
    );
    check(
        "{\"a\":1 \"b\":2}",
        "found 0x22, expected a comma or a closing brace at byte 7",
    );
    check("{\"a\":1,}", "found 0x7d, expected a string at byte 7");
    check("{a:1}", "found 0x61, expected a string at byte 1");
    check("{\"a\" 1}", "found 0x31, expected a colon at byte 5");
    check("[1,]", "found 0x5d, expected a value at byte 3");
    check(
        "[1 2]",
        "found 0x32, expected a comma or a closing bracket at byte 3",
    );
    check(
        "[1}",
        "found 0x7d, expected a comma or a closing bracket at byte 2",
    );
    check("'a'", "found 0x27, expected a value at byte 0");
    check("{}x", "found more after the end of the value at byte 2");
    check("{} {}", "found more after the end of the value at byte 3");
    check("\u{feff}{}", "found 0xef, expected a value at byte 0");
    check(
        "\"a",
        "found the end of the text, expected a closing quote at byte 2",
    );
    check(
        "\"a\nb\"",
        "found the bare control character 0x0a in a string, where it must be escaped at byte 2",
    );
    check(
        "\"\\",
        "found the end of the text, expected an escape at byte 1",
    );
    check(
        "\"\\u12",
        "found the end of the text, expected four hex digits at byte 1",
    );
    let escape = "found an unknown escape, allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hex digits at byte 1";
    check(r#""\x41""#, escape);
    check(r#""\u12g4""#, escape);
    check("01", "found more after the end of the value at byte 1");
    check("-", "found the end of the text, expected a digit at byte 1");
    check("-a", "found a malformed number at byte 1");
    check(
        "1.",
        "found the end of the text, expected a digit at byte 2",
    );
    check("[1.]", "found a malformed number at byte 3");
    check("[1e]", "found a malformed number at byte 3");
    check("+1", "found 0x2b, expected a value at byte 0");
    check(".5", "found 0x2e, expected a value at byte 0");
    check("NaN", "found 0x4e, expected a value at byte 0");
    check(
        "nul",
        "found the end of the text, expected null, true or false at byte 3",
    );
    check("nulL", "found 0x6e, expected null, true or false at byte 0");
    check(
        "truefalse",
        "found more after the end of the value at byte 4",
    );
}

#[test]
fn depth_costs_no_stack_and_has_a_bound() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(walk(nested(DEEPEST).as_bytes()), Ok(Kind::Array));
    let deep = walk(nested(100_000).as_bytes()).expect_err("too deep");
    assert_eq!((deep.what, deep.at), (Flaw::Deep, DEEPEST + 1));
    let objects = "{\"a\":".repeat(100_000);
    assert_eq!(
        walk(objects.as_bytes()).map_err(|fault| fault.what),
        Err(Flaw::Deep)
    );
}

#[test]
fn every_kind_of_container_is_closed_by_its_own_bracket() {
    for (json, valid) in [
        ("[{\"a\":[{}]}]", true),
        ("[{\"a\":[{]}]}", false),
        ("{\"a\":[1}]", false),
        ("{\"a\":{\"b\":[]}}", true),
        ("[[{\"a\":1}],[2]]", true),
        ("[[{\"a\":1],[2]}]", false),
    ] {
        assert_eq!(walk(json.as_bytes()).is_ok(), valid, "{json}");
    }
}

#[test]
fn a_stop_is_found_at_every_place_of_a_string() {
    for length in 0..80 {
        for stop in [b'"', b'\\', 0, 0x1f] {
            let mut bytes = vec![b'a'; 120];
            bytes[length] = stop;
            assert_eq!(text::plain(&bytes), length, "{stop:#x} at {length}");
            // What follows a stop, and what looks like one, makes no difference.
            bytes[length + 1..].fill(b'"');
            assert_eq!(text::plain(&bytes), length);
            bytes[..length].fill(0xff);
            assert_eq!(text::plain(&bytes), length);
            bytes[..length].fill(b'!');
            assert_eq!(text::plain(&bytes), length);
        }
        assert_eq!(text::plain(&vec![b'#'; length]), length);
    }
    for length in [4096, 5000, 8192 + 40] {
        let mut bytes = vec![b' '; 10_000];
        bytes[length] = 1;
        assert_eq!(text::plain(&bytes), length);
        bytes[length] = b'"';
        assert_eq!(text::plain(&bytes), length);
    }
}

#[test]
fn a_count_is_a_whole_number_that_fits() {
    let check = |json: &str, count: Option<u64>| {
        assert_eq!(Cursor::new(json.as_bytes()).count(), Ok(count), "{json}");
    };
    check("0", Some(0));
    check("18446744073709551615", Some(u64::MAX));
    check("18446744073709551616", None);
    check("-1", None);
    check("1.0", None);
    check("1e2", None);
    check("\"1\"", None);
    check("null", None);
    check("[1]", None);
}

#[test]
fn a_text_is_compared_and_read_by_its_escapes() {
    let check = |json: &str, text: &str| {
        let found = Cursor::new(json.as_bytes()).string().expect("a string");
        assert!(found.is(text), "{json}");
        assert!(!found.is("other"));
        assert_eq!(found.to_text(100).as_deref(), Some(text), "{json}");
    };
    check(r#""model""#, "model");
    check(r#""mod\u0065l""#, "model");
    check(r#""\u006d\u006F\u0064\u0065\u006c""#, "model");
    check(r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t");
    check(r#""\ud83d\ude00\u00e9é""#, "😀éé");
    check(r#""a\ud83dx\ude00""#, "a\u{fffd}x\u{fffd}");
    check(r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀");
    check(r#""\ud83d\n\ude00""#, "\u{fffd}\n\u{fffd}");
    check("\"\"", "");
    let long = Cursor::new(br#""abc""#).string().expect("a string");
    assert_eq!(
        (long.to_text(2), long.to_text(3).as_deref()),
        (None, Some("abc"))
    );
    let broken = Cursor::new(b"\"\xff\"").string().expect("a string");
    assert_eq!((broken.to_text(9), broken.is("a")), (None, false));
}

#[test]
fn spans_name_every_member_in_order() {
    let json = br#" {"a" : 1, "b\u0063":"x" , "a":[{}] } "#;
    let spans = Spans::of(json).expect("an object");
    let members = spans.members().iter();
    let found: Vec<_> = members
        .map(|member| {
            (
                member.key(json).to_text(9).expect("UTF-8"),
                member.value(json),
                member.kind(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (Box::from("a"), &b"1"[..], Kind::Number),
            (Box::from("bc"), br#""x""#, Kind::String),
            (Box::from("a"), b"[{}]", Kind::Array),
        ]
    );
    assert_eq!(json.get(spans.close()), Some(&b'}'));

    let many = |count: usize| format!("{{{}}}", vec!["\"a\":1"; count].join(","));
    assert!(Spans::of(many(Spans::MOST).as_bytes()).is_ok());
    let fault = Spans::of(many(Spans::MOST + 1).as_bytes()).expect_err("too many");
    assert_eq!(fault.what, Flaw::Members);
}

/// JSON text of all shapes, and broken with some luck.
fn json_like() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        "\"([a-z é😀]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}){0,40}\"",
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
    ];
    let value = leaf.prop_recursive(4, 30, 5, |inner| {
        let key = "\"[a-z]{0,3}\"";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|list| format!("[{}]", list.join(" ,"))),
            prop::collection::vec((key, inner), 0..5).prop_map(|list| {
                let members: Vec<_> = list
                    .iter()
                    .map(|(key, value)| format!("{key}:{value}"))
                    .collect();
                format!("{{ {} }}", members.join(","))
            }),
        ]
    });
    (
        value,
        prop::option::of((
            any::<prop::sample::Index>(),
            "[\\[\\]{},:\"\\\\0-9a-e\n\u{1}]?",
        )),
    )
        .prop_map(|(mut text, break_at)| {
            if let Some((spot, with)) = break_at {
                let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
                if let Some(place) = places.get(spot.index(places.len().max(1))) {
                    text.remove(*place);
                    text.insert_str(*place, &with);
                }
            }
            text
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn it_is_json_when_serde_json_says_so(json in json_like()) {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&json);
        prop_assert_eq!(walk(json.as_bytes()).is_ok(), theirs.is_ok(), "{:?}", theirs.err());
    }

    #[test]
    fn every_cut_of_a_value_is_a_fault_at_its_end_or_before(json in json_like()) {
        if walk(json.as_bytes()).is_ok() && json.starts_with(['{', '[', '"']) {
            for cut in 0..json.len() {
                let fault = walk(&json.as_bytes()[..cut]).expect_err("half a value");
                prop_assert!(fault.at <= cut);
                prop_assert!(matches!(fault.what, Flaw::End(_)), "{fault} in {json:?} cut at {cut}");
            }
        }
    }
}
