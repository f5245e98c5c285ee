//! Whose span is kept when an exchange has ended.
//!
//! In: what was decided at its head, and what became of it. Out: why its span is kept, or that it is not. An exchange that
//! was not sampled, whoever decided that, is kept at the end all the same if it shows what people look for: an error, a
//! fault, a long wait. Its flags stay as they were sent, so that nobody downstream is misled.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Rule, Trace};
use crate::outcome::Outcome;

/// What is kept though it was not sampled.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Always {
    /// Exchanges that failed: every outcome but `ok` and `client_gone`.
    Error,
    /// Exchanges with an injected fault.
    Fault,
    /// Exchanges that took `slow` or longer: to the first token, or, where none was read, to the end.
    Slow,
}

impl Always {
    /// As it is written.
    pub fn label(self) -> &'static str {
        match self {
            Always::Error => "error",
            Always::Fault => "fault",
            Always::Slow => "slow",
        }
    }
}

/// Why a span is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kept {
    /// The caller's trace is sampled.
    Caller,
    /// It was sampled here, when it began.
    Share,
    /// It was not sampled, and is kept all the same.
    Always(Always),
}

impl Kept {
    /// A word for a span's attribute.
    pub fn label(self) -> &'static str {
        match self {
            Kept::Caller => "caller",
            Kept::Share => "share",
            Kept::Always(always) => always.label(),
        }
    }
}

/// What became of an exchange, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// What became of it.
    pub outcome: Outcome,
    /// Whether a fault was injected.
    pub is_injected: bool,
    /// How long its first token took, or all of it where none was read; absent where a long time means nothing.
    pub waited: Option<Duration>,
}

impl Rule {
    /// Why the span of an exchange is kept. `admit` is the word of the cap on what is kept all the same, and is asked about
    /// nothing else.
    pub fn keeps(&self, trace: &Trace, ended: Ended, admit: impl FnOnce() -> bool) -> Option<Kept> {
        if trace.sampled() {
            return Some(if trace.is_told {
                Kept::Caller
            } else {
                Kept::Share
            });
        }
        let shows = |always: &&Always| match always {
            Always::Error => ended.outcome.is_error(),
            Always::Fault => ended.is_injected,
            Always::Slow => ended.waited.is_some_and(|waited| waited >= self.slow.get()),
        };
        let always = self.always.iter().find(shows)?;
        admit().then_some(Kept::Always(*always))
    }
}
