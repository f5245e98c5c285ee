//! How often a request goes out, and to whom.
//!
//! In: one try at the request's engine. Out: an answer that has begun, after as few tries as it takes. A request goes out a
//! second time to its engine only if all of it is in memory and the engine has not looked at it: a pooled connection had gone
//! stale, or the engine said so. It goes on to another engine, once, if its own takes no connection, or where a split says so
//! answers that it is too busy.

use std::time::Duration;

use greylag_filters::split::RetryOn;

use super::request::Request;
use super::stop::Stop;
use crate::exchange::Exchange;
use crate::upstream::{Broken, Untouched};

/// What a request is tried with.
pub trait Attempts {
    /// An answer that has begun.
    type Answered;

    /// One try; `fresh`: on a new connection.
    fn make(&mut self, fresh: bool) -> impl Future<Output = Result<Self::Answered, Failed>> + Send;

    /// The request that is tried.
    fn request(&self) -> &Request;

    /// Whether the engine answers that it is too busy, and nobody else has been told so yet.
    fn is_busy(&self, answered: &Self::Answered) -> bool;

    /// Makes it a request to another engine; returns what it was. None: there is no other, or the split does not want that.
    fn goes_on(&mut self, failure: RetryOn) -> Option<Request>;

    /// Makes it what it was.
    fn goes_back(&mut self, was: Request);
}

/// A try that brought no answer.
pub struct Failed {
    /// Why.
    pub stop: Stop,
    /// Whether the engine has not looked at the request: a pooled connection had gone stale, or the engine said so.
    pub untouched: bool,
}

impl From<Stop> for Failed {
    fn from(stop: Stop) -> Self {
        Failed {
            stop,
            untouched: false,
        }
    }
}

/// How soon a connection that had gone stale shows it. An engine that dies later may have died of the request, and another
/// need not.
const STALE: Duration = Duration::from_secs(1);

/// Whether a request that brought no answer was not looked at, by what its call says of that.
pub fn is_untouched(said: Option<Untouched>, exchange: &Exchange) -> bool {
    match said {
        None => false,
        Some(Untouched::Refused) => true,
        Some(Untouched::Stale) => {
            let connected = exchange.record.times.connected.unwrap_or_default();
            exchange.now().saturating_sub(connected) < STALE
        }
    }
}

/// Tries until there is an answer, or nothing more may be tried.
pub async fn carry<A: Attempts>(attempts: &mut A) -> Result<A::Answered, Stop> {
    let mut made = at_one_engine(attempts).await;
    let failure = match &made {
        Err(Stop::Broken(Broken::Unreachable(_))) => Some(RetryOn::Connect),
        Err(Stop::Broken(Broken::Full(_))) => Some(RetryOn::Busy),
        Ok(answered) if attempts.is_busy(answered) => Some(RetryOn::Busy),
        _ => None,
    };
    if let Some(was) = failure.and_then(|failure| attempts.goes_on(failure)) {
        match (at_one_engine(attempts).await, &made) {
            // That it is busy says more than that there was nobody else.
            (Err(Stop::Broken(Broken::Unreachable(_) | Broken::Full(_))), Ok(_)) => {
                attempts.goes_back(was);
            }
            (other, _) => made = other,
        }
    }
    made
}

// At the request's engine: once, or twice if it has not looked at the first.
async fn at_one_engine<A: Attempts>(attempts: &mut A) -> Result<A::Answered, Stop> {
    let made = match attempts.make(false).await {
        Err(Failed {
            stop: Stop::Broken(_),
            untouched: true,
        }) if attempts.request().is_whole => attempts.make(true).await,
        other => other,
    };
    made.map_err(|failed| failed.stop)
}
