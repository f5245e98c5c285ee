//! Spans: one for each exchange that is kept, sent to a collector by OTLP.
//!
//! In: records of exchanges that are kept. Out: batches of spans, from a thread of its own: `exporter` makes and sends
//! them. Nothing here waits for the collector: what finds no room is dropped and counted, and an exchange that is not kept
//! costs one look at an option.

mod attributes;
mod cap;
mod connector;
mod exporter;
mod resource;
mod sender;
mod span;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::metrics::Exported;
use super::ring;
use crate::config::Otlp;
use crate::record::Record;
pub use cap::Cap;
pub use exporter::LAST;

/// The most that records waiting for the collector hold, in bytes.
pub const ROOM: u64 = 16 << 20;

/// Where spans go.
#[derive(Debug)]
pub struct Spans {
    /// The cap on new traces that are sampled.
    pub heads: Cap,
    /// The cap on spans that are kept at the end all the same.
    pub ends: Cap,
    outlet: Option<Outlet>,
}

#[derive(Debug)]
struct Outlet {
    queue: mpsc::Sender<Arc<Record>>,
    waiting: Arc<Waiting>,
    counts: Exported,
    // what ends the thread, and the thread
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

/// What waits to be sent, or is being sent.
#[derive(Debug, Default)]
struct Waiting {
    spans: AtomicU64,
    // 0 <= bytes <= ROOM, but for what offers itself at the same moment
    bytes: AtomicU64,
}

/// Why a span was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Too many were waiting, or too large ones.
    QueueFull,
    /// The collector did not take them in time.
    Timeout,
    /// The collector was not there, or refused them.
    Refused,
    /// The process ended first.
    Shutdown,
}

impl Lost {
    /// All of them.
    pub const ALL: [Lost; 4] = [
        Lost::QueueFull,
        Lost::Timeout,
        Lost::Refused,
        Lost::Shutdown,
    ];

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Lost::QueueFull => "queue_full",
            Lost::Timeout => "timeout",
            Lost::Refused => "refused",
            Lost::Shutdown => "shutdown",
        }
    }
}

impl Spans {
    /// Spans that go nowhere.
    pub fn off() -> Self {
        Spans {
            heads: Cap::default(),
            ends: Cap::default(),
            outlet: None,
        }
    }

    /// Spans that go to a collector, if there is one.
    ///
    /// # Errors
    /// The exporter cannot be made, or its thread cannot be started.
    pub fn to(otlp: &Otlp, counts: Exported) -> io::Result<Self> {
        let Some(url) = otlp.url() else {
            return Ok(Spans::off());
        };
        tracing::info!(name: "greylag.spans.sent_here", url, "spans are sent here");
        let (queue, records) = mpsc::channel(usize::try_from(otlp.queue).unwrap_or(usize::MAX));
        let waiting = Arc::new(Waiting::default());
        let (end, ending) = oneshot::channel();
        let exporter = exporter::Exporter::new(otlp, &url, waiting.clone(), counts.clone())?;
        let thread = std::thread::Builder::new()
            .name("spans".into())
            .spawn(move || exporter.run(records, ending))?;
        Ok(Spans {
            outlet: Some(Outlet {
                queue,
                waiting,
                counts,
                thread: Mutex::new(Some((end, thread))),
            }),
            ..Spans::off()
        })
    }

    /// Whether there is a collector.
    pub fn is_on(&self) -> bool {
        self.outlet.is_some()
    }

    /// Takes a record whose span is kept.
    pub fn push(&self, record: &Arc<Record>) {
        let Some(outlet) = &self.outlet else { return };
        if !outlet.waiting.take(ring::weight(record)) {
            return outlet.counts.lost(Lost::QueueFull, 1);
        }
        let why = match outlet.queue.try_send(record.clone()) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(_)) => Lost::QueueFull,
            Err(mpsc::error::TrySendError::Closed(_)) => Lost::Shutdown,
        };
        outlet.waiting.give_back(1, ring::weight(record));
        outlet.counts.lost(why, 1);
    }

    /// Sends what waits and ends; for a collector that does not take it, it waits no longer than [`LAST`].
    pub fn flush(&self) {
        const STEP: Duration = Duration::from_millis(5);
        let Some((end, thread)) = self.outlet.as_ref().and_then(|it| it.thread.lock().take())
        else {
            return;
        };
        let _ = end.send(());
        // The thread has a bound of its own; should it be stuck all the same, it is left behind.
        let most = LAST + Duration::from_millis(500);
        let mut waited = Duration::ZERO;
        while waited < most && !thread.is_finished() {
            std::thread::sleep(STEP);
            waited += STEP;
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

impl Waiting {
    // False: there is no room.
    fn take(&self, bytes: u64) -> bool {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > ROOM {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.spans.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn give_back(&self, spans: u64, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.spans.fetch_sub(spans, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_by_bytes() {
        let waiting = Waiting::default();
        assert!(waiting.take(ROOM - 1));
        assert!(!waiting.take(2));
        assert!(waiting.take(1));
        waiting.give_back(1, ROOM - 1);
        assert!(waiting.take(2));
        assert_eq!(waiting.spans.load(Ordering::Relaxed), 2);
        assert_eq!(waiting.bytes.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn spans_that_go_nowhere_take_nothing() {
        let spans = Spans::off();
        assert!(!spans.is_on());
        spans.push(&Arc::new(Record::default()));
        spans.flush();
    }
}
