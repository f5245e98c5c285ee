//! What can be turned off at once, for exchanges that run too.
//!
//! In: a word from the API, a timer or a check. Out: whether it is on, at the moment at which it would act. A switch is shared by all
//! snapshots whose rules have it, so an exchange that keeps old rules sees it too, and who waits on its account is woken.

mod panel;

use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Notify;

pub use panel::{Panel, Turned};

/// What a switch turns on and off.
#[derive(Debug, Clone, Copy, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Whether callers may choose an engine of a split.
    Force,
}

impl Kind {
    /// Whether it disturbs exchanges, so that a reset turns it off.
    pub fn disturbs(self) -> bool {
        match self {
            Kind::Force => false,
        }
    }
}

/// One switch.
#[derive(Debug)]
pub struct Switch {
    /// What it turns on and off.
    pub kind: Kind,
    on: AtomicBool,
    turned: Notify,
}

impl Switch {
    /// A switch that is on, or off.
    pub fn new(kind: Kind, on: bool) -> Switch {
        Switch {
            kind,
            on: AtomicBool::new(on),
            turned: Notify::new(),
        }
    }

    /// Whether it is on. To be asked when it would act, not before.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Turns it; true if it was the other way before. Once this returns, nobody who asks acts any more.
    pub fn turn(&self, on: bool) -> bool {
        let was_on = self.on.swap(on, Ordering::AcqRel);
        if was_on && !on {
            self.turned.notify_waiters();
        }
        was_on != on
    }

    /// Ends when it is off: what waits on its account waits for this beside.
    pub async fn off(&self) {
        loop {
            // Made before the look, so that a turn between the two is not missed.
            let turned = self.turned.notified();
            if !self.is_on() {
                return;
            }
            turned.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_switch_says_whether_it_was_turned() {
        let switch = Switch::new(Kind::Force, true);
        assert!(switch.is_on() && !switch.turn(true));
        assert!(switch.turn(false) && !switch.is_on() && !switch.turn(false));
        assert!(switch.turn(true) && switch.is_on());
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_when_it_goes_off() {
        let switch = Arc::new(Switch::new(Kind::Force, true));
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let switch = switch.clone();
                tokio::spawn(async move { switch.off().await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(waiting.iter().all(|wait| !wait.is_finished()));
        // From another thread, as the API's is not a worker's.
        let other = switch.clone();
        std::thread::spawn(move || other.turn(false))
            .join()
            .unwrap();
        for wait in waiting {
            wait.await.unwrap();
        }
        // It is off by now, so nobody waits.
        switch.off().await;
    }
}
