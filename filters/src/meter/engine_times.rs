//! The times that an engine itself gives for an answer, to hold against those seen on the wire.
//!
//! In: vLLM's `metrics` (with `--enable-per-request-metrics`, for one choice). Out: durations; what is missing, negative
//! or no number is absent.

use std::time::Duration;

use crate::json::{Cursor, Fault, Kind};

/// What an engine says of its own times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineTimes {
    /// From the moment at which the request was scheduled to its first token: the wait in the queue is not in it.
    pub time_to_first_token: Option<Duration>,
    /// The wait in the queue.
    pub queue: Option<Duration>,
    /// From the first token to the last.
    pub generation: Option<Duration>,
    /// The mean time from token to token.
    pub mean_gap: Option<Duration>,
}

impl EngineTimes {
    /// Reads a `metrics` value; anything but an object says nothing.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<EngineTimes, Fault> {
        let mut times = EngineTimes::default();
        if cursor.kind()? != Kind::Object {
            cursor.skip()?;
            return Ok(times);
        }
        cursor.object(|cursor, key| {
            match key.raw() {
                b"time_to_first_token_ms" => times.time_to_first_token = millis(cursor)?,
                b"queue_time_ms" => times.queue = millis(cursor)?,
                b"generation_time_ms" => times.generation = millis(cursor)?,
                b"mean_itl_ms" => times.mean_gap = millis(cursor)?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(times)
    }

    /// The times, if there are any.
    pub(super) fn known(self) -> Option<EngineTimes> {
        (self != EngineTimes::default()).then_some(self)
    }
}

/// Reads a number of milliseconds.
fn millis(cursor: &mut Cursor<'_>) -> Result<Option<Duration>, Fault> {
    if cursor.kind()? != Kind::Number {
        cursor.skip()?;
        return Ok(None);
    }
    let digits = std::str::from_utf8(cursor.number()?).ok();
    let millis = digits.and_then(|digits| digits.parse::<f64>().ok());
    Ok(millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1e3).ok()))
}
