//! Makes metrics and registers them.
//!
//! In: a name, its help, its labels. Out: the metric, in the registry. Nothing is counted here.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// Upper bounds in seconds for what Greylag itself takes.
const OWN_SECONDS: [f64; 12] = [
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25,
];

/// Makes metrics in a registry. What it panics at stands in one file, and every test that starts Greylag would meet it.
pub(super) struct Maker<'a>(pub(super) &'a Registry);

impl Maker<'_> {
    fn register<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let collector = made.expect("names, help and labels of metrics are valid");
        self.0
            .register(Box::new(collector.clone()))
            .expect("each name stands once");
        collector
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        bounds: &[f64],
        labels: &[&str],
    ) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        self.register(HistogramVec::new(options, labels))
    }

    pub(super) fn histogram(&self, name: &str, help: &str) -> Histogram {
        self.histogram_of(name, help, &OWN_SECONDS)
    }

    pub(super) fn own_histograms(&self, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
        self.histograms(name, help, &OWN_SECONDS, labels)
    }

    pub(super) fn histogram_of(&self, name: &str, help: &str, bounds: &[f64]) -> Histogram {
        let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        self.register(Histogram::with_opts(options))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::new(name, help))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn shares(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.register(GaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::new(name, help))
    }
}
