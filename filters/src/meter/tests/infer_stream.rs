//! Calls of `ModelStreamInfer`, written by hand, and recorded ones.

mod bounds;
mod recorded;

use super::*;
use crate::grpc::Message;
use crate::outcome::{End, Outcome, classify};
use crate::protobuf::tests::{bytes, number};
use proptest::prelude::*;

fn parameter(key: &str, value: bool) -> Vec<u8> {
    let value = number(1, u64::from(value));
    bytes(4, &[bytes(1, key.as_bytes()), bytes(2, &value)].concat())
}

fn request(id: &str) -> Vec<u8> {
    [bytes(1, b"m"), bytes(3, id.as_bytes())].concat()
}

/// An answer with a tensor, and with the mark of the end if `is_final` says one way or the other.
fn token(id: &str, is_final: Option<bool>) -> Vec<u8> {
    let mark = is_final.map(|value| parameter("triton_final_response", value));
    let inner = [
        bytes(1, b"m"),
        bytes(3, id.as_bytes()),
        mark.unwrap_or_default(),
        bytes(5, &bytes(1, b"Y")),
        bytes(6, b"y"),
    ];
    bytes(2, &inner.concat())
}

/// The mark of the end alone.
fn end(id: &str) -> Vec<u8> {
    let mark = parameter("triton_final_response", true);
    bytes(2, &[bytes(3, id.as_bytes()), mark].concat())
}

fn plain(bytes: &[u8]) -> Message<'_> {
    Message {
        compressed: false,
        bytes,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Asks(Vec<u8>),
    Answers(Vec<u8>),
}

use Step::{Answers, Asks};

/// Each step a millisecond after the one before, from 1 ms on. The requests in the order in which they were over, and what
/// else was counted.
fn run(most: usize, steps: &[Step]) -> (Vec<Metered>, StreamTally) {
    let mut stream = InferStream::new(most);
    let mut over = Vec::new();
    for (at, step) in (1..).zip(steps) {
        match step {
            Asks(message) => {
                stream.request(ms(at), plain(message));
            }
            Answers(message) => over.extend(stream.answer(ms(at), plain(message)).finished),
        }
    }
    let (rest, tally) = stream.finish();
    over.extend(rest);
    (over, tally)
}

/// Id, when it was asked, token events, first and last of them, end (`marked`, `failed` for good, or `open`).
type Row<'a> = (&'a str, u64, u64, Option<u64>, Option<u64>, &'a str);

fn check(steps: &[Step], expected: &[Row<'_>]) {
    let (over, tally) = run(64, steps);
    let found: Vec<Row<'_>> = over.iter().map(row).collect();
    assert_eq!(found, expected, "{steps:?}");
    assert_eq!((tally.unmetered, tally.strays, tally.unread), (0, 0, 0));
}

fn row(metered: &Metered) -> Row<'_> {
    let Metered { id, asked, figures } = metered;
    let millis = |offset: Offset| u64::try_from(offset.as_millis()).expect("a short call");
    let end = match (figures.terminated, &figures.error) {
        (true, None) => "marked",
        (true, Some(_)) => "failed",
        (false, None) => "open",
        (false, Some(_)) => "failed, open",
    };
    (
        id,
        millis(*asked),
        figures.token_events,
        figures.first_token.map(millis),
        figures.last_token.map(millis),
        end,
    )
}

#[test]
fn requests_of_one_call_are_told_apart_by_their_ids() {
    check(
        &[
            Asks(request("a")),
            Asks(request("b")),
            Answers(token("b", Some(false))),
            Answers(token("a", Some(false))),
            Answers(token("b", Some(true))),
            Answers(token("a", Some(false))),
            Answers(end("a")),
        ],
        &[
            ("b", 2, 2, Some(3), Some(5), "marked"),
            ("a", 1, 2, Some(4), Some(6), "marked"),
        ],
    );
}

#[test]
fn requests_without_an_id_are_answered_in_turn() {
    check(
        &[
            Asks(request("")),
            Asks(request("")),
            Answers(token("", Some(true))),
            Answers(token("", Some(false))),
            Answers(token("", Some(true))),
        ],
        &[
            ("", 1, 1, Some(3), Some(3), "marked"),
            ("", 2, 2, Some(4), Some(5), "marked"),
        ],
    );
}

#[test]
fn an_id_that_is_used_again_is_the_older_request_until_that_is_over() {
    check(
        &[
            Asks(request("a")),
            Asks(request("a")),
            Answers(token("a", Some(true))),
            Answers(token("a", Some(true))),
        ],
        &[
            ("a", 1, 1, Some(3), Some(3), "marked"),
            ("a", 2, 1, Some(4), Some(4), "marked"),
        ],
    );
}

