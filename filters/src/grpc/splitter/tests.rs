//! Bodies written by hand and recorded ones, in every cutting.

use super::*;
use proptest::prelude::*;

/// Writes a message with its prefix.
pub(crate) fn framed(compressed: bool, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    let mut bytes = vec![u8::from(compressed)];
    bytes.extend(length.to_be_bytes());
    bytes.extend_from_slice(message);
    bytes
}

const LIMIT: usize = 10;

// The messages of `body` (a compressed one with `!` before it), how many were skipped, and where it stopped.
fn check(body: &[u8], expected: &[&str], skipped: u64, stops: &str) {
    for step in 1..=body.len().max(1) {
        let mut splitter = Splitter::new(LIMIT);
        let mut found = Vec::new();
        for piece in body.chunks(step) {
            splitter.feed(piece, |message| {
                let mark = if message.compressed { "!" } else { "" };
                found.push(format!("{mark}{}", String::from_utf8_lossy(message.bytes)));
            });
        }
        assert_eq!(found, expected, "{body:?} by {step}");
        assert_eq!(splitter.skipped(), skipped, "{body:?} by {step}");
        let found = match (splitter.is_between(), splitter.is_broken()) {
            (true, false) => "between",
            (false, true) => "broken",
            (false, false) => "inside",
            (true, true) => "both",
        };
        assert_eq!(found, stops, "{body:?} by {step}");
    }
}

#[test]
fn messages_are_found_in_any_cutting() {
    check(b"", &[], 0, "between");
    check(b"\0\0\0\0\0", &[""], 0, "between");
    check(b"\0\0\0\0\x03abc", &["abc"], 0, "between");
    check(b"\x01\0\0\0\x03abc", &["!abc"], 0, "between");
    check(b"\x01\0\0\0\0", &["!"], 0, "between");
    check(
        b"\0\0\0\0\x01a\0\0\0\0\0\x01\0\0\0\x02bc",
        &["a", "", "!bc"],
        0,
        "between",
    );
}

#[test]
fn half_a_message_is_none() {
    check(b"\0", &[], 0, "inside");
    check(b"\0\0\0\0", &[], 0, "inside");
    check(b"\0\0\0\0\x02a", &[], 0, "inside");
    check(b"\0\0\0\0\x01a\0\0", &["a"], 0, "inside");
}

#[test]
fn a_message_past_the_limit_is_skipped_and_the_rest_read() {
    let long = framed(false, &[b'x'; LIMIT + 1]);
    let full = framed(false, &[b'y'; LIMIT]);
    check(
        &[&long[..], &full, &long, b"\0\0\0\0\x01a"].concat(),
        &["yyyyyyyyyy", "a"],
        2,
        "between",
    );
    check(b"\0\xff\xff\xff\xffaaaaaaaaaaaaaaaa", &[], 1, "inside");
}

#[test]
fn after_a_flag_that_does_not_exist_nothing_is_read() {
    check(
        b"\0\0\0\0\x01a\x02\0\0\0\x01b\0\0\0\0\x01c",
        &["a"],
        0,
        "broken",
    );
    check(b"HTTP/1.1 200 OK", &[], 0, "broken");
}

#[test]
fn every_recorded_body_is_messages_and_nothing_else() {
    let mut messages = 0;
    for call in crate::capture::calls() {
        for body in [call.sent(), call.received()] {
            for step in 1..=body.len().max(1) {
                let (mut splitter, mut size, mut count) = (Splitter::new(1 << 20), 0, 0);
                for piece in body.chunks(step) {
                    splitter.feed(piece, |message| {
                        assert!(!message.compressed);
                        size += PREFIX + message.bytes.len();
                        count += 1;
                    });
                }
                assert!(splitter.is_between(), "{}", call.path);
                assert_eq!(size, body.len(), "{}", call.path);
                if step == 1 {
                    messages += count;
                }
            }
            let mut bytes = vec![3];
            bytes.extend_from_slice(&body);
            fuzz_grpc(&bytes);
        }
    }
    // By eye: a request for each of 6 ModelInfer and 7 in 5 streams, 1 answer of ModelInfer and 4, 4, 6, 5 and 1 of the
    // streams; the rest of the session is no inference and not here.
    assert_eq!(messages, 6 + 7 + 1 + 20);
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..LIMIT)), 0..10),
        step in 1usize..20,
    ) {
        let body: Vec<u8> = messages.iter().flat_map(|(flag, bytes)| framed(*flag, bytes)).collect();
        let mut splitter = Splitter::new(LIMIT);
        let mut found = Vec::new();
        for piece in body.chunks(step) {
            splitter.feed(piece, |message| found.push((message.compressed, message.bytes.to_vec())));
        }
        prop_assert_eq!(found, messages);
        prop_assert!(splitter.is_between());
    }

    #[test]
    fn the_fuzz_body_holds_on_any_bytes(bytes: Vec<u8>) {
        fuzz_grpc(&bytes);
    }

    #[test]
    fn the_fuzz_body_holds_on_what_begins_well(
        step: u8,
        messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..20)), 0..6),
        tail: Vec<u8>,
    ) {
        let mut bytes = vec![step];
        bytes.extend(messages.iter().flat_map(|(flag, bytes)| framed(*flag, bytes)));
        bytes.extend(tail);
        fuzz_grpc(&bytes);
    }
}
