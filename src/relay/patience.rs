//! How long an exchange still waits for its engine.
//!
//! In: moments until which to wait, and why waiting would then end. Out: that reason, when the moment has passed.
//! Moving the moment later costs nothing: the one timer is looked at again only when it fires.

use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

/// Which of an engine's timeouts has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// `timeouts.first_byte`: the request was not taken, or no answer began.
    FirstByte,
    /// `timeouts.idle`: nothing more of the answer came.
    Idle,
    /// `timeouts.total`.
    Total,
}

/// One timer for all of an exchange's waits.
#[derive(Debug)]
pub struct Patience {
    timer: Pin<Box<Sleep>>,
    due: Instant,
    spent: Spent,
    total: Option<Instant>,
}

impl Patience {
    /// Waits until `due`, for what would then be `spent`, and never past `total`.
    pub fn new(due: Instant, spent: Spent, total: Option<Instant>) -> Self {
        let mut patience = Patience {
            timer: Box::pin(sleep_until(due)),
            due,
            spent,
            total,
        };
        patience.until(due, spent);
        patience
    }

    /// Waits until `due` from now on.
    pub fn until(&mut self, due: Instant, spent: Spent) {
        (self.due, self.spent) = match self.total {
            Some(total) if total < due => (total, Spent::Total),
            Some(_) | None => (due, spent),
        };
        if self.due < self.timer.deadline() {
            self.timer.as_mut().reset(self.due);
        }
    }

    /// Ends when the moment has passed. Cancel-safe.
    pub async fn spent(&mut self) -> Spent {
        loop {
            self.timer.as_mut().await;
            if self.timer.deadline() >= self.due {
                return self.spent;
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
        let mut patience = Patience::new(start + S, Spent::FirstByte, None);
        patience.until(start + 3 * S, Spent::Idle);
        assert_eq!(patience.spent().await, Spent::Idle);
        assert_eq!(start.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_nearer_moment_is_not_overslept() {
        let start = Instant::now();
        let mut patience = Patience::new(start + 600 * S, Spent::FirstByte, None);
        patience.until(start + 2 * S, Spent::Idle);
        assert_eq!(patience.spent().await, Spent::Idle);
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_goes_past_the_total() {
        let start = Instant::now();
        let mut patience = Patience::new(start + S, Spent::Idle, Some(start + 4 * S));
        patience.until(start + 30 * S, Spent::Idle);
        assert_eq!(patience.spent().await, Spent::Total);
        assert_eq!(start.elapsed().as_secs(), 4);
    }
}
