//! How long an exchange still waits for its engine.
//!
//! In: moments until which to wait, and why waiting would then end. Out: that reason, when the moment has passed.
//! Moving the moment later costs nothing: the one timer is looked at again only when it fires.

use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::reply::Reason;

/// One timer for all of an exchange's waits.
#[derive(Debug)]
pub struct Patience {
    timer: Pin<Box<Sleep>>,
    due: Instant,
    reason: Reason,
    total: Option<Instant>,
}

impl Patience {
    /// Waits until `due`, for `reason`, and never past `total`.
    pub fn new(due: Instant, reason: Reason, total: Option<Instant>) -> Self {
        let mut patience = Patience {
            timer: Box::pin(sleep_until(due)),
            due,
            reason,
            total,
        };
        patience.until(due, reason);
        patience
    }

    /// Waits until `due` from now on.
    pub fn until(&mut self, due: Instant, reason: Reason) {
        (self.due, self.reason) = match self.total {
            Some(total) if total < due => (total, Reason::TotalTimeout),
            Some(_) | None => (due, reason),
        };
        if self.due < self.timer.deadline() {
            self.timer.as_mut().reset(self.due);
        }
    }

    /// Ends when the moment has passed. Cancel-safe.
    pub async fn spent(&mut self) -> Reason {
        loop {
            self.timer.as_mut().await;
            if self.timer.deadline() >= self.due {
                return self.reason;
            }
            self.timer.as_mut().reset(self.due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_moment_that_moves_is_waited_for() {
        let start = Instant::now();
        let mut patience = Patience::new(start + S, Reason::FirstByteTimeout, None);
        patience.until(start + 3 * S, Reason::IdleTimeout);
        assert_eq!(patience.spent().await, Reason::IdleTimeout);
        assert_eq!(start.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_nearer_moment_is_not_overslept() {
        let start = Instant::now();
        let mut patience = Patience::new(start + 600 * S, Reason::FirstByteTimeout, None);
        patience.until(start + 2 * S, Reason::IdleTimeout);
        assert_eq!(patience.spent().await, Reason::IdleTimeout);
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_goes_past_the_total() {
        let start = Instant::now();
        let mut patience = Patience::new(start + S, Reason::IdleTimeout, Some(start + 4 * S));
        patience.until(start + 30 * S, Reason::IdleTimeout);
        assert_eq!(patience.spent().await, Reason::TotalTimeout);
        assert_eq!(start.elapsed().as_secs(), 4);
    }
}
