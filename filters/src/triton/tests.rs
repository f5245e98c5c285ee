//! Requests and answers written by hand, and recorded ones.

use super::*;
use crate::protobuf::Flaw;
use crate::protobuf::tests::{bytes, number};
use proptest::prelude::*;

/// An entry of a map of parameters, in field 4, or in `field`.
fn parameter(field: u32, key: &str, value: &[u8]) -> Vec<u8> {
    bytes(field, &[bytes(1, key.as_bytes()), bytes(2, value)].concat())
}

fn read(parts: &[Vec<u8>]) -> Request {
    message(&parts.concat()).expect("a message").request
}

#[test]
fn a_message_says_what_its_parameters_say() {
    let asked = [
        bytes(1, b"words"),
        bytes(3, b"r1"),
        parameter(4, "sequence_id", &number(2, 42)),
        parameter(4, "sequence_start", &number(1, 1)),
        parameter(4, "sequence_end", &number(1, 1)),
        parameter(4, "triton_enable_empty_final_response", &number(1, 1)),
        parameter(4, "priority", &number(5, 1)),
    ]
    .concat();
    let asked = message(&asked).expect("a message");
    assert_eq!((asked.model, asked.id), (&b"words"[..], &b"r1"[..]));
    assert_eq!(
        asked.request,
        Request {
            id: Some("r1".into()),
            sequence: Some(SequenceId::Number(42)),
            starts_sequence: true,
            ends_sequence: true,
            uses_shared_memory: false,
            wants_final: true,
        }
    );
    assert_eq!(read(&[]), Request::default());
}

#[test]
fn a_sequence_has_a_number_or_a_text() {
    let check = |value: Vec<u8>, expected: Option<SequenceId>| {
        let request = read(&[parameter(4, "sequence_id", &value)]);
        assert_eq!(request.sequence, expected, "{value:02x?}");
    };
    check(number(2, 7), Some(SequenceId::Number(7)));
    check(number(5, 7), Some(SequenceId::Number(7)));
    check(number(2, u64::MAX), Some(SequenceId::Number(u64::MAX)));
    check(number(2, 0), None);
    check(bytes(3, b"a"), Some(SequenceId::Text("a".into())));
    check(bytes(3, b""), None);
    check(bytes(3, b"\xff"), None);
    check(bytes(3, &[b'a'; crate::facts::LONGEST + 1]), None);
    check(number(1, 1), None);
    check(Vec::new(), None);
}

#[test]
fn a_flag_is_a_boolean_that_is_true() {
    let check = |value: Vec<u8>, expected: bool| {
        let request = read(&[parameter(4, "sequence_start", &value)]);
        assert_eq!(request.starts_sequence, expected, "{value:02x?}");
    };
    check(number(1, 1), true);
    check(number(1, 0), false);
    check(number(2, 1), false);
    check(bytes(3, b"true"), false);
    check(Vec::new(), false);
}

#[test]
fn shared_memory_is_seen_on_inputs_and_on_outputs() {
    let region = bytes(3, b"region");
    let check = |part: Vec<u8>, expected: bool| {
        assert_eq!(read(&[part]).uses_shared_memory, expected);
    };
    check(
        bytes(5, &parameter(4, "shared_memory_region", &region)),
        true,
    );
    check(
        bytes(6, &parameter(2, "shared_memory_region", &region)),
        true,
    );
    check(
        bytes(5, &parameter(4, "shared_memory_offset", &region)),
        false,
    );
    check(bytes(5, &bytes(1, b"shared_memory_region")), false);
    // A parameter of the request is none of a tensor.
    check(parameter(4, "shared_memory_region", &region), false);
}

#[test]
fn what_is_no_message_is_refused() {
    let check = |bytes: &[u8]| {
        let fault = message(bytes).expect_err("no message");
        assert_eq!(fault.what, Flaw::End);
    };
    check(b"\x0a\x05m");
    // A parameter, its value and a tensor are messages too.
    check(&bytes(4, b"\x0a\x05m"));
    check(&parameter(4, "sequence_id", b"\x0a\x05m"));
    check(&bytes(5, b"\x0a\x05m"));
    check(&bytes(6, b"\x0a\x05m"));
}

