//! What was wrong with an exchange: how bad it is, whose fault, and under which name.
//!
//! In: how an exchange ended, what became of it, the statuses of both sides. Out: a [`Cause`], or nothing where all is well.
//! Every word is from a closed list, on which alerts may depend; docs/access-log.md has the table.

use crate::meter::InStreamError;
use crate::outcome::{End, Outcome};
use crate::refusal::Reason;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// The caller's doing, or load: nothing is broken.
    Warn,
    /// An engine, or the way to it, failed.
    Error,
    /// Greylag itself is at fault.
    Fatal,
}

impl Grade {
    /// The word for it.
    pub fn label(self) -> &'static str {
        match self {
            Grade::Warn => "warn",
            Grade::Error => "error",
            Grade::Fatal => "fatal",
        }
    }
}

/// Whose doing it was in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// There was no connection to the engine.
    EngineUnreachable,
    /// The engine has more to do than it takes: 429, 503, `pool.requests`.
    EngineOverloaded,
    /// The engine broke off.
    EngineDied,
    /// The engine answered with an error of its own.
    EngineFailed,
    /// The engine took longer than its timeouts allow.
    EngineSlow,
    /// The caller's own deadline passed, which may be any.
    Deadline,
    /// What the engine sent makes no sense.
    EngineGarbage,
    /// The engine was known to be down.
    EngineUnhealthy,
    /// The client left, or took nothing.
    ClientGone,
    /// The request was refused as it is, by Greylag or by the engine.
    BadRequest,
    /// A limit of Greylag's was reached.
    Limits,
    /// Greylag ended.
    Shutdown,
    /// What is configured does not lead there.
    Configuration,
    /// A fault that a rule has planned.
    FaultInjected,
    /// Greylag itself.
    Internal,
}

impl Root {
    /// All of them.
    pub const ALL: [Root; 15] = [
        Root::EngineUnreachable,
        Root::EngineOverloaded,
        Root::EngineDied,
        Root::EngineFailed,
        Root::EngineSlow,
        Root::Deadline,
        Root::EngineGarbage,
        Root::EngineUnhealthy,
        Root::ClientGone,
        Root::BadRequest,
        Root::Limits,
        Root::Shutdown,
        Root::Configuration,
        Root::FaultInjected,
        Root::Internal,
    ];

    /// The word for it.
    pub const fn label(self) -> &'static str {
        match self {
            Root::EngineUnreachable => "engine_unreachable",
            Root::EngineOverloaded => "engine_overloaded",
            Root::EngineDied => "engine_died",
            Root::EngineFailed => "engine_failed",
            Root::EngineSlow => "engine_slow",
            Root::Deadline => "deadline",
            Root::EngineGarbage => "engine_garbage",
            Root::EngineUnhealthy => "engine_unhealthy",
            Root::ClientGone => "client_gone",
            Root::BadRequest => "bad_request",
            Root::Limits => "limits",
            Root::Shutdown => "shutdown",
            Root::Configuration => "configuration",
            Root::FaultInjected => "fault_injected",
            Root::Internal => "internal",
        }
    }

    fn grade(self) -> Grade {
        match self {
            Root::ClientGone
            | Root::BadRequest
            | Root::Limits
            | Root::EngineOverloaded
            | Root::Deadline
            | Root::Shutdown
            | Root::FaultInjected => Grade::Warn,
            Root::EngineUnreachable
            | Root::EngineDied
            | Root::EngineFailed
            | Root::EngineSlow
            | Root::EngineGarbage
            | Root::EngineUnhealthy
            | Root::Configuration => Grade::Error,
            Root::Internal => Grade::Fatal,
        }
    }
}

/// What was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Whose doing it was.
    pub root: Root,
    /// `domain.kind.state`: where it showed, in what, and how it was found.
    pub code: &'static str,
}

impl Cause {
    /// How bad it is.
    pub fn grade(&self) -> Grade {
        self.root.grade()
    }
}

/// What the relay knows of an exchange that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// What became of it.
    pub outcome: Outcome,
    /// How it ended on the wire.
    pub end: End,
    /// Why Greylag answered itself, or cut the answer.
    pub reason: Option<Reason>,
    /// The engine's status, that of a call of gRPC as one of HTTP's.
    pub engine_status: Option<u16>,
    /// The status that an error within the answer names, as one of HTTP's.
    pub stream_status: Option<u16>,
    /// The whole request had come.
    pub is_whole: bool,
    /// An answer had begun.
    pub is_answered: bool,
}

/// What an error within an answer says as a status of HTTP: its code, or its type where that alone says it, in OpenAI's,
/// vLLM's and Anthropic's words.
pub fn stream_status(error: &InStreamError) -> Option<u16> {
    let code = error.code.as_ref().and_then(|code| code.parse().ok());
    code.or(match error.kind.as_deref()? {
        "invalid_request_error" | "BadRequestError" => Some(400),
        "not_found_error" | "NotFoundError" => Some(404),
        "request_too_large" => Some(413),
        "rate_limit_error" => Some(429),
        "overloaded_error" => Some(503),
        _ => None,
    })
}

