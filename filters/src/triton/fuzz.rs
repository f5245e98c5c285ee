//! Feeds any bytes to everything that reads Triton.

use super::{infer_answer, message, stream_answer};
use crate::facts;
use crate::grpc::Splitter;
use crate::meter::{InferStream, Metered, Offset};

/// How many requests may be open; few, so that the bound is met.
const MOST: usize = 3;

/// Any bytes, the first of which says how many of them are JSON. They are read as JSON, as each message, and as both ways
/// of a stream: nothing panics, JSON with Triton's facts has the same facts without them, and no more requests are over
/// than were read.
pub fn fuzz_triton(bytes: &[u8]) {
    let Some((length, body)) = bytes.split_first() else {
        return;
    };
    let length = usize::from(*length);
    let wanted = [Box::from("user")];
    let plain = facts::scan(body, &wanted);
    let ours = facts::triton::scan(Some("m"), None, body, &wanted);
    match (plain, ours) {
        (Ok(plain), Ok(ours)) => {
            assert!(ours.triton.is_some());
            let bare = facts::Body {
                model: plain.model.clone(),
                triton: None,
                ..ours
            };
            assert_eq!(bare, plain);
        }
        // A tensor that is deep counts from the outer object in one, and from itself in the other.
        (plain, ours) => assert!(plain.is_err() || ours.is_err()),
    }
    let prefix = facts::triton::scan(None, Some(length), body, &wanted);
    assert!(prefix.is_err() || length <= body.len());
    if let Ok(asked) = message(body) {
        assert!(asked.model.len() + asked.id.len() <= body.len());
    }
    for read in [infer_answer, stream_answer] {
        if let Ok(answer) = read(body) {
            assert!(answer.model.len() + answer.id.len() <= body.len());
            assert!(answer.bears_output || !answer.shows_text);
        }
    }
    stream(body);
}

/// Messages with their prefixes; the parity of its length says whose each is.
fn stream(body: &[u8]) {
    let mut stream = InferStream::new(MOST);
    let (mut at, mut asked, mut answered) = (Offset::ZERO, 0, 0);
    let mut over: Vec<Metered> = Vec::new();
    Splitter::new(1 << 16).feed(body, |message| {
        at += Offset::from_millis(1);
        if message.bytes.len() % 2 == 0 {
            asked += 1;
            stream.request(at, message);
        } else {
            answered += 1;
            let heard = stream.answer(at, message);
            assert!(heard.fed.token_events <= 1);
            assert!(heard.fed.gap.is_none() || heard.fed.token_events == 1);
            over.extend(heard.finished);
        }
        assert!(stream.open() <= MOST);
    });
    let (rest, tally) = stream.finish();
    over.extend(rest);
    assert_eq!(tally.requests, asked);
    assert_eq!(over.len() as u64 + tally.unmetered, asked);
    let events: u64 = over.iter().map(|metered| metered.figures.events).sum();
    assert_eq!(events + tally.strays + tally.unread, answered);
    for metered in over {
        let figures = metered.figures;
        assert!(figures.token_events <= figures.events);
        assert!(figures.first_token <= figures.last_token);
        assert!(figures.first_token.is_some() == (figures.token_events > 0));
        assert!(
            figures
                .first_token
                .is_none_or(|first| first > metered.asked)
        );
        assert!(metered.id.len() <= Metered::LONGEST_ID);
    }
}
