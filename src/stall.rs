//! Whether a worker itself was held up.
//!
//! In: a worker's thread, which this beats on. Out: how long that thread could not run when it should have, so that a hiccup
//! of Greylag's, or of the machine's, is never taken for an engine's. Each worker has its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use greylag_filters::cgroup::{self, Throttled};
use greylag_filters::meter::Offset;

use crate::exchange::Origin;
use crate::telemetry::metrics::Metrics;

/// How often the beat comes.
const BEAT: Duration = Duration::from_millis(10);
/// A beat that is late by less is no stall: timers are as exact as a millisecond or two.
const LEAST: Duration = Duration::from_millis(10);

/// The beat of one worker.
#[derive(Debug, Default)]
pub struct Pulse {
    // All stalls that are over, and when the next beat is due; microseconds since the process's origin. Both are written by
    // the worker's thread alone.
    lost: AtomicU64,
    due: AtomicU64,
}

impl Pulse {
    /// How long the worker has been held up so far, at `now`: the stalls that are over, and one that shows in a beat that
    /// should have come. What of two values differs lies between them.
    pub fn lost(&self, now: Offset) -> Duration {
        let due = Duration::from_micros(self.due.load(Ordering::Relaxed));
        let over = Duration::from_micros(self.lost.load(Ordering::Relaxed));
        let late = now.saturating_sub(due);
        // Before the first beat nothing is due.
        match due.is_zero() || late < LEAST {
            true => over,
            false => over + late,
        }
    }

    /// Beats for as long as it is polled.
    pub async fn beat(&self, clock: &Origin, metrics: &Metrics) {
        loop {
            let due = clock.now() + BEAT;
            self.due.store(micros(due), Ordering::Relaxed);
            tokio::time::sleep_until(clock.at(due)).await;
            self.come(clock.now(), due, metrics);
        }
    }

    fn come(&self, now: Offset, due: Offset, metrics: &Metrics) {
        let late = now.saturating_sub(due);
        metrics.stalled(late);
        if late >= LEAST {
            self.lost.fetch_add(micros(late), Ordering::Relaxed);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What the kernel says of this process's CPU quota; none where it has none, or does not say.
pub fn throttled() -> Option<Throttled> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = std::path::Path::new("/sys/fs/cgroup");
    let mut places = cgroup::places(&own).into_iter();
    places.find_map(|place| cgroup::throttled(&std::fs::read_to_string(root.join(place)).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn what_is_late_is_lost_and_so_is_what_has_not_come_yet() {
        let (pulse, metrics) = (Pulse::default(), Metrics::new());
        assert_eq!(pulse.lost(ms(500)), ms(0));
        pulse.due.store(micros(ms(110)), Ordering::Relaxed);
        assert_eq!(pulse.lost(ms(105)), ms(0));
        // A little late is on time.
        assert_eq!(pulse.lost(ms(119)), ms(0));
        assert_eq!(pulse.lost(ms(150)), ms(40));
        pulse.come(ms(160), ms(110), &metrics);
        pulse.due.store(micros(ms(170)), Ordering::Relaxed);
        assert_eq!(pulse.lost(ms(165)), ms(50));
        pulse.come(ms(175), ms(170), &metrics);
        assert_eq!(pulse.lost(ms(175)), ms(50));
    }

    #[tokio::test]
    async fn a_thread_that_is_held_up_shows() {
        let (pulse, metrics) = (Pulse::default(), Metrics::new());
        let clock = Origin::seeded(7);
        let holding = async {
            while pulse.due.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            let before = pulse.lost(clock.now());
            std::thread::sleep(ms(60));
            // The beat has had no chance to come: that it is late shows all the same.
            pulse.lost(clock.now()) - before
        };
        let held = tokio::select! {
            held = holding => held,
            () = pulse.beat(&clock, &metrics) => unreachable!("it beats on"),
        };
        assert!(held >= ms(50), "{held:?}");
    }
}
