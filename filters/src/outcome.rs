//! Names how an exchange ended.
//!
//! In: what the relay saw of the end, the engine's status, and what the meter read. Out: one [`Outcome`]. A status
//! of 200 alone is no success: a stream may carry an error, or stop before its terminator.

use crate::meter::{Figures, Unmetered};

/// What the relay saw of an exchange's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer was carried whole, by its framing.
    Complete,
    /// The engine closed the connection before the answer was whole.
    EngineClosed,
    /// The engine reset the connection or the stream.
    EngineReset,
    /// There was no connection to be had.
    Unreachable,
    /// No answer began in time.
    FirstByteTimeout,
    /// Nothing came for too long.
    IdleTimeout,
    /// The exchange took too long.
    TotalTimeout,
    /// The client left.
    ClientGone,
    /// The client took no bytes for too long.
    ClientStalled,
    /// Greylag shut down and could not wait.
    Drained,
    /// Greylag answered in the engine's place.
    Refused,
}

impl End {
    /// A word for the log.
    pub fn label(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::EngineClosed => "engine_closed",
            End::EngineReset => "engine_reset",
            End::Unreachable => "unreachable",
            End::FirstByteTimeout => "first_byte_timeout",
            End::IdleTimeout => "idle_timeout",
            End::TotalTimeout => "total_timeout",
            End::ClientGone => "client_gone",
            End::ClientStalled => "client_stalled",
            End::Drained => "drained",
            End::Refused => "refused",
        }
    }
}

/// How an exchange ended, as metrics and gates count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A whole answer.
    Ok,
    /// A stream without its terminator, or half an answer.
    Truncated,
    /// An error reported under status 200.
    ErrorInStream,
    /// The engine refused, failed or was not there.
    EngineError,
    /// The engine reset the connection.
    EngineReset,
    /// A deadline passed.
    Timeout,
    /// The client left, or stopped reading.
    ClientGone,
    /// Greylag refused.
    Refused,
    /// Greylag shut down.
    Drained,
}

impl Outcome {
    /// Whether it is an error of somebody's: a client that leaves is none.
    pub fn is_error(self) -> bool {
        match self {
            Outcome::Ok | Outcome::ClientGone => false,
            Outcome::Truncated
            | Outcome::ErrorInStream
            | Outcome::EngineError
            | Outcome::EngineReset
            | Outcome::Timeout
            | Outcome::Refused
            | Outcome::Drained => true,
        }
    }

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Truncated => "truncated",
            Outcome::ErrorInStream => "error_in_stream",
            Outcome::EngineError => "engine_error",
            Outcome::EngineReset => "engine_reset",
            Outcome::Timeout => "timeout",
            Outcome::ClientGone => "client_gone",
            Outcome::Refused => "refused",
            Outcome::Drained => "drained",
        }
    }
}

/// How an answer ended that nothing but the end of its connection has ended (`is_framed`: it said itself where its end is): what
/// is then no whole value, or no line of a stream, is half of one.
pub fn end(end: End, is_framed: bool, figures: Option<&Figures>) -> End {
    let unread = figures.and_then(|figures| figures.unmetered);
    match (end, unread) {
        (End::Complete, Some(Unmetered::Unparsable | Unmetered::NotSse)) if !is_framed => {
            End::EngineClosed
        }
        _ => end,
    }
}

