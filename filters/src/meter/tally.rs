//! What has been read of an answer so far.
//!
//! In: events, or a whole answer. Out: the figures at the end. Nothing grows with the length of the answer.

use super::answer::Answer;
use super::checks::{Checks, Wanted};
use super::past::Past;
use super::{Dialect, Figures, InStreamError, Offset, Usage};
use crate::sse::Event;

/// What has been read so far.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) n_is_one: bool,
    pub(super) read: bool,
    // When the piece in hand came.
    pub(super) at: Offset,
    // Events still to come that only repeat the prompt.
    pub(super) echoes: u64,
    // An answer with more than one choice: usage that stands beside a choice is then that choice's own.
    several: bool,
    // Usage beside a choice: the running figure of that choice, or, for one choice, of the answer.
    beside: Option<Usage>,
    past: Past,
    // There only if something is to be judged.
    checks: Option<Box<Checks>>,
    pub(super) figures: Figures,
}

impl Tally {
    pub(super) fn new(n_is_one: bool) -> Tally {
        Tally {
            n_is_one,
            read: false,
            at: Offset::ZERO,
            echoes: 0,
            several: !n_is_one,
            beside: None,
            past: Past::default(),
            checks: None,
            figures: Figures::default(),
        }
    }

    /// Judges what the answer says, too. `is_whole`: it is no stream.
    pub(super) fn check(&mut self, wanted: Wanted, is_whole: bool) {
        if wanted != Wanted::default() {
            self.checks = Some(Box::new(Checks::new(wanted, is_whole)));
        }
    }

    pub(super) fn event(&mut self, dialect: Dialect, event: &Event<'_>) {
        if self.take(dialect, event).is_none() {
            self.figures.bad_events += 1;
        }
        self.figures.events += 1;
    }

    /// An event that the end of the stream ended: half of one is what a cut leaves, and no nonsense of the server.
    pub(super) fn last_event(&mut self, dialect: Dialect, event: &Event<'_>) {
        if self.take(dialect, event).is_some() {
            self.figures.events += 1;
        }
    }

    fn take(&mut self, dialect: Dialect, event: &Event<'_>) -> Option<()> {
        if !event.error.is_empty() {
            self.error(InStreamError::read(event.error));
            return Some(());
        }
        if event.data.trim_ascii() == DONE {
            self.figures.terminated = true;
            return Some(());
        }
        if event.data.is_empty() {
            return Some(());
        }
        let answer = dialect.read(event.data, &mut self.past).ok()?;
        if event.event == b"error" && answer.error.is_none() {
            self.error(InStreamError::read(event.data));
        }
        if let Some(checks) = &mut self.checks {
            // It has been read once, so it has no fault.
            let (Ok(()) | Err(_)) = (dialect.grammar().speak)(event.data, checks);
        }
        if answer.bears_tokens && self.echoes > 0 {
            self.echoes -= 1;
            self.add(answer);
            return Some(());
        }
        if answer.bears_tokens {
            self.figures.token_events += 1;
            let nth = self.figures.events + 1;
            self.figures.first_token_event.get_or_insert(nth);
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
    pub(super) fn whole(&mut self, dialect: Dialect, bytes: &[u8]) -> bool {
        let Ok(answer) = dialect.read(bytes, &mut self.past) else {
            return false;
        };
        // The usage of a plain answer is that of all its choices.
        let answer = Answer {
            beside_choices: false,
            ends: None,
            ..answer
        };
        if let Some(checks) = &mut self.checks {
            let (Ok(()) | Err(_)) = (dialect.grammar().speak)(bytes, checks);
        }
        self.figures.terminated = true;
        self.add(answer);
        true
    }

    fn add(&mut self, answer: Answer<'_>) {
        let figures = &mut self.figures;
        figures.finish_reasons.add(&answer.finish_reasons);
        self.several |= answer.several;
        if let Some(ends) = answer.ends {
            figures.terminated = ends;
        }
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

    pub(super) fn finish(self) -> Figures {
        let mut figures = self.figures;
        if figures.usage.is_none() && !self.several {
            figures.usage = self.beside;
        }
        // Where each choice counts its own, the count of one is not that of the answer, and its prompt may be another's too.
        if self.past.shares.several() {
            let all = Usage {
                completion: self.past.shares.tokens(),
                ..Usage::default()
            };
            figures.usage = all.if_real();
        }
        figures.engine_times = self.past.engine_times.known();
        if let Some(checks) = self.checks {
            let is_over = figures.terminated && figures.error.is_none();
            figures.json_ok = checks.json_ok(is_over);
            figures.tool_arguments_ok = checks.tool_arguments_ok(is_over);
        }
        figures.one_choice = !self.several;
        figures
    }
}

const DONE: &[u8] = b"[DONE]";
/// The name of a model in a message, if it is one and is not too long.
pub(super) fn model(name: &[u8]) -> Option<Box<str>> {
    let name = std::str::from_utf8(name).ok()?;
    (1..=LONGEST_MODEL)
        .contains(&name.len())
        .then(|| name.into())
}

/// The longest model name that is kept, in bytes.
const LONGEST_MODEL: usize = 256;