/// What was wrong with an exchange; nothing where all is well.
pub fn of(over: &Over) -> Option<Cause> {
    let cause = |root, code| Some(Cause { root, code });
    match over.outcome {
        Outcome::Ok => None,
        Outcome::ClientGone => match over.end {
            End::ClientStalled => cause(Root::ClientGone, "client.connection.stalled"),
            _ => cause(Root::ClientGone, "client.connection.left"),
        },
        Outcome::Drained => cause(Root::Shutdown, "greylag.shutdown.drained"),
        Outcome::Refused => Some(refused(over.reason.unwrap_or(Reason::Internal))),
        Outcome::Timeout => match (over.reason, over.end) {
            (Some(Reason::DeadlineExceeded), _) => cause(Root::Deadline, "client.call.deadline"),
            // A client's pauses have a limit of their own, so it is the time of all of them that has passed.
            (_, End::TotalTimeout) if !over.is_whole => {
                cause(Root::BadRequest, "client.request.timeout")
            }
            (_, End::FirstByteTimeout) => cause(Root::EngineSlow, "engine.timeout.first_byte"),
            (_, End::IdleTimeout) => cause(Root::EngineSlow, "engine.timeout.idle"),
            _ => cause(Root::EngineSlow, "engine.timeout.total"),
        },
        // What would have been refused as a whole, had it been found sooner.
        Outcome::ErrorInStream => match over.stream_status {
            Some(429 | 503) => cause(Root::EngineOverloaded, "engine.stream.overloaded"),
            Some(400..=499) => cause(Root::BadRequest, "engine.stream.rejected"),
            _ => cause(Root::EngineFailed, "engine.stream.error"),
        },
        Outcome::Truncated => match over.end {
            End::EngineClosed => cause(Root::EngineDied, "engine.stream.closed"),
            _ => cause(Root::EngineDied, "engine.stream.unterminated"),
        },
        Outcome::EngineReset if over.reason == Some(Reason::EngineGarbage) => {
            cause(Root::EngineGarbage, "engine.answer.garbage")
        }
        Outcome::EngineReset => match over.is_answered {
            true => cause(Root::EngineDied, "engine.answer.reset"),
            false => cause(Root::EngineDied, "engine.connection.reset"),
        },
        Outcome::EngineError => Some(failed(over)),
    }
}

fn failed(over: &Over) -> Cause {
    let cause = |root, code| Cause { root, code };
    match over.engine_status {
        None if over.end == End::Unreachable => {
            cause(Root::EngineUnreachable, "engine.connection.unreachable")
        }
        Some(429 | 503) => cause(Root::EngineOverloaded, "engine.answer.overloaded"),
        Some(400..=499) => cause(Root::BadRequest, "engine.answer.rejected"),
        Some(500..) => cause(Root::EngineFailed, "engine.answer.failed"),
        // An answer that began well and broke off, where nobody could read it.
        Some(_) => cause(Root::EngineDied, "engine.answer.closed"),
        None => cause(Root::EngineDied, "engine.connection.closed"),
    }
}

