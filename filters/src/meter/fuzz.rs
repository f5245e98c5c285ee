//! Feeds any bytes to a meter, cut as the bytes themselves say.

use super::answer::Answer;
use super::past::Past;
use super::{Dialect, Figures, Meter, Offset, Wanted};
use crate::sse::Splitter;

/// The first byte picks the dialect, the second the meter, the third the cutting; the rest is the answer. Asserts that
/// the cutting makes no difference, and that the pieces bear as many token events as the whole.
pub fn fuzz_meter(bytes: &[u8]) {
    let Some(([dialect, kind, step], answer)) = bytes.split_first_chunk() else {
        return;
    };
    let all = Dialect::ALL.iter().cycle();
    let Some(dialect) = all.copied().nth(usize::from(*dialect)) else {
        return;
    };
    let plain = || {
        let limit = if kind & 2 == 0 { 1 << 20 } else { 64 };
        if kind & 4 == 0 {
            return Meter::stream(dialect, kind & 8 == 0, limit);
        }
        let meter = Meter::whole(dialect, kind & 8 == 0, limit);
        match kind & 16 {
            0 => meter,
            _ => meter.with_json_length(usize::from(*step)),
        }
    };
    let wanted = Wanted {
        json: kind & 32 != 0,
        tools: kind & 64 != 0,
    };
    let meter = || plain().with_checks(wanted);
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
    assert!(cut.first_token_event.is_some() == (cut.token_events > 0));
    assert!(wanted.json || cut.json_ok.is_none());
    assert!(wanted.tools || cut.tool_arguments_ok.is_none());
    assert!(cut.first_token_event <= Some(cut.events));
}

/// What an event says does not depend on the one before it.
fn each_alone(dialect: Dialect, stream: &[u8]) {
    let mut past = Past::default();
    Splitter::new(1 << 20).feed(stream, |event| {
        let nameless = |answer| Answer {
            model: None,
            ..answer
        };
        let after = dialect.read(event.data, &mut past).map(nameless);
        let alone = dialect.read(event.data, &mut Past::default()).map(nameless);
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