#[test]
fn an_answer_says_whose_it_is_and_what_it_bears() {
    let text = bytes(5, &bytes(1, b"text_output"));
    let other = bytes(5, &bytes(1, b"index"));
    let is_final = |value| parameter(4, "triton_final_response", &number(1, value));
    let inner = [
        bytes(1, b"m"),
        bytes(3, b"r1"),
        is_final(0),
        other.clone(),
        text.clone(),
        bytes(6, b"\x01\0\0\0"),
        bytes(6, b"\x02\0\0\0hi"),
    ]
    .concat();
    let whole = Answer {
        model: b"m",
        id: b"r1",
        is_final: Some(false),
        bears_output: true,
        shows_text: true,
        has_error: false,
    };
    assert_eq!(infer_answer(&inner), Ok(whole));
    assert_eq!(stream_answer(&bytes(2, &inner)), Ok(whole));
    let failed = [bytes(1, b"made-up failure"), bytes(2, &inner)].concat();
    let with_error = Answer {
        has_error: true,
        ..whole
    };
    assert_eq!(stream_answer(&failed), Ok(with_error));
    // The two may come in any order.
    let failed = [bytes(2, &inner), bytes(1, b"made-up failure")].concat();
    assert_eq!(stream_answer(&failed), Ok(with_error));
    assert_eq!(stream_answer(b""), Ok(Answer::default()));
    assert_eq!(stream_answer(&bytes(1, b"")), Ok(Answer::default()));

    let check = |parts: &[Vec<u8>], bears: bool, shows: bool| {
        let inner = parts.concat();
        let answer = infer_answer(&inner).expect("a message");
        assert_eq!((answer.bears_output, answer.shows_text), (bears, shows));
    };
    check(&[is_final(1)], false, false);
    check(&[text.clone(), bytes(6, b"\0\0\0\0")], true, false);
    check(&[other.clone(), bytes(6, b"\x02\0\0\0hi")], true, false);
    check(
        &[text, other, bytes(6, b""), bytes(6, b"longer")],
        true,
        false,
    );
    check(&[bytes(6, b"longer")], true, false);
}

#[test]
fn a_length_of_json_is_digits() {
    let check = |value: &str, expected: Option<usize>| {
        assert_eq!(json_length(value.as_bytes()), expected, "{value}");
    };
    check("163", Some(163));
    check("0", Some(0));
    check("", None);
    check("-1", None);
    check("+1", None);
    check(" 1", None);
    check("1.0", None);
    check("99999999999999999999999", None);
}

#[test]
fn the_fuzz_body_holds_on_recorded_traffic_and_its_ruins() {
    let bodies = crate::capture::all()
        .into_iter()
        .filter(|capture| capture.name.starts_with("triton/"))
        .flat_map(|capture| [capture.request.clone(), capture.body()]);
    let calls = crate::capture::calls().into_iter().flat_map(|call| {
        let sent = call.sent();
        let message = sent.get(5..).unwrap_or_default().to_vec();
        [sent, call.received(), message]
    });
    for (number, body) in (0u8..=255).cycle().zip(bodies.chain(calls)) {
        let mut bytes = vec![number];
        bytes.extend(body);
        fuzz_triton(&bytes);
        for spot in (1..bytes.len()).step_by(7) {
            let kept = bytes[spot];
            bytes[spot] = kept.wrapping_add(number | 1);
            fuzz_triton(&bytes);
            bytes[spot] = kept;
        }
    }
    fuzz_triton(b"");
}

proptest! {
    #[test]
    fn the_fuzz_body_holds_on_any_bytes(bytes: Vec<u8>) {
        fuzz_triton(&bytes);
    }

    #[test]
    fn the_fuzz_body_holds_on_streams_of_short_messages(
        messages in prop::collection::vec(("[ab]{0,2}", prop::option::of(any::<bool>()), any::<bool>(), any::<bool>()), 0..30),
    ) {
        let mut stream = vec![0];
        for (id, is_final, failed, asks) in messages {
            let last = is_final.map(|last| parameter(4, "triton_final_response", &number(1, last.into())));
            let inner = [bytes(3, id.as_bytes()), last.unwrap_or_default(), bytes(6, b"x")].concat();
            let mut message = match asks {
                true => inner,
                false => [bytes(2, &inner), if failed { bytes(1, b"no") } else { Vec::new() }].concat(),
            };
            // The parity of its length says whose it is; fields that nobody knows make it so.
            if message.len() % 2 != usize::from(!asks) {
                message.extend(bytes(99, b""));
            }
            stream.extend(crate::grpc::framed(false, &message));
        }
        fuzz_triton(&stream);
    }
}
