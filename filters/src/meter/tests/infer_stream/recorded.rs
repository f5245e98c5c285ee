//! The recorded calls of `ModelStreamInfer`.

use super::*;
use crate::capture::{self, Call};
use crate::grpc::Splitter;

/// The messages of a recorded call, each of its DATA frames cut into pieces of `step` bytes.
fn recorded(call: &Call, step: usize) -> (Vec<Metered>, Duration, StreamTally) {
    let mut ways = [LIMIT, LIMIT].map(Splitter::new);
    let mut stream = InferStream::new(8);
    let (mut over, mut gaps) = (Vec::new(), Duration::ZERO);
    for frame in &call.frames {
        let [sent, received] = &mut ways;
        for piece in frame.bytes.chunks(step) {
            if frame.from_client {
                sent.feed(piece, |message| {
                    stream.request(frame.at, message);
                });
            } else {
                received.feed(piece, |message| {
                    let heard = stream.answer(frame.at, message);
                    gaps += heard.fed.gap.unwrap_or_default();
                    over.extend(heard.finished);
                });
            }
        }
    }
    let (rest, tally) = stream.finish();
    over.extend(rest);
    (over, gaps, tally)
}

/// By eye, from the frames: the requests of each recorded call, and how many answers each got. Milliseconds of the session.
#[rustfmt::skip]
const RECORDED: &[&[(Row<'static>, u64)]] = &[
    // Four words, and no mark of the end, which was not asked for.
    &[(("s1", 716, 4, Some(739), Some(802), "open"), 4)],
    // Three words and the mark, which was asked for.
    &[(("s2", 1726, 3, Some(1749), Some(1792), "marked"), 4)],
    // Two at once.
    &[(("s3", 2729, 3, Some(2764), Some(2808), "open"), 3),
      (("s4", 2729, 3, Some(2766), Some(2808), "open"), 3)],
    // The first fails after two words, in which the second is done.
    &[(("s5", 3742, 2, Some(3765), Some(3788), "failed, open"), 3),
      (("s6", 3742, 2, Some(3766), Some(3787), "open"), 2)],
    // The mark alone.
    &[(("s7", 4750, 0, None, None, "marked"), 1)],
];

#[test]
fn every_recorded_call_has_the_figures_counted_by_eye_in_any_cutting() {
    let calls = capture::calls();
    let streams: Vec<&Call> = calls
        .iter()
        .filter(|call| call.path.ends_with("/ModelStreamInfer"))
        .collect();
    assert_eq!(streams.len(), RECORDED.len());
    for (call, expected) in streams.into_iter().zip(RECORDED) {
        let whole = recorded(call, usize::MAX);
        for step in 1..120 {
            assert_eq!(recorded(call, step), whole);
        }
        let (over, gaps, tally) = whole;
        let found: Vec<(Row<'_>, u64)> = over
            .iter()
            .map(|metered| (row(metered), metered.figures.events))
            .collect();
        assert_eq!(found, *expected);
        let span = |metered: &Metered| {
            let figures = &metered.figures;
            Some(figures.last_token? - figures.first_token?)
        };
        assert_eq!(gaps, over.iter().filter_map(span).sum());
        assert_eq!(tally.requests, over.len() as u64);
        assert_eq!((tally.unmetered, tally.strays, tally.unread), (0, 0, 0));
        for metered in &over {
            let figures = &metered.figures;
            assert_eq!(figures.model.as_deref(), Some("words"));
            assert_eq!(figures.first_output, figures.first_token);
            assert_eq!((figures.usage, figures.unmetered), (None, None));
            let first = figures.first_token.map(|first| first - metered.asked);
            assert_eq!(metered.first_token_after(), first);
        }
    }
}