fn refused(reason: Reason) -> Cause {
    let cause = |root, code| Cause { root, code };
    match reason {
        Reason::BadRequest => cause(Root::BadRequest, "client.request.malformed"),
        Reason::HeadTooLarge => cause(Root::BadRequest, "client.request.head_too_large"),
        Reason::RequestTimeout => cause(Root::BadRequest, "client.request.timeout"),
        Reason::InvalidJson => cause(Root::BadRequest, "client.request.invalid_json"),
        Reason::ExpectationFailed => cause(Root::BadRequest, "client.request.expectation"),
        Reason::Unsupported => cause(Root::BadRequest, "client.request.unsupported"),
        Reason::ClientStalled => cause(Root::ClientGone, "client.connection.stalled"),
        Reason::TlsHandshake => cause(Root::BadRequest, "client.tls.handshake"),
        Reason::ProxyHeader => cause(Root::BadRequest, "client.proxy.header"),
        Reason::ProxyUntrusted => cause(Root::BadRequest, "client.proxy.untrusted"),
        Reason::BodyTooLarge => cause(Root::Limits, "greylag.limit.body"),
        Reason::MemorySpent => cause(Root::Limits, "greylag.limit.memory"),
        Reason::TooManyConnections => cause(Root::Limits, "greylag.limit.connections"),
        Reason::EngineFull => cause(Root::EngineOverloaded, "greylag.limit.engine"),
        Reason::EngineUnreachable => {
            cause(Root::EngineUnreachable, "engine.connection.unreachable")
        }
        Reason::EngineUnhealthy => cause(Root::EngineUnhealthy, "engine.health.down"),
        Reason::EngineClosed => cause(Root::EngineDied, "engine.connection.closed"),
        Reason::EngineGarbage => cause(Root::EngineGarbage, "engine.answer.garbage"),
        Reason::FirstByteTimeout => cause(Root::EngineSlow, "engine.timeout.first_byte"),
        Reason::IdleTimeout => cause(Root::EngineSlow, "engine.timeout.idle"),
        Reason::TotalTimeout => cause(Root::EngineSlow, "engine.timeout.total"),
        Reason::DeadlineExceeded => cause(Root::Deadline, "client.call.deadline"),
        Reason::NoApiKey => cause(Root::Configuration, "greylag.config.no_api_key"),
        Reason::NoGrpc => cause(Root::Configuration, "greylag.config.no_grpc"),
        Reason::LoopDetected => cause(Root::Configuration, "greylag.config.loop"),
        Reason::Drained => cause(Root::Shutdown, "greylag.shutdown.drained"),
        Reason::Internal => cause(Root::Internal, "greylag.internal.fault"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(outcome: Outcome, end: End) -> Over {
        Over {
            outcome,
            end,
            reason: None,
            engine_status: None,
            stream_status: None,
            is_whole: true,
            is_answered: false,
        }
    }

    #[test]
    fn what_ended_badly_has_a_cause_and_what_ended_well_none() {
        let check = |over: Over, expected: Option<(&str, &str, &str)>| {
            let found =
                of(&over).map(|cause| (cause.grade().label(), cause.root.label(), cause.code));
            assert_eq!(found, expected, "{over:?}");
        };
        let status = |status| Over {
            engine_status: Some(status),
            ..over(Outcome::EngineError, End::Complete)
        };
        let because = |reason, over| Over {
            reason: Some(reason),
            ..over
        };
        check(over(Outcome::Ok, End::Complete), None);
        // A client that leaves after the terminator has all it wanted.
        check(over(Outcome::Ok, End::ClientGone), None);
        let left = Some(("warn", "client_gone", "client.connection.left"));
        check(over(Outcome::ClientGone, End::ClientGone), left);
        let overloaded = Some(("warn", "engine_overloaded", "engine.answer.overloaded"));
        check(status(503), overloaded);
        check(status(429), overloaded);
        let rejected = Some(("warn", "bad_request", "engine.answer.rejected"));
        check(status(404), rejected);
        let failed = Some(("error", "engine_failed", "engine.answer.failed"));
        check(status(500), failed);
        let closed = Some(("error", "engine_died", "engine.answer.closed"));
        check(status(200), closed);
        let away = Some((
            "error",
            "engine_unreachable",
            "engine.connection.unreachable",
        ));
        check(over(Outcome::EngineError, End::Unreachable), away);
        let error = Some(("error", "engine_failed", "engine.stream.error"));
        check(over(Outcome::ErrorInStream, End::Complete), error);
        let in_stream = |status| Over {
            stream_status: Some(status),
            ..over(Outcome::ErrorInStream, End::Complete)
        };
        check(in_stream(500), error);
        check(
            in_stream(400),
            Some(("warn", "bad_request", "engine.stream.rejected")),
        );
        check(
            in_stream(503),
            Some(("warn", "engine_overloaded", "engine.stream.overloaded")),
        );
        let cut = Some(("error", "engine_died", "engine.stream.closed"));
        check(over(Outcome::Truncated, End::EngineClosed), cut);
        let garbage = Some(("error", "engine_garbage", "engine.answer.garbage"));
        let reset = over(Outcome::EngineReset, End::EngineReset);
        check(because(Reason::EngineGarbage, reset), garbage);
        let slow = Some(("warn", "deadline", "client.call.deadline"));
        let late = over(Outcome::Timeout, End::TotalTimeout);
        check(because(Reason::DeadlineExceeded, late), slow);
        let unfinished = Over {
            is_whole: false,
            ..late
        };
        check(
            unfinished,
            Some(("warn", "bad_request", "client.request.timeout")),
        );
        check(late, Some(("error", "engine_slow", "engine.timeout.total")));
        let untaken = Over {
            end: End::FirstByteTimeout,
            ..unfinished
        };
        check(
            untaken,
            Some(("error", "engine_slow", "engine.timeout.first_byte")),
        );
        let limit = Some(("warn", "limits", "greylag.limit.memory"));
        let refused = over(Outcome::Refused, End::Refused);
        check(because(Reason::MemorySpent, refused), limit);
        let ours = Some(("fatal", "internal", "greylag.internal.fault"));
        check(refused, ours);
    }

    #[test]
    fn an_error_within_an_answer_has_a_status_where_it_says_one() {
        let check = |code: Option<&str>, kind: Option<&str>, expected| {
            let error = InStreamError {
                code: code.map(Box::from),
                kind: kind.map(Box::from),
            };
            assert_eq!(stream_status(&error), expected, "{error:?}");
        };
        check(Some("400"), Some("BadRequestError"), Some(400));
        check(
            Some("rate_limit_exceeded"),
            Some("rate_limit_error"),
            Some(429),
        );
        check(None, Some("overloaded_error"), Some(503));
        check(None, Some("invalid_request_error"), Some(400));
        check(None, Some("api_error"), None);
        check(Some("70000"), None, None);
        check(None, None, None);
    }

    #[test]
    fn every_code_has_three_levels() {
        for reason in Reason::ALL {
            let code = refused(*reason).code;
            assert_eq!(code.split('.').count(), 3, "{code}");
            assert!(code.split('.').all(|level| !level.is_empty()), "{code}");
        }
    }
}