#[test]
fn a_request_whose_end_is_not_marked_is_open_to_the_end_of_the_call() {
    check(
        &[
            Asks(request("a")),
            Answers(token("a", Some(false))),
            Answers(token("a", None)),
        ],
        &[("a", 1, 2, Some(2), Some(3), "open")],
    );
}

#[test]
fn an_error_is_that_of_its_request() {
    let failed = |id: &str, mark: Option<bool>| {
        let mark = mark.map(|value| parameter("triton_final_response", value));
        let inner = [bytes(3, id.as_bytes()), mark.unwrap_or_default()].concat();
        [bytes(1, b"no"), bytes(2, &inner)].concat()
    };
    let nameless = bytes(1, b"no");
    check(
        &[
            Asks(request("a")),
            Answers(token("a", Some(false))),
            Answers(failed("a", Some(false))),
            Answers(end("a")),
        ],
        &[("a", 1, 1, Some(2), Some(2), "failed")],
    );
    check(
        &[Asks(request("a")), Answers(failed("a", Some(false)))],
        &[("a", 1, 0, None, None, "failed, open")],
    );
    // It never came to a model, so there is no mark.
    check(
        &[Asks(request("a")), Answers(failed("a", None))],
        &[("a", 1, 0, None, None, "failed")],
    );
    // Nothing but the text, and only one that it can be meant for.
    check(
        &[Asks(request("a")), Answers(nameless.clone())],
        &[("a", 1, 0, None, None, "failed")],
    );
    check(
        &[
            Asks(request("a")),
            Asks(request("")),
            Answers(nameless.clone()),
        ],
        &[
            ("", 2, 0, None, None, "failed"),
            ("a", 1, 0, None, None, "open"),
        ],
    );
    // An error with a tensor bears no token.
    check(
        &[
            Asks(request("a")),
            Answers([nameless.clone(), token("a", Some(true))].concat()),
        ],
        &[("a", 1, 0, None, None, "failed")],
    );
    let (_, tally) = run(
        64,
        &[
            Asks(request("a")),
            Asks(request("b")),
            Answers(nameless),
            Answers(token("c", None)),
        ],
    );
    assert_eq!((tally.strays, tally.stray_errors), (2, 1));
}

#[test]
fn the_end_of_the_call_is_an_end_only_for_whom_no_mark_was_to_come() {
    let asks = |wants: bool| {
        let wish = parameter("triton_enable_empty_final_response", wants);
        [request("a"), wish].concat()
    };
    let check = |steps: &[Step], expected: Outcome| {
        let (over, _) = run(8, steps);
        let found = classify(End::Complete, Some(200), true, Some(&over[0].figures));
        assert_eq!(found, expected, "{steps:?}");
    };
    let some = Answers(token("a", Some(false)));
    check(&[Asks(asks(false)), some.clone()], Outcome::Ok);
    check(&[Asks(asks(true)), some.clone()], Outcome::Truncated);
    check(&[Asks(asks(true)), some, Answers(end("a"))], Outcome::Ok);
    let failed = Answers(bytes(1, b"no"));
    check(&[Asks(asks(false)), failed], Outcome::ErrorInStream);
}

proptest! {
    #[test]
    fn a_request_has_the_figures_that_it_would_have_alone(
        answers in prop::collection::vec((0usize..4, prop::option::of(any::<bool>()), any::<bool>()), 0..40),
    ) {
        let ids = ["a", "b", "c", ""];
        let mut steps: Vec<Step> = ids.iter().map(|id| Asks(request(id))).collect();
        let mut done = [false; 4];
        for (who, is_final, bears) in answers {
            if done[who] {
                continue;
            }
            let bears = bears || is_final != Some(true);
            steps.push(Answers(if bears { token(ids[who], is_final) } else { end(ids[who]) }));
            done[who] = is_final == Some(true);
        }
        let (together, tally) = run(4, &steps);
        prop_assert_eq!((together.len(), tally.unmetered, tally.strays), (4, 0, 0));
        for metered in together {
            let mut alone = InferStream::new(1);
            let mut over = None;
            for (at, step) in (1..).zip(&steps) {
                match step {
                    Asks(message) if *message == request(&metered.id) => { alone.request(ms(at), plain(message)); }
                    Asks(_) => {}
                    Answers(message) => {
                        let heard = alone.answer(ms(at), plain(message));
                        over = over.or(heard.finished);
                    }
                }
            }
            let (rest, _) = alone.finish();
            prop_assert_eq!(over.or(rest.last()), Some(metered));
        }
    }
}
