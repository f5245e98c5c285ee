//! What is counted of engines that fail.

use std::time::Duration;

use prometheus::{Histogram, IntCounterVec, IntGaugeVec};

use super::SECONDS;
use super::maker::Maker;

/// The metrics of engines' health.
#[derive(Debug)]
pub struct Engines {
    health: IntGaugeVec,
    fallbacks: IntCounterVec,
    failover: Histogram,
}

impl Engines {
    pub(super) fn new(make: &Maker<'_>) -> Self {
        Engines {
            health: make.gauges(
                "greylag_engine_health",
                "1 while an engine is up, 0 while it is down or half-open.",
                &["gray_tag"],
            ),
            fallbacks: make.counters(
                "greylag_fallbacks_total",
                "Exchanges that went to another engine than was chosen, by reason.",
                &["reason"],
            ),
            failover: make.histogram_of(
                "greylag_failover_seconds",
                "Time from an engine's first failure to the first exchange of its that another one served.",
                &SECONDS,
            ),
        }
    }

    /// An exchange went to another engine: `down`, `connect` or `503`.
    pub fn fell_back(&self, reason: &'static str) {
        self.fallbacks.with_label_values(&[reason]).inc();
    }

    /// An engine was replaced so long after it began to fail.
    pub fn failed_over(&self, took: Duration) {
        self.failover.observe(took.as_secs_f64());
    }

    /// Which engines are up, by tag; engines come and go with the rules.
    pub(super) fn set_health<'a>(&self, all: impl Iterator<Item = (&'a str, bool)>) {
        self.health.reset();
        for (tag, is_up) in all {
            self.health.with_label_values(&[tag]).set(i64::from(is_up));
        }
    }
}
