//! Why an exchange did not run its course, and what follows.
//!
//! In: who or what ended it. Out: how the record names it, and an answer of ours where one can still be given. After an
//! answer has begun nothing is made up: the connection closes without the answer's end, so that the client can tell.

use greylag_filters::outcome::End;

use super::client::{Client, Gone, LostBody};
use super::patience::Spent;
use crate::exchange::Exchange;
use crate::reply::{Reason, Refusal};
use crate::upstream::Broken;

/// What ended an exchange.
#[derive(Debug)]
pub enum Stop {
    /// Greylag refuses the request.
    Refused(Refusal),
    /// The client is gone.
    Gone(Gone),
    /// The engine, or the way to it, broke.
    Broken(Broken),
    /// It was waited for long enough.
    Spent(Spent),
    /// The call's own deadline has passed (`grpc-timeout`).
    Overdue,
    /// The drain's limit has passed.
    Cut,
}

impl From<Gone> for Stop {
    fn from(gone: Gone) -> Self {
        Stop::Gone(gone)
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Stop::Broken(broken)
    }
}

impl From<LostBody> for Stop {
    fn from(lost: LostBody) -> Self {
        match lost {
            LostBody::Gone(gone) => Stop::Gone(gone),
            LostBody::Refused(refusal) => Stop::Refused(refusal),
        }
    }
}

impl Stop {
    /// A refusal with its sentence.
    pub fn refuse(reason: Reason, message: impl Into<String>) -> Self {
        Stop::Refused(Refusal::new(reason, message))
    }

    /// The client was found to be gone while the engine was at work.
    pub fn left(exchange: &mut Exchange, gone: Gone) -> Self {
        exchange.record.times.left = Some(exchange.now());
        Stop::Gone(gone)
    }

    /// The same for a client that was lost while the engine was taking the request's body.
    pub fn lost(exchange: &mut Exchange, lost: LostBody) -> Self {
        if let LostBody::Gone(_) = lost {
            exchange.record.times.left = Some(exchange.now());
        }
        lost.into()
    }

    /// Notes the end in the record and answers if that is still possible. True: the connection may carry on.
    pub async fn settle(self, exchange: &mut Exchange, client: &mut Client) -> bool {
        let (end, reason, refusal) = self.reading();
        exchange.ended(end, reason);
        let Some(refusal) = refusal else { return false };
        if client.is_answered() {
            client.break_off(&refusal).await;
            return false;
        }
        if matches!(end, End::Drained) {
            client.close_after();
        }
        exchange.record.status = Some(refusal.reason.status());
        client
            .refuse(&refusal, exchange.record.route.family())
            .await
            .is_ok()
    }

    fn reading(self) -> (End, Option<Reason>, Option<Refusal>) {
        let told = |end, refusal: Refusal| (end, Some(refusal.reason), Some(refusal));
        match self {
            Stop::Refused(refusal) => told(End::Refused, refusal),
            Stop::Gone(Gone::Left) => (End::ClientGone, None, None),
            Stop::Gone(Gone::Stalled) => (End::ClientStalled, Some(Reason::ClientStalled), None),
            Stop::Broken(Broken::Unreachable(what)) => told(
                End::Unreachable,
                Refusal::new(
                    Reason::EngineUnreachable,
                    format!("no connection to engine {what}"),
                ),
            ),
            Stop::Broken(Broken::Full(what)) => told(
                End::Refused,
                Refusal::new(Reason::EngineFull, format!("engine {what}")),
            ),
            Stop::Broken(Broken::Closed) => told(
                End::EngineClosed,
                Refusal::new(
                    Reason::EngineClosed,
                    "the engine closed the connection without an answer",
                ),
            ),
            Stop::Broken(Broken::Reset) => told(
                End::EngineReset,
                Refusal::new(
                    Reason::EngineClosed,
                    "the engine reset the connection without an answer",
                ),
            ),
            Stop::Broken(Broken::Unsayable) => told(
                End::Refused,
                Refusal::new(
                    Reason::BadRequest,
                    "the engine speaks HTTP/2, in which a target is text and a Host an authority",
                ),
            ),
            Stop::Broken(Broken::Garbage) => told(
                End::EngineReset,
                Refusal::new(
                    Reason::EngineGarbage,
                    "what the engine sent is not an HTTP answer",
                ),
            ),
            Stop::Spent(Spent::FirstByte) => told(
                End::FirstByteTimeout,
                Refusal::new(
                    Reason::FirstByteTimeout,
                    "the engine did not begin to answer within its timeouts.first_byte",
                ),
            ),
            Stop::Spent(Spent::Idle) => told(
                End::IdleTimeout,
                Refusal::new(
                    Reason::IdleTimeout,
                    "nothing more of the engine's answer came within its timeouts.idle",
                ),
            ),
            Stop::Spent(Spent::Total) => told(
                End::TotalTimeout,
                Refusal::new(
                    Reason::TotalTimeout,
                    "the engine's answer did not end within its timeouts.total",
                ),
            ),
            Stop::Overdue => told(
                End::TotalTimeout,
                Refusal::new(
                    Reason::DeadlineExceeded,
                    "the call's own deadline, its grpc-timeout, has passed",
                ),
            ),
            Stop::Cut => told(
                End::Drained,
                Refusal::new(
                    Reason::Drained,
                    "this server is ending and its drain limit has passed",
                ),
            ),
        }
    }
}
