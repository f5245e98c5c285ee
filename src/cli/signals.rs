//! The signals that end a process, and the one that has it read its file again.
//!
//! In: SIGTERM and SIGINT. Out: which came. SIGHUP ends nothing. From the moment a listener is made, none of them is lost, and none of them
//! ends the process by itself.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals, caught.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches them from now on; to be called inside a runtime.
    pub(super) fn catch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next one that ends the process; `hung_up` is called for each SIGHUP before.
    pub(super) async fn next(&mut self, hung_up: impl Fn()) -> u8 {
        const SIGINT: u8 = 2;
        const SIGTERM: u8 = 15;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SIGTERM,
                _ = self.interrupt.recv() => return SIGINT,
                _ = self.hangup.recv() => hung_up(),
            }
        }
    }
}
