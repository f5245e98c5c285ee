use proptest::prelude::*;
use serde_json::json;

use super::*;

fn check(body: &str, expected: Result<(&str, &str, Value), &str>) {
    match (read(body.as_bytes()), expected) {
        (Ok(found), Ok((id, metric, value))) => {
            assert_eq!(found.request_id.as_str(), id, "{body}");
            assert_eq!(found.metric.as_str(), metric, "{body}");
            assert_eq!(found.value, value, "{body}");
        }
        (Err(error), Err(part)) => {
            let said = error.to_string();
            assert!(said.contains(part), "{body}: {said}");
            assert!(error.line() > 0, "{body}: {said}");
        }
        (found, expected) => panic!("{body}: found {found:?}, expected {expected:?}"),
    }
    fuzz_feedback(body.as_bytes());
}

fn number(number: f64) -> Value {
    Value::number(number).unwrap()
}

#[test]
fn a_judgement_is_an_object_of_three_keys() {
    check(
        r#"{"request_id":"r-1","metric":"thumbs","value":false}"#,
        Ok(("r-1", "thumbs", false.into())),
    );
    check(
        " {\n\"value\": 1, \"metric\": \"a\", \"request_id\": \"\\u00e9\" } ",
        Ok(("é", "a", number(1.0))),
    );
    check(
        r#"{"request_id":"r","metric":"a_9","value":-2.5e3}"#,
        Ok(("r", "a_9", number(-2500.0))),
    );
    let id = "i".repeat(LONGEST_ID);
    check(
        &json!({"request_id": id, "metric": "m".repeat(64), "value": u64::MAX}).to_string(),
        Ok((&id, &"m".repeat(64), number(u64::MAX as f64))),
    );
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    check("", Err("EOF"));
    check("{", Err("EOF"));
    check("nonsense", Err("expected ident"));
    check(
        "[\"r\",\"a\",true]",
        Err("an object with `request_id`, `metric` and `value`"),
    );
    check("null", Err("an object with"));
    check("{}", Err("missing field `request_id`"));
    check(
        r#"{"request_id":"r","metric":"a"}"#,
        Err("missing field `value`"),
    );
    check(
        r#"{"request_id":"r","metric":"a","value":1,"note":"n"}"#,
        Err("unknown field `note`, expected one of `request_id`, `metric`, `value`"),
    );
    check(
        r#"{"request_id":"r","metric":"a","metric":"a","value":1}"#,
        Err("duplicate field `metric`"),
    );
    check(
        r#"{"request_id":"r","metric":"a","value":1} {}"#,
        Err("trailing"),
    );
    for metric in ["", "Thumbs", "9a", "_a", "a b", "a-b", "ä", &"m".repeat(65)] {
        check(
            &json!({"request_id": "r", "metric": metric, "value": true}).to_string(),
            Err(
                "a metric is 1 to 64 lower-case letters, digits and underscores (ASCII), a letter first; found \"",
            ),
        );
    }
    for id in ["", &"i".repeat(257)] {
        check(
            &json!({"request_id": id, "metric": "a", "value": true}).to_string(),
            Err("a request_id is a text of 1 to 256 bytes; found \""),
        );
    }
    check(
        r#"{"request_id":7,"metric":"a","value":1}"#,
        Err("found the number 7"),
    );
    check(
        r#"{"request_id":"r","metric":null,"value":1}"#,
        Err("found nothing"),
    );
    for value in ["null", "\"good\"", "[1]", "{}"] {
        let body = format!(r#"{{"request_id":"r","metric":"a","value":{value}}}"#);
        check(&body, Err("a finite number, true or false as value"));
        assert!(
            !read(body.as_bytes())
                .unwrap_err()
                .to_string()
                .contains("good")
        );
    }
    for value in ["1e999", "-1e999"] {
        let body = format!(r#"{{"request_id":"r","metric":"a","value":{value}}}"#);
        check(&body, Err("number out of range"));
    }
    for value in ["NaN", "Infinity", "01", "+1"] {
        let body = format!(r#"{{"request_id":"r","metric":"a","value":{value}}}"#);
        check(&body, Err(""));
    }
}

#[test]
fn a_message_does_not_grow_with_what_was_sent() {
    let long = "x".repeat(100_000);
    let body = json!({"request_id": "r", "metric": long, "value": true}).to_string();
    assert!(read(body.as_bytes()).unwrap_err().to_string().len() < 300);
}

#[test]
fn false_and_less_than_nothing_speak_against_an_answer() {
    let check = |value: Value, expected| assert_eq!(value.is_negative(), expected, "{value:?}");
    check(false.into(), true);
    check(true.into(), false);
    check(number(-1.0), true);
    check(number(-f64::MIN_POSITIVE), true);
    check(number(0.0), false);
    check(number(-0.0), false);
    check(number(4.5), false);
    assert_eq!(Value::number(f64::NAN), None);
    assert_eq!(Value::number(f64::NEG_INFINITY), None);
}

#[test]
fn the_last_word_of_each_of_eight_metrics_counts() {
    let mut heard = Heard::default();
    let name = |number: usize| format!("m{number}").parse::<Metric>().unwrap();
    for number in 0..Heard::MOST {
        assert_eq!(heard.hear(name(number), true.into()), Ok(()));
    }
    let size = heard.size();
    assert_eq!(heard.hear(name(Heard::MOST), false.into()), Err(Full));
    for _ in 0..1000 {
        assert_eq!(heard.hear(name(3), number(-1.5)), Ok(()));
    }
    assert_eq!(heard.size(), size);
    let expected = json!({"m0": true, "m1": true, "m2": true, "m3": -1.5, "m4": true, "m5": true, "m6": true, "m7": true});
    assert_eq!(serde_json::to_value(&heard).unwrap(), expected);
}

// Numbers that binary and decimal digits say alike.
fn halves() -> impl Strategy<Value = serde_json::Value> {
    any::<i32>().prop_map(|twice| json!(f64::from(twice) / 2.0))
}

proptest! {
    #[test]
    fn what_keeps_to_the_rules_is_read_as_it_was_said(
        id in "\\PC{1,64}",
        metric in "[a-z][a-z0-9_]{0,63}",
        value in prop_oneof![any::<bool>().prop_map(|is_good| json!(is_good)), halves(), any::<i32>().prop_map(|number| json!(number))],
    ) {
        let body = json!({"request_id": id, "metric": metric, "value": value}).to_string();
        let found = read(body.as_bytes()).unwrap();
        prop_assert_eq!(found.request_id.as_str(), &id);
        prop_assert_eq!(found.metric.as_str(), &metric);
        let (said, kept) = (value, serde_json::to_value(found.value).unwrap());
        prop_assert_eq!((said.as_bool(), said.as_f64()), (kept.as_bool(), kept.as_f64()));
        fuzz_feedback(body.as_bytes());
    }

    #[test]
    fn the_fuzz_body_holds_on_any_bytes(bytes: Vec<u8>) {
        fuzz_feedback(&bytes);
    }

    #[test]
    fn the_fuzz_body_holds_on_what_is_almost_a_judgement(
        body in "\\{\"request_id\":\"[a-z\\\\u0]{0,6}\",\"metric\":\"[a-zA-Z_]{0,3}\",\"value\":[-0-9.eE+truefals]{1,6}\\}",
    ) {
        fuzz_feedback(body.as_bytes());
    }
}
