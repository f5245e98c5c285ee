//! The signals that end a process.
//!
//! In: SIGTERM and SIGINT. Out: which came. From the moment a listener is made, none of them is lost, and none of them
//! ends the process by itself.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, caught.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches them from now on; to be called inside a runtime.
    pub(super) fn catch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The number of the next one.
    pub(super) async fn next(&mut self) -> u8 {
        const SIGINT: u8 = 2;
        const SIGTERM: u8 = 15;
        tokio::select! {
            _ = self.terminate.recv() => SIGTERM,
            _ = self.interrupt.recv() => SIGINT,
        }
    }
}
