//! What is known of the health of one place, for all who send requests there.
//!
//! In: signs from probes and exchanges, with what they were. Out: whether an exchange is let through, and what to show. As long
//! as all is well, asking and telling take no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use greylag_filters::health::{Health, Sign, State};
use greylag_filters::meter::Offset;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

use crate::events::{Events, Kind};

/// The standing of a place.
#[derive(Debug)]
pub struct Standing {
    known: Mutex<Known>,
    // `known.health.is_plain()`, as of the last change
    plain: AtomicBool,
    // somebody found no connection: the name may lead elsewhere by now
    missed: Notify,
    events: Arc<Events>,
}

// What is told of a place that goes down or comes up.
#[derive(Serialize)]
struct Turned<'a> {
    engine: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Debug, Default)]
struct Known {
    health: Health,
    reason: Option<String>,
    probe: Option<Probed>,
}

/// The last answer to a probe, or why there was none.
#[derive(Debug, Clone)]
pub struct Probed {
    /// `ok`, or what was wrong.
    pub result: String,
    /// How long it took.
    pub took: Duration,
    /// When it ended.
    pub at: Offset,
}

/// What is shown of a standing.
#[derive(Debug)]
pub struct Shown {
    /// Whether the place is up.
    pub state: State,
    /// Since when.
    pub since: Offset,
    /// What the last failure was, unless all is well.
    pub reason: Option<String>,
    /// The last probe.
    pub probe: Option<Probed>,
}

impl Standing {
    /// All is well; what changes is told in `events`.
    pub fn told_in(events: Arc<Events>) -> Self {
        Standing {
            events,
            known: Mutex::default(),
            plain: AtomicBool::new(true),
            missed: Notify::new(),
        }
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.is_plain() || self.known.lock().health.state() == State::Up
    }

    /// Whether an exchange that begins now is let through; while the place is down that is a trial.
    pub fn admits(&self, now: impl FnOnce() -> Offset) -> bool {
        self.is_plain() || self.known.lock().health.admits(now())
    }

    /// An exchange or a probe had an answer.
    pub fn lives(&self, engine: &str, now: impl FnOnce() -> Offset) {
        if self.is_plain() {
            return;
        }
        let mut known = self.known.lock();
        if known.health.note(Sign::Alive, now()) && known.health.state() == State::Up {
            tracing::info!(name: "greylag.engine.up", engine, "an engine is up again");
            self.tell(engine, State::Up, None);
        }
        if known.health.is_plain() {
            known.reason = None;
        }
        self.plain.store(known.health.is_plain(), Ordering::Relaxed);
    }

    /// There was no connection, or a probe was not answered as it should be.
    pub fn fails(&self, engine: &str, why: &str, now: Offset) {
        let mut known = self.known.lock();
        let was_up = known.health.state() == State::Up;
        // A trial that fails is no news.
        if known.health.note(Sign::Dead, now) && was_up {
            tracing::warn!(name: "greylag.engine.down", engine, why, "an engine is down");
            self.tell(engine, State::Down, Some(why));
        }
        known.reason = Some(why.to_owned());
        self.plain.store(false, Ordering::Relaxed);
    }

    /// An exchange that was this place's was served elsewhere: how long that took, the first time.
    pub fn replaced(&self, now: Offset) -> Option<Duration> {
        self.known.lock().health.replaced(now)
    }

    /// Notes a probe.
    pub fn probed(&self, probed: Probed) {
        self.known.lock().probe = Some(probed);
    }

    /// All of it, to be shown.
    pub fn shown(&self) -> Shown {
        let known = self.known.lock();
        Shown {
            state: known.health.state(),
            since: known.health.since(),
            reason: known.reason.clone(),
            probe: known.probe.clone(),
        }
    }

    /// Somebody found no connection.
    pub fn miss(&self) {
        self.missed.notify_one();
    }

    /// Ends when somebody has found no connection since it ended last.
    pub async fn missed(&self) {
        self.missed.notified().await;
    }

    fn tell(&self, engine: &str, state: State, reason: Option<&str>) {
        let turned = Turned {
            engine,
            state: state.label(),
            reason,
        };
        self.events.tell(Kind::Engine, &turned);
    }

    fn is_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Offset {
        Duration::from_secs(second)
    }

    #[test]
    fn what_all_see_is_what_one_was_told() {
        let standing = Standing::told_in(Arc::default());
        assert!(standing.admits(|| panic!("a clock is not asked while all is well")));
        for second in 1..=3 {
            assert!(standing.is_up());
            standing.fails("a", "connection refused", at(second));
        }
        assert!(!standing.is_up() && !standing.admits(|| at(4)));
        assert_eq!(
            standing.shown().reason.as_deref(),
            Some("connection refused")
        );
        assert_eq!(standing.replaced(at(4)), Some(at(3)));
        assert!(standing.admits(|| at(6)));
        assert_eq!(standing.shown().state, State::HalfOpen);
        standing.lives("a", || at(7));
        standing.lives("a", || at(8));
        assert!(standing.is_up());
        let shown = standing.shown();
        assert_eq!(
            (shown.state, shown.since, shown.reason),
            (State::Up, at(8), None)
        );
    }
}
