//! What is counted of spans.

use prometheus::{IntCounter, IntCounterVec};

use super::maker::Maker;
use crate::telemetry::spans::Lost;

/// The metrics of spans; shared with the thread that sends them.
#[derive(Debug, Clone)]
pub struct Exported {
    sent: IntCounter,
    lost: IntCounterVec,
}

impl Exported {
    pub(super) fn new(make: &Maker<'_>) -> Self {
        let lost = make.counters(
            "greylag_spans_dropped_total",
            "Spans that were kept and did not reach the collector, by reason.",
            &["reason"],
        );
        // That nothing was dropped is to be seen too.
        for reason in Lost::ALL {
            lost.with_label_values(&[reason.label()]);
        }
        Exported {
            sent: make.counter(
                "greylag_spans_exported_total",
                "Spans that the collector has taken.",
            ),
            lost,
        }
    }

    /// The collector has taken so many.
    pub fn sent(&self, spans: u64) {
        self.sent.inc_by(spans);
    }

    /// So many were dropped.
    pub fn lost(&self, reason: Lost, spans: u64) {
        self.lost.with_label_values(&[reason.label()]).inc_by(spans);
    }
}
