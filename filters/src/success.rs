//! Whether an answer was of use, beyond having been carried.
//!
//! In: what became of an exchange, what the meter found in its answer, and what the caller judged afterwards. Out: good, bad
//! and why, or neither. Nobody is asked: a caller's judgement counts where there is one.

use crate::meter::Figures;
use crate::outcome::Outcome;

/// Whether an answer was of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// As far as can be told.
    Good,
    /// It was not.
    Bad(Flaw),
    /// Nobody waited for its end, so it proves nothing.
    Open,
}

/// Why an answer was of no use; of several the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// It did not come, or not whole.
    Outcome,
    /// It is no JSON where the request asked for JSON.
    Json,
    /// The arguments of a tool call are no JSON.
    ToolArguments,
    /// The caller says so.
    Feedback,
}

impl Flaw {
    /// All of them, in their order.
    pub const ALL: [Flaw; 4] = [
        Flaw::Outcome,
        Flaw::Json,
        Flaw::ToolArguments,
        Flaw::Feedback,
    ];

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Flaw::Outcome => "outcome",
            Flaw::Json => "json",
            Flaw::ToolArguments => "tool_arguments",
            Flaw::Feedback => "feedback",
        }
    }
}

impl Use {
    /// Whether it was, as far as that is told, and why not.
    pub fn told(self) -> (Option<bool>, Option<Flaw>) {
        match self {
            Use::Good => (Some(true), None),
            Use::Bad(flaw) => (Some(false), Some(flaw)),
            Use::Open => (None, None),
        }
    }

    /// The same once its caller has judged it. A bad answer stays bad for the reason that was found first, whatever is said
    /// of it later.
    pub fn heard(self, is_negative: bool) -> Use {
        match self {
            Use::Bad(flaw) => Use::Bad(flaw),
            Use::Good | Use::Open if is_negative => Use::Bad(Flaw::Feedback),
            Use::Good | Use::Open => Use::Good,
        }
    }
}

/// Judges an answer before anybody else has.
pub fn of(outcome: Outcome, figures: Option<&Figures>) -> Use {
    match outcome {
        Outcome::ClientGone | Outcome::Drained => return Use::Open,
        Outcome::Ok => {}
        Outcome::Truncated
        | Outcome::ErrorInStream
        | Outcome::EngineError
        | Outcome::EngineReset
        | Outcome::Timeout
        | Outcome::Refused => return Use::Bad(Flaw::Outcome),
    }
    let Some(figures) = figures else {
        return Use::Good;
    };
    if figures.json_ok == Some(false) {
        Use::Bad(Flaw::Json)
    } else if figures.tool_arguments_ok == Some(false) {
        Use::Bad(Flaw::ToolArguments)
    } else {
        Use::Good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_good_until_something_speaks_against_it() {
        let figures = |json_ok, tool_arguments_ok| Figures {
            json_ok,
            tool_arguments_ok,
            ..Figures::default()
        };
        let check = |outcome, figures: Option<Figures>, expected| {
            assert_eq!(
                of(outcome, figures.as_ref()),
                expected,
                "{outcome:?} {figures:?}"
            );
        };
        check(Outcome::Ok, None, Use::Good);
        check(Outcome::Ok, Some(figures(None, None)), Use::Good);
        check(
            Outcome::Ok,
            Some(figures(Some(true), Some(true))),
            Use::Good,
        );
        check(
            Outcome::Ok,
            Some(figures(Some(false), Some(false))),
            Use::Bad(Flaw::Json),
        );
        check(
            Outcome::Ok,
            Some(figures(None, Some(false))),
            Use::Bad(Flaw::ToolArguments),
        );
        check(
            Outcome::Truncated,
            Some(figures(Some(true), None)),
            Use::Bad(Flaw::Outcome),
        );
        check(Outcome::Refused, None, Use::Bad(Flaw::Outcome));
        check(Outcome::ClientGone, None, Use::Open);
        check(Outcome::Drained, None, Use::Open);
    }

    #[test]
    fn a_caller_can_make_an_answer_bad_and_never_good_again() {
        let check = |before: Use, is_negative, after| {
            assert_eq!(before.heard(is_negative), after, "{before:?} {is_negative}");
        };
        check(Use::Good, false, Use::Good);
        check(Use::Good, true, Use::Bad(Flaw::Feedback));
        check(Use::Open, false, Use::Good);
        check(Use::Open, true, Use::Bad(Flaw::Feedback));
        for flaw in Flaw::ALL {
            check(Use::Bad(flaw), true, Use::Bad(flaw));
            check(Use::Bad(flaw), false, Use::Bad(flaw));
        }
    }

    #[test]
    fn every_flaw_is_in_its_place() {
        for (place, flaw) in Flaw::ALL.into_iter().enumerate() {
            assert_eq!(flaw as usize, place);
        }
    }
}