/// Names the outcome.
///
/// `status`: the engine's, if it answered; `sse`: the answer is a stream of events; `figures`: the meter's, if one
/// read the answer. A terminator is missed only by a meter that could read all of the stream, and only in a dialect that
/// has one.
pub fn classify(end: End, status: Option<u16>, sse: bool, figures: Option<&Figures>) -> Outcome {
    let failed = status.is_some_and(|status| status >= 400);
    let error = figures.is_some_and(|figures| figures.error.is_some());
    let terminated = figures.is_some_and(|figures| {
        figures.terminated || (figures.ends_with_body && end == End::Complete)
    });
    let readable = figures.is_some_and(|figures| figures.unmetered.is_none());
    match end {
        End::Refused => Outcome::Refused,
        End::Drained => Outcome::Drained,
        End::Unreachable => Outcome::EngineError,
        End::FirstByteTimeout | End::IdleTimeout | End::TotalTimeout => Outcome::Timeout,
        End::EngineReset
        | End::Complete
        | End::EngineClosed
        | End::ClientGone
        | End::ClientStalled
            if failed =>
        {
            Outcome::EngineError
        }
        End::EngineReset => Outcome::EngineReset,
        End::Complete | End::EngineClosed | End::ClientGone | End::ClientStalled if error => {
            Outcome::ErrorInStream
        }
        // Callers often hang up as soon as they have read the terminator.
        End::ClientGone | End::ClientStalled if sse && terminated => Outcome::Ok,
        End::ClientGone | End::ClientStalled => Outcome::ClientGone,
        End::Complete if sse && readable && !terminated => Outcome::Truncated,
        End::Complete => Outcome::Ok,
        End::EngineClosed if sse && terminated => Outcome::Ok,
        End::EngineClosed if status.is_none() => Outcome::EngineReset,
        End::EngineClosed if sse && !readable => Outcome::EngineError,
        End::EngineClosed => Outcome::Truncated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::InStreamError;

    #[test]
    fn an_end_has_one_outcome() {
        let whole = Figures {
            terminated: true,
            ..Figures::default()
        };
        let cut = Figures::default();
        let failed = Figures {
            error: Some(InStreamError::default()),
            ..Figures::default()
        };
        let failed_and_done = Figures {
            terminated: true,
            ..failed.clone()
        };
        let bodied = Figures {
            ends_with_body: true,
            ..Figures::default()
        };
        let bodied_and_failed = Figures {
            ends_with_body: true,
            ..failed.clone()
        };
        let blind = Figures {
            unmetered: Some(Unmetered::EventTooLong),
            ..Figures::default()
        };

        let check = |end, status, sse, figures: Option<&Figures>, outcome| {
            let found = classify(end, status, sse, figures);
            assert_eq!(found, outcome, "{end:?} {status:?} {sse} {figures:?}");
        };
        let ok = Some(200);
        check(End::Complete, ok, true, Some(&whole), Outcome::Ok);
        check(End::Complete, ok, true, Some(&cut), Outcome::Truncated);
        check(End::Complete, ok, true, Some(&bodied), Outcome::Ok);
        check(
            End::Complete,
            ok,
            true,
            Some(&bodied_and_failed),
            Outcome::ErrorInStream,
        );
        check(
            End::Complete,
            ok,
            true,
            Some(&failed),
            Outcome::ErrorInStream,
        );
        check(
            End::Complete,
            ok,
            true,
            Some(&failed_and_done),
            Outcome::ErrorInStream,
        );
        check(End::Complete, ok, true, Some(&blind), Outcome::Ok);
        check(End::Complete, ok, true, None, Outcome::Ok);
        check(End::Complete, ok, false, None, Outcome::Ok);
        check(End::Complete, ok, false, Some(&cut), Outcome::Ok);
        check(
            End::Complete,
            ok,
            false,
            Some(&failed_and_done),
            Outcome::ErrorInStream,
        );
        check(End::Complete, Some(404), false, None, Outcome::EngineError);
        check(
            End::Complete,
            Some(503),
            true,
            Some(&whole),
            Outcome::EngineError,
        );
        check(End::Complete, Some(304), false, None, Outcome::Ok);

        check(End::EngineClosed, ok, true, Some(&cut), Outcome::Truncated);
        check(
            End::EngineClosed,
            ok,
            true,
            Some(&bodied),
            Outcome::Truncated,
        );
        check(End::EngineClosed, ok, true, Some(&whole), Outcome::Ok);
        check(
            End::EngineClosed,
            ok,
            true,
            Some(&failed),
            Outcome::ErrorInStream,
        );
        check(
            End::EngineClosed,
            ok,
            true,
            Some(&blind),
            Outcome::EngineError,
        );
        check(End::EngineClosed, ok, true, None, Outcome::EngineError);
        check(End::EngineClosed, ok, false, None, Outcome::Truncated);
        check(
            End::EngineClosed,
            Some(500),
            false,
            None,
            Outcome::EngineError,
        );

        check(End::EngineClosed, None, false, None, Outcome::EngineReset);

        check(End::EngineReset, ok, true, Some(&cut), Outcome::EngineReset);
        check(
            End::EngineReset,
            ok,
            true,
            Some(&failed),
            Outcome::EngineReset,
        );
        check(End::EngineReset, None, false, None, Outcome::EngineReset);
        check(End::Unreachable, None, false, None, Outcome::EngineError);

        check(End::FirstByteTimeout, None, false, None, Outcome::Timeout);
        check(End::IdleTimeout, ok, true, Some(&cut), Outcome::Timeout);
        check(End::TotalTimeout, ok, true, Some(&cut), Outcome::Timeout);

        check(End::ClientGone, None, false, None, Outcome::ClientGone);
        check(End::ClientGone, ok, true, Some(&cut), Outcome::ClientGone);
        check(
            End::ClientGone,
            ok,
            true,
            Some(&bodied),
            Outcome::ClientGone,
        );
        check(End::ClientGone, ok, true, Some(&whole), Outcome::Ok);
        check(
            End::ClientGone,
            ok,
            true,
            Some(&failed),
            Outcome::ErrorInStream,
        );
        check(
            End::ClientGone,
            Some(500),
            false,
            None,
            Outcome::EngineError,
        );
        check(
            End::ClientStalled,
            ok,
            true,
            Some(&cut),
            Outcome::ClientGone,
        );
        check(
            End::ClientGone,
            ok,
            false,
            Some(&whole),
            Outcome::ClientGone,
        );

        check(End::Drained, ok, true, Some(&cut), Outcome::Drained);
        check(End::Refused, None, false, None, Outcome::Refused);
        check(End::Refused, Some(503), false, None, Outcome::Refused);
    }
    #[test]
    fn half_of_what_only_a_connection_ends_is_half() {
        let check = |unmetered: Option<Unmetered>, is_framed: bool, expected: End| {
            let figures = Figures {
                unmetered,
                ..Figures::default()
            };
            assert_eq!(end(End::Complete, is_framed, Some(&figures)), expected);
        };
        check(Some(Unmetered::Unparsable), false, End::EngineClosed);
        check(Some(Unmetered::NotSse), false, End::EngineClosed);
        check(Some(Unmetered::Unparsable), true, End::Complete);
        check(Some(Unmetered::NotJson), false, End::Complete);
        check(None, false, End::Complete);
        assert_eq!(end(End::Complete, false, None), End::Complete);
        assert_eq!(end(End::ClientGone, false, None), End::ClientGone);
    }
}
