//! Where records go when exchanges end: metrics, the log, spans and the ring.
//!
//! In: one [`Record`] an exchange, and what its caller says of it later. Out: the metrics page, log lines, spans, the list of the
//! last exchanges. Nothing here can slow an exchange: what is full drops, and counts what it drops.

pub mod line;
pub mod log;
pub mod metrics;
pub mod models;
mod names;
pub mod ring;
pub mod spans;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use greylag_filters::feedback::Feedback;
use greylag_filters::meter::{Metered, Unmetered};

use crate::config::Otlp;
use crate::record::Record;
use crate::snapshot::Snapshot;
use log::Log;
use metrics::Metrics;
pub use metrics::{Gaps, Levels};
use models::Models;
use ring::{Entry, NotTaken, Ring, Taken};
use spans::Spans;

/// The sinks of records.
#[derive(Debug)]
pub struct Telemetry {
    /// All metrics.
    pub metrics: Metrics,
    /// The last exchanges.
    pub ring: Ring,
    /// The models that may be labels.
    pub models: Models,
    /// The spans of exchanges that are kept.
    pub spans: Spans,
    /// Where lines go.
    pub log: Log,
    in_flight: AtomicU64,
}

impl Telemetry {
    /// Sinks with a ring of `ring` bytes, the log that `log` writes and the collector that `otlp` names.
    ///
    /// # Errors
    /// What sends spans cannot be started.
    pub fn new(ring: u64, log: Log, otlp: &Otlp) -> io::Result<Arc<Self>> {
        let metrics = Metrics::new();
        Ok(Arc::new(Telemetry {
            ring: Ring::new(ring),
            models: Models::default(),
            spans: Spans::to(otlp, metrics.spans.clone())?,
            metrics,
            log,
            in_flight: AtomicU64::new(0),
        }))
    }

    /// An exchange has begun.
    pub fn began(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Exchanges that have begun and not ended.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// An exchange has ended. `connecting` is how much of its time went into connecting.
    pub fn ended(&self, record: Record, connecting: Duration) {
        let model = self.models.label(record.model.as_deref());
        self.metrics.count(&record, &model, connecting);
        self.log.line(&record);
        let record = Arc::new(record);
        if record.kept.is_some() {
            self.spans.push(&record);
        }
        self.ring.push(record, model);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// A caller has judged an exchange; what is known of it by now.
    ///
    /// # Errors
    /// It is not in the ring, or takes no more metrics; nothing has changed then.
    pub fn feedback(&self, feedback: Feedback) -> Result<Entry, NotTaken> {
        let (metric, value) = (feedback.metric.clone(), feedback.value);
        let Taken { entry, before } = self.ring.hear(feedback)?;
        let success = &self.metrics.success;
        success.heard(&metric, value);
        if let Some(now) = entry.success {
            success.turned(&entry.record, &entry.model, before, now);
        }
        Ok(entry)
    }

    /// The gaps between the token events of one stream; noting one takes no lock.
    pub fn gaps(&self, record: &Record) -> Gaps {
        let model = self.models.label(record.model.as_deref());
        self.metrics.gaps(record, &model)
    }

    /// A request that is over, of a call that carries many.
    pub fn request(&self, record: &Record, metered: &Metered) {
        let model = self.models.label(metered.figures.model.as_deref());
        self.metrics.request(record, &model, metered);
    }

    /// An answer, or a request, of an inference route that could not be read.
    pub fn unmetered(&self, reason: Unmetered) {
        self.metrics.unmetered(reason);
    }

    /// The metrics page, in Prometheus' text format; what only telemetry knows of `levels` is filled in here.
    pub fn page(&self, levels: Levels, snapshot: &Snapshot) -> String {
        let levels = Levels {
            in_flight: self.in_flight(),
            log_dropped: self.log.dropped(),
            rules_version: snapshot.version,
            ..levels
        };
        self.metrics.page(&levels, snapshot)
    }

    /// Writes out what the log still holds, and sends the spans that wait.
    pub fn flush(&self) {
        self.log.flush();
        self.spans.flush();
    }
}
