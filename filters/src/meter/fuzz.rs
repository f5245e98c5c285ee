//! Feeds any bytes to a meter, cut as the bytes themselves say.

use super::answer::{self, Answer, Opening};
use super::{Dialect, Figures, Meter, Offset};
use crate::sse::Splitter;

/// The first byte picks the meter, the second the cutting; the rest is the answer. Asserts that the cutting makes
/// no difference, and that the pieces bear as many token events as the whole.
pub fn fuzz_meter(bytes: &[u8]) {
    let Some(([kind, step], answer)) = bytes.split_first_chunk() else {
        return;
    };
    let meter = || {
        let dialect = dialect(*kind);
        let limit = if kind & 2 == 0 { 1 << 20 } else { 64 };
        if kind & 4 == 0 {
            return Meter::stream(dialect, kind & 8 == 0, limit);
        }
        let meter = Meter::whole(dialect, kind & 8 == 0, limit);
        match dialect {
            Dialect::TritonInfer => meter.with_json_length(usize::from(*step)),
            Dialect::Chat
            | Dialect::Completions
            | Dialect::TritonGenerate
            | Dialect::ModelInfer => meter,
        }
    };
    each_alone(Dialect::Chat, answer);
    each_alone(Dialect::Completions, answer);
    let step = usize::from(*step).max(1);
    let (cut, events) = run(meter(), answer.chunks(step));
    let (whole, _) = run(meter(), std::iter::once(answer));
    assert_eq!(cut, whole);
    assert!(events <= cut.token_events && cut.token_events <= events + 1);
    assert!(cut.token_events <= cut.events);
    assert!(cut.first_token <= cut.last_token);
    assert!(cut.first_token.is_some() == (cut.token_events > 0));
}

fn dialect(kind: u8) -> Dialect {
    match (kind & 1) + (kind >> 4) % 3 * 2 {
        0 => Dialect::Chat,
        1 => Dialect::Completions,
        2 => Dialect::TritonGenerate,
        3 => Dialect::TritonInfer,
        _ => Dialect::ModelInfer,
    }
}

/// What an event says does not depend on the one before it.
fn each_alone(dialect: Dialect, stream: &[u8]) {
    let mut opening = Opening::default();
    Splitter::new(1 << 20).feed(stream, |event| {
        let nameless = |answer| Answer {
            model: None,
            ..answer
        };
        let after = answer::read(dialect, event.data, &mut opening).map(nameless);
        let alone = answer::read(dialect, event.data, &mut Opening::default()).map(nameless);
        assert_eq!(after, alone);
    });
}

fn run<'a>(mut meter: Meter, pieces: impl Iterator<Item = &'a [u8]>) -> (Figures, u64) {
    let at = Offset::from_millis(5);
    let mut events = 0;
    for piece in pieces {
        let fed = meter.feed(at, piece);
        events += u64::from(fed.token_events);
        assert!(fed.token_events > 0 || fed.gap.is_none());
    }
    (meter.finish(), events)
}
