//! Reads an answer's tokens as it passes.
//!
//! In: the body's bytes, in any cutting, each piece with the time it was read. Out: how many token events a piece
//! bore, and at the end the [`Figures`]. Never changes, holds back or orders a byte, never holds more than its
//! limit, and never panics: nonsense is counted and stepped over.

pub(crate) mod answer;
mod chat;
mod completions;
mod figures;
#[cfg(any(test, fuzzing))]
mod fuzz;

pub use figures::{Figures, FinishReason, FinishReasons, InStreamError, Unmetered, Usage};
#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz_meter;

use std::time::Duration;

use crate::sse::{Event, Splitter};
use answer::Answer;

/// Time since the exchange began.
pub type Offset = Duration;

/// The form in which an answer speaks of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's `/v1/chat/completions`.
    Chat,
    /// OpenAI's `/v1/completions`.
    Completions,
}

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
}

/// One JSON answer on its way in.
#[derive(Debug)]
struct Whole {
    limit: usize,
    // held.len() <= limit
    held: Vec<u8>,
    stage: Stage,
}

/// ```text
///  Gathering ──a first piece that is whole──► Read ──more──► Spoilt
///      └────────────more than the limit─────► Spoilt
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gathering,
    Read,
    Spoilt,
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

    /// A meter for an answer of one JSON value.
    ///
    /// `n_is_one`: the request asked for one choice; `limit`: the longest answer that is read, in bytes.
    pub fn whole(dialect: Dialect, n_is_one: bool, limit: usize) -> Meter {
        let form = Form::Whole(Whole {
            limit,
            held: Vec::new(),
            stage: Stage::Gathering,
        });
        Meter {
            dialect,
            form,
            tally: Tally::new(n_is_one),
        }
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
                if splitter.skipped() > 0 {
                    tally.figures.unmetered = Some(Unmetered::EventTooLong);
                } else if tally.read && tally.figures.events == 0 && !splitter.recognised() {
                    tally.figures.unmetered = Some(Unmetered::NotSse);
                }
            }
            Form::Whole(whole) => whole.finish(dialect, &mut tally),
        }
        tally.finish()
    }
}

impl Whole {
    fn feed(&mut self, dialect: Dialect, tally: &mut Tally, bytes: &[u8]) {
        match self.stage {
            Stage::Gathering => {}
            Stage::Read if bytes.iter().all(u8::is_ascii_whitespace) => return,
            Stage::Read => {
                *tally = Tally::new(tally.n_is_one);
                self.spoil(tally, Unmetered::Unparsable);
                return;
            }
            Stage::Spoilt => return,
        }
        if self.held.len().saturating_add(bytes.len()) > self.limit {
            self.spoil(tally, Unmetered::TooLarge);
            return;
        }
        if self.held.is_empty() && ends_an_object(bytes) && tally.whole(dialect, bytes) {
            self.stage = Stage::Read;
            return;
        }
        self.held.extend_from_slice(bytes);
    }

    fn finish(mut self, dialect: Dialect, tally: &mut Tally) {
        if self.stage == Stage::Gathering && !tally.whole(dialect, &self.held) {
            self.spoil(tally, Unmetered::Unparsable);
        }
    }

    fn spoil(&mut self, tally: &mut Tally, why: Unmetered) {
        tally.figures.unmetered = Some(why);
        self.stage = Stage::Spoilt;
        self.held = Vec::new();
    }
}

/// Whether a piece may be a whole answer: only then is it worth a look before the end.
fn ends_an_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().last() == Some(&b'}')
}

/// What has been read so far.
#[derive(Debug)]
struct Tally {
    n_is_one: bool,
    read: bool,
    // When the piece in hand came.
    at: Offset,
    // An answer with more than one choice: usage that stands beside a choice is then that choice's own.
    several: bool,
    // Usage beside a choice: the running figure of that choice, or, for one choice, of the answer.
    beside: Option<Usage>,
    figures: Figures,
}

impl Tally {
    fn new(n_is_one: bool) -> Tally {
        Tally {
            n_is_one,
            read: false,
            at: Offset::ZERO,
            several: !n_is_one,
            beside: None,
            figures: Figures::default(),
        }
    }

    fn event(&mut self, dialect: Dialect, event: &Event<'_>) {
        self.figures.events += 1;
        if self.take(dialect, event).is_none() {
            self.figures.bad_events += 1;
        }
    }

    /// An event that the end of the stream ended: half of one is what a cut leaves, and no nonsense of the server.
    fn last_event(&mut self, dialect: Dialect, event: &Event<'_>) {
        if self.take(dialect, event).is_some() {
            self.figures.events += 1;
        }
    }

    fn take(&mut self, dialect: Dialect, event: &Event<'_>) -> Option<()> {
        if !event.error.is_empty() {
            self.error(InStreamError::read(event.error));
            return Some(());
        }
        if event.data == DONE {
            self.figures.terminated = true;
            return Some(());
        }
        if event.data.is_empty() {
            return Some(());
        }
        let answer = answer::read(dialect, event.data).ok()?;
        if answer.bears_tokens {
            self.figures.token_events += 1;
            self.figures.first_token.get_or_insert(self.at);
            self.figures.last_token = Some(self.at);
        }
        if answer.shows_text {
            self.figures.first_output.get_or_insert(self.at);
        }
        self.add(answer);
        Some(())
    }

    /// Reads a whole answer; false if it is none.
    fn whole(&mut self, dialect: Dialect, bytes: &[u8]) -> bool {
        let Ok(answer) = answer::read(dialect, bytes) else {
            return false;
        };
        // The usage of a plain answer is that of all its choices.
        let answer = Answer {
            beside_choices: false,
            ..answer
        };
        self.figures.terminated = true;
        self.add(answer);
        true
    }

    fn add(&mut self, answer: Answer<'_>) {
        let figures = &mut self.figures;
        figures.finish_reasons.add(&answer.finish_reasons);
        self.several |= answer.highest_index > 0;
        if let Some(usage) = answer.usage {
            if answer.beside_choices {
                self.beside = Some(usage);
            } else {
                figures.usage = Some(usage);
            }
        }
        if figures.model.is_none() {
            figures.model = answer.model.and_then(|model| model.to_text(LONGEST_MODEL));
        }
        if let Some(error) = answer.error {
            self.error(error);
        }
    }

    /// The first error is the cause; what follows it is its wake.
    fn error(&mut self, error: InStreamError) {
        self.figures.error.get_or_insert(error);
    }

    fn finish(self) -> Figures {
        let mut figures = self.figures;
        if figures.usage.is_none() && !self.several {
            figures.usage = self.beside;
        }
        figures.one_choice = !self.several;
        figures
    }
}

const DONE: &[u8] = b"[DONE]";
/// The longest model name that is kept, in bytes.
const LONGEST_MODEL: usize = 256;

#[cfg(test)]
mod tests;
