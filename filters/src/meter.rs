//! Reads an answer's tokens as it passes.
//!
//! In: the body's bytes, in any cutting, each piece with the time it was read. Out: how many token events a piece
//! bore, and at the end the [`Figures`]. Never changes, holds back or orders a byte, never holds more than its
//! limit, and never panics: nonsense is counted and stepped over.

pub(crate) mod answer;
mod checks;
mod dialect;
mod engine_times;
mod figures;
mod finish_reason;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod in_stream_error;
mod infer_stream;
mod model_infer;
pub(crate) mod past;
mod tally;
mod usage;
mod whole;

pub use checks::Wanted;
pub use dialect::Dialect;
pub use engine_times::EngineTimes;
pub use figures::{Figures, Unmetered};
pub use finish_reason::{FinishReason, FinishReasons};
#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz_meter;
pub use in_stream_error::InStreamError;
pub use infer_stream::{Heard, InSequence, InferStream, Metered, StreamTally};
pub use usage::Usage;

use std::time::Duration;

use crate::sse::Splitter;
use dialect::Body;
use model_infer::ModelInfer;
use tally::Tally;
use whole::Whole;

/// Time since the exchange began.
pub type Offset = Duration;

/// What one piece of the answer brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// Token events that ended in this piece.
    pub token_events: u32,
    /// From the token event before to the first of these; the others came with it, so their gap is zero. Absent
    /// when there was none before, or none here.
    pub gap: Option<Duration>,
}

/// Reads one answer.
#[derive(Debug)]
pub struct Meter {
    dialect: Dialect,
    form: Form,
    tally: Tally,
}

#[derive(Debug)]
enum Form {
    Stream(Splitter),
    Whole(Whole),
    Message(ModelInfer),
}

impl Meter {
    /// A meter for an answer of server-sent events.
    ///
    /// `n_is_one`: the request asked for one choice; `limit`: the longest event that is read, in bytes.
    pub fn stream(dialect: Dialect, n_is_one: bool, limit: usize) -> Meter {
        let form = Form::Stream(Splitter::new(limit));
        Meter {
            dialect,
            form,
            tally: Tally::new(n_is_one),
        }
    }

    /// A meter for an answer of one JSON value, or of one message.
    ///
    /// `n_is_one`: the request asked for one choice; `limit`: the longest answer that is read, in bytes.
    pub fn whole(dialect: Dialect, n_is_one: bool, limit: usize) -> Meter {
        let form = match dialect.grammar().body {
            Body::Message => Form::Message(ModelInfer::new(limit)),
            Body::Json => Form::Whole(Whole::new(limit)),
            Body::JsonOrMedia => Form::Whole(Whole::or_media(limit)),
        };
        Meter {
            dialect,
            form,
            tally: Tally::new(n_is_one),
        }
    }

    /// The same meter, for an answer whose first `length` bytes alone are JSON, as `Inference-Header-Content-Length` says.
    /// It is they that must keep to the limit; what follows is not looked at.
    pub fn with_json_length(mut self, length: usize) -> Meter {
        if let Form::Whole(whole) = &mut self.form {
            whole.json = Some(length);
        }
        self
    }

    /// The same meter, for a stream in which each choice first repeats the last message: so many events that would bear
    /// tokens bear none.
    pub fn after_echoes(mut self, choices: u64) -> Meter {
        self.tally.echoes = choices;
        self
    }

    /// The same meter, which also judges whether what the answer says is JSON. It then reads each event twice.
    pub fn with_checks(mut self, wanted: Wanted) -> Meter {
        let is_stream = matches!(self.form, Form::Stream(_));
        self.tally.check(wanted, !is_stream);
        self
    }

    /// Reads the next piece of the body, which came at `at`.
    pub fn feed(&mut self, at: Offset, bytes: &[u8]) -> Fed {
        let Meter {
            dialect,
            form,
            tally,
        } = self;
        match form {
            Form::Stream(splitter) => {
                let (before, events) = (tally.figures.last_token, tally.figures.token_events);
                tally.read |= !bytes.is_empty();
                tally.at = at;
                splitter.feed(bytes, |event| tally.event(*dialect, &event));
                let token_events = tally.figures.token_events.saturating_sub(events);
                Fed {
                    token_events: u32::try_from(token_events).unwrap_or(u32::MAX),
                    gap: before
                        .filter(|_| token_events > 0)
                        .map(|before| at.saturating_sub(before)),
                }
            }
            Form::Whole(whole) => {
                whole.feed(*dialect, tally, bytes);
                Fed::default()
            }
            Form::Message(message) => {
                message.feed(tally, bytes);
                Fed::default()
            }
        }
    }

    /// The answer is over. An event that lacks its blank line counts as read with the last piece: that is when its
    /// bytes came, however long the end was in coming.
    pub fn finish(self) -> Figures {
        let Meter {
            dialect,
            form,
            mut tally,
        } = self;
        match form {
            Form::Stream(mut splitter) => {
                splitter.finish(|event| tally.last_event(dialect, &event));
                tally.figures.ends_with_body = dialect.grammar().ends_with_body;
                if splitter.skipped() > 0 {
                    tally.figures.unmetered = Some(Unmetered::EventTooLong);
                } else if tally.read && tally.figures.events == 0 && !splitter.recognised() {
                    tally.figures.unmetered = Some(Unmetered::NotSse);
                }
            }
            Form::Whole(whole) => whole.finish(dialect, &mut tally),
            Form::Message(message) => message.finish(&mut tally),
        }
        tally.finish()
    }
}

#[cfg(test)]
mod tests;
