//! JSON requests written by hand, and recorded ones.

use super::*;
use crate::capture;
use crate::route;
use crate::triton::SequenceId;
use proptest::prelude::*;

fn read(json: &str) -> Request {
    let body = scan(None, None, json.as_bytes(), &[]).unwrap_or_else(|fault| panic!("{fault}"));
    *body.triton.expect("it was read as Triton's")
}

#[test]
fn the_facts_of_an_infer_request_are_read() {
    let json = r#"{"id":"r1","parameters":{"sequence_id":42,"sequence_start":true,"sequence_end":true,
        "triton_enable_empty_final_response":true},"inputs":[{"name":"X","shape":[1],"datatype":"FP32","data":[1]}]}"#;
    assert_eq!(
        read(json),
        Request {
            id: Some("r1".into()),
            sequence: Some(SequenceId::Number(42)),
            starts_sequence: true,
            ends_sequence: true,
            uses_shared_memory: false,
            wants_final: true,
        }
    );
    assert_eq!(read("{}"), Request::default());
}

#[test]
fn generate_takes_parameters_beside_its_inputs() {
    let request = read(r#"{"text_input":"hi","sequence_id":"s","sequence_start":true}"#);
    assert_eq!(request.sequence, Some(SequenceId::Text("s".into())));
    assert!(request.starts_sequence && !request.ends_sequence);
    let body = scan(Some("m"), None, br#"{"text_input":"hi"}"#, &[]).expect("JSON");
    assert_eq!(body.prompt_bytes, Some(4));
}

#[test]
fn a_sequence_has_a_number_or_a_text() {
    let check = |value: &str, expected: Option<SequenceId>| {
        let json = format!(r#"{{"parameters":{{"sequence_id":{value}}}}}"#);
        assert_eq!(read(&json).sequence, expected, "{value}");
    };
    check("7", Some(SequenceId::Number(7)));
    check("18446744073709551615", Some(SequenceId::Number(u64::MAX)));
    check("0", None);
    check("-1", None);
    check("1.5", None);
    check(r#""a\u0062""#, Some(SequenceId::Text("ab".into())));
    check(r#""0""#, Some(SequenceId::Text("0".into())));
    check(r#""""#, None);
    check("null", None);
    check("true", None);
    check("[7]", None);
    check(r#"{"sequence_id":7}"#, None);
}

#[test]
fn what_stands_elsewhere_or_is_of_another_kind_is_no_fact() {
    let check = |json: &str| assert_eq!(read(json), Request::default(), "{json}");
    check(r#"{"id":7}"#);
    check(r#"{"id":""}"#);
    check(r#"{"id":"a","id":null}"#);
    check(r#"{"x":{"parameters":{"sequence_id":7}}}"#);
    check(r#"{"parameters":[{"sequence_id":7}]}"#);
    check(r#"{"parameters":{"x":{"sequence_id":7}}}"#);
    check(r#"{"parameters":{"sequence_start":1,"sequence_end":"true"}}"#);
    check(r#"{"inputs":[{"parameters":{"sequence_id":7}}]}"#);
    check(r#"{"inputs":"shared_memory_region"}"#);
    check(r#"{"inputs":[7,{"shared_memory_region":"r"},{"parameters":["shared_memory_region"]}]}"#);
    check(r#"{"parameters":{"shared_memory_region":"r"}}"#);
}

#[test]
fn shared_memory_is_seen_on_inputs_and_on_outputs() {
    let check = |json: &str| assert!(read(json).uses_shared_memory, "{json}");
    check(r#"{"inputs":[{"name":"X","parameters":{"shared_memory_region":"r"}}]}"#);
    check(r#"{"outputs":[{},{"parameters":{"binary_data":true,"shared_memory_region":"r"}}]}"#);
    check(r#"{"inputs":[{"parameters":{"shared_mem\u006fry_region":"r"}},{"parameters":{}}]}"#);
}

#[test]
fn the_model_is_the_paths_and_the_spans_are_the_jsons() {
    let json = br#"{"model":"other","user":"u"}"#;
    let body = scan(Some("m"), None, json, &["user".into()]).expect("JSON");
    assert_eq!(body.model.as_deref(), Some("m"));
    assert_eq!(body.keys, [Some(Box::from("u"))]);
    let plain = crate::facts::scan(json, &[]).expect("JSON");
    assert_eq!(body.spans, plain.spans);
    assert_eq!(plain.triton, None);
    assert_eq!(scan(None, None, json, &[]).expect("JSON").model, None);
}

#[test]
fn only_the_json_before_tensors_is_read() {
    let body = b"{\"id\":\"r1\"}\0\xff\x80";
    let check = |length: Option<usize>, expected: Result<&str, Flaw>| {
        let found = scan(None, length, body, &[]);
        let found = found.map(|body| body.triton.and_then(|triton| triton.id));
        let expected = expected.map(|id| Some(id.into()));
        assert_eq!(found.map_err(|fault| fault.what), expected, "{length:?}");
    };
    check(Some(11), Ok("r1"));
    check(None, Err(Flaw::Utf8));
    check(Some(12), Err(Flaw::Trailing));
    check(Some(10), Err(Flaw::End(Expected::CommaOrBrace)));
    check(Some(0), Err(Flaw::Empty));
    check(Some(15), Err(Flaw::End(Expected::Value)));
    check(Some(usize::MAX), Err(Flaw::End(Expected::Value)));
}

#[test]
fn a_message_has_facts_too() {
    let calls = capture::calls();
    let check = |place: usize, model: &str, id: Option<&str>, wants_final: bool| {
        let sent = calls[place].sent();
        let body = message(&sent[5..], &["user".into()]).expect("a message");
        assert_eq!(body.model.as_deref(), Some(model));
        assert_eq!(body.keys, [None]);
        let triton = body.triton.expect("it is Triton's");
        assert_eq!(triton.id.as_deref(), id);
        assert_eq!(triton.wants_final, wants_final);
        assert!(!triton.uses_shared_memory && triton.sequence.is_none());
    };
    // By eye: the calls of the session in order.
    check(0, "affine", Some("r1"), false);
    check(1, "nosuch", None, false);
    check(3, "boom", None, false);
    check(6, "words", Some("s1"), false);
    check(7, "words", Some("s2"), true);
    check(10, "words", Some("s7"), true);
    assert!(message(b"\x0a\x05m", &[]).is_err());
}

#[test]
fn the_recorded_requests_have_the_facts_that_were_asked_for() {
    let mut ids = Vec::new();
    for capture in capture::all() {
        let Some(model) = route::model(&capture.path) else {
            continue;
        };
        if capture.request == b"null" || capture.name.ends_with("-bad-json") {
            continue;
        }
        let body = scan(Some(model), None, &capture.request, &[]).expect(&capture.name);
        assert_eq!(body.model.as_deref(), Some(model), "{}", capture.name);
        ids.extend(body.triton.and_then(|triton| triton.id));
    }
    // By eye: of all requests these have an id.
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    assert_eq!(ids, ["my-id-7", "my-id-8", "r1", "r2", "x"]);
}

#[test]
fn the_recorded_request_with_tensors_is_read() {
    let text = capture::text("triton/http-client.tap.jsonl");
    let read = text
        .lines()
        .filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let sent: Vec<u8> = line["latin1"].as_str()?.chars().map(|c| c as u8).collect();
            let end = memchr::memmem::find(&sent, b"\r\n\r\n")?;
            let (head, body) = sent.split_at(end + 4);
            let head = String::from_utf8_lossy(head).to_lowercase();
            let (_, after) = head.split_once(&format!("{}: ", triton::JSON_LENGTH))?;
            let asks = head.starts_with("post ") && !head.contains("content-encoding");
            let length = triton::json_length(after.lines().next()?.as_bytes())?;
            asks.then(|| scan(None, Some(length), body, &[]).expect("a body of NVIDIA's client"))
        })
        .map(|body| body.triton.and_then(|triton| triton.id));
    assert_eq!(read.collect::<Vec<_>>(), [Some(Box::from("r1"))]);
}

proptest! {
    #[test]
    fn a_sequence_in_json_is_the_one_in_a_message(id in any::<u64>(), start: bool, end: bool, wants_final: bool) {
        use crate::protobuf::tests::{bytes, number};
        let json = format!(
            r#"{{"parameters":{{"sequence_id":{id},"sequence_start":{start},"sequence_end":{end},"triton_enable_empty_final_response":{wants_final}}}}}"#
        );
        let parameter = |key: &str, value: Vec<u8>| bytes(4, &[bytes(1, key.as_bytes()), bytes(2, &value)].concat());
        let written = [
            parameter("sequence_id", number(2, id)),
            parameter("sequence_start", number(1, start.into())),
            parameter("sequence_end", number(1, end.into())),
            parameter("triton_enable_empty_final_response", number(1, wants_final.into())),
        ].concat();
        let body = message(&written, &[]).expect("it was written well");
        prop_assert_eq!(Some(read(&json)), body.triton.map(|triton| *triton));
    }
}
