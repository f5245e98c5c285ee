//! Triton's answers over HTTP and the one message of `ModelInfer`.

use super::*;
use crate::grpc::framed;
use crate::protobuf::tests::bytes;
use proptest::prelude::*;

fn generate(body: &str) -> Figures {
    let figures = stream(Dialect::TritonGenerate, true, body);
    assert!(figures.ends_with_body && !figures.terminated);
    figures
}

#[test]
fn each_event_that_is_no_error_bears_tokens() {
    let check = |event: &str, tokens: u64, shows: bool, failed: bool| {
        let figures = generate(&format!("data: {event}\n\n"));
        assert_eq!((figures.events, figures.bad_events), (1, 0), "{event}");
        assert_eq!(figures.token_events, tokens, "{event}");
        assert_eq!(figures.first_output.is_some(), shows, "{event}");
        assert_eq!(figures.error.is_some(), failed, "{event}");
        assert_eq!(
            (figures.usage, figures.time_per_output_token()),
            (None, None)
        );
    };
    check(
        r#"{"model_name":"m","model_version":"1","text_output":"hi"}"#,
        1,
        true,
        false,
    );
    check(r#"{"text_output":""}"#, 1, false, false);
    check(r#"{"Y":[3.0]}"#, 1, false, false);
    check(
        r#"{"x":{"text_output":"hi","error":"no"}}"#,
        1,
        false,
        false,
    );
    check(r#"{"error":"made-up failure"}"#, 0, false, true);
    check(r#"{"error":"no","text_output":"hi"}"#, 0, false, true);
    check(r#"{"text_output":"hi","error":""}"#, 1, true, false);
}

#[test]
fn what_is_no_object_is_nonsense() {
    let figures = generate("data: 7\n\ndata: {\"a\":\n\ndata: {} {}\n\ndata: {\"a\":1}\n\n");
    assert_eq!(
        (figures.events, figures.bad_events, figures.token_events),
        (4, 3, 1)
    );
}

#[test]
fn an_error_after_tokens_is_an_error_of_the_stream() {
    let figures = generate(
        "data: {\"model_name\":\"m\",\"text_output\":\"a\"}\n\ndata: {\"error\":\"no\"}\n\n",
    );
    assert_eq!((figures.token_events, figures.events), (1, 2));
    assert_eq!(figures.error, Some(InStreamError::default()));
    assert_eq!(figures.model.as_deref(), Some("m"));
}

#[test]
fn tensors_after_the_json_are_not_looked_at() {
    let json = br#"{"model_name":"m","outputs":[]}"#;
    let check = |length: Option<usize>, tail: &[u8], limit: usize, expected: Option<Unmetered>| {
        let body = [&json[..], tail].concat();
        for step in [1, 7, json.len(), json.len() + 1, body.len()] {
            let mut meter = Meter::whole(Dialect::TritonInfer, true, limit);
            if let Some(length) = length {
                meter = meter.with_json_length(length);
            }
            for piece in body.chunks(step) {
                meter.feed(ms(1), piece);
            }
            let figures = meter.finish();
            assert_eq!(figures.unmetered, expected, "{length:?} by {step}");
            assert_eq!(figures.terminated, expected.is_none());
            assert_eq!(figures.model.is_some(), expected.is_none());
        }
    };
    let exact = Some(json.len());
    check(None, b"", LIMIT, None);
    check(exact, b"", LIMIT, None);
    check(exact, b"\0\x01{}}", LIMIT, None);
    check(exact, &[b'}'; 4096], json.len(), None);
    check(None, b"\0\x01", LIMIT, Some(Unmetered::Unparsable));
    check(Some(5), b"", LIMIT, Some(Unmetered::Unparsable));
    check(Some(0), b"", LIMIT, Some(Unmetered::Unparsable));
    check(
        Some(json.len() + 1),
        b"\0",
        LIMIT,
        Some(Unmetered::Unparsable),
    );
    check(exact, b"\0", json.len() - 1, Some(Unmetered::TooLarge));
}

/// The figures of a `ModelInfer` answer, which must not depend on its cutting.
fn model_infer(body: &[u8], limit: usize) -> Figures {
    let run = |step: usize| {
        let mut meter = Meter::whole(Dialect::ModelInfer, true, limit);
        for piece in body.chunks(step) {
            assert_eq!(meter.feed(ms(7), piece), Fed::default());
        }
        meter.finish()
    };
    let whole = run(body.len().max(1));
    for step in 1..body.len() {
        assert_eq!(run(step), whole, "{body:02x?} by {step}");
    }
    whole
}

#[test]
fn one_message_is_a_whole_answer() {
    let check = |body: &[u8], terminated: bool, expected: Option<Unmetered>| {
        let figures = model_infer(body, 64);
        assert_eq!(figures.terminated, terminated, "{body:02x?}");
        assert_eq!(figures.unmetered, expected, "{body:02x?}");
        assert_eq!(
            figures.model.as_deref(),
            terminated.then_some("m"),
            "{body:02x?}"
        );
    };
    let answer = bytes(1, b"m");
    let whole = framed(false, &answer);
    check(&whole, true, None);
    // A call that failed, and one that was cut.
    check(b"", false, None);
    check(&whole[..6], false, None);
    check(&framed(true, &answer), false, Some(Unmetered::Compressed));
    check(
        &framed(false, &bytes(6, &[0; 64])),
        false,
        Some(Unmetered::TooLarge),
    );
    check(
        &framed(false, b"\x0a\x05m"),
        false,
        Some(Unmetered::Unparsable),
    );
    check(
        &[&whole[..], &whole].concat(),
        false,
        Some(Unmetered::Unparsable),
    );
    check(
        &[&whole[..], b"HTTP"].concat(),
        false,
        Some(Unmetered::Unparsable),
    );
}

#[test]
fn the_recorded_answer_of_model_infer_is_read() {
    let calls = crate::capture::calls();
    let unary: Vec<_> = calls
        .iter()
        .filter(|call| call.path.ends_with("/ModelInfer"))
        .collect();
    // By eye: one that is answered, then an unknown model, a wrong shape, a model that fails, a decoupled one, a deadline.
    let statuses: Vec<&str> = unary.iter().map(|call| &*call.status).collect();
    assert_eq!(statuses, ["0", "5", "3", "13", "12", "4"]);
    for call in unary {
        let figures = model_infer(&call.received(), LIMIT);
        let answered = call.status == "0";
        assert_eq!(figures.terminated, answered);
        assert_eq!(figures.model.as_deref(), answered.then_some("affine"));
        assert_eq!((figures.unmetered, figures.error), (None, None));
    }
}

proptest! {
    #[test]
    fn any_body_of_a_unary_call_gives_the_same_figures_in_any_cutting(
        messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..30)), 0..3),
        tail in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut body: Vec<u8> = messages.iter().flat_map(|(flag, bytes)| framed(*flag, bytes)).collect();
        body.extend(tail);
        model_infer(&body, 20);
    }
}
