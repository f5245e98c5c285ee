//! What is counted of whether answers were of use.
//!
//! In: each judgement, when an exchange ends and when its caller says something of it. Out: counters that only rise: an
//! exchange is counted once when it is first judged, and at most once as a failure. The names that callers give their
//! metrics are labels up to a bound.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use greylag_filters::feedback::{Metric, Value};
use greylag_filters::success::{Flaw, Use};
use parking_lot::{Mutex, RwLock};
use prometheus::{IntCounter, IntCounterVec};

use super::maker::Maker;
use super::{Key, LEG, PRIMARY, key};
use crate::record::Record;

/// The metrics of answers' use.
#[derive(Debug)]
pub struct Success {
    exchanges: IntCounterVec,
    failures: IntCounterVec,
    feedback: IntCounterVec,
    // the handles of one engine's exchanges, as in `Metrics`
    series: RwLock<HashMap<Key, Arc<Series>>>,
    // at most MOST_NAMES
    names: Mutex<BTreeSet<Metric>>,
}

#[derive(Debug)]
struct Series {
    exchanges: IntCounter,
    // in the order of `Flaw`
    failures: [IntCounter; Flaw::ALL.len()],
}

/// At most so many names of metrics are labels; the rest are `other`.
const MOST_NAMES: usize = 16;
const OTHER: &str = "other";

impl Success {
    pub(super) fn new(make: &Maker<'_>) -> Self {
        let [tag, model, leg, traffic] = LEG;
        Success {
            exchanges: make.counters(
                "greylag_biz_exchanges_total",
                "Inference exchanges of which it was told whether they were of use.",
                &LEG,
            ),
            failures: make.counters(
                "greylag_biz_failures_total",
                "Those of them that were not, each once, by the first reason found.",
                &[tag, model, leg, traffic, "reason"],
            ),
            feedback: make.counters(
                "greylag_feedback_total",
                "Judgements that callers gave, by metric.",
                &["metric", "judgement"],
            ),
            series: RwLock::default(),
            names: Mutex::default(),
        }
    }

    /// What was known of an exchange's use has become something else; [`Use::Open`] before the first judgement.
    pub fn turned(&self, record: &Record, model: &Arc<str>, before: Use, now: Use) {
        if before == now {
            return;
        }
        let series = self.series(record, model);
        if before == Use::Open {
            series.exchanges.inc();
        }
        if let Use::Bad(flaw) = now
            && let Some(failures) = series.failures.get(flaw as usize)
        {
            failures.inc();
        }
    }

    /// A caller has judged an exchange.
    pub fn heard(&self, metric: &Metric, value: Value) {
        let judgement = match value.is_negative() {
            true => "bad",
            false => "good",
        };
        let name = match self.is_label(metric) {
            true => metric.as_str(),
            false => OTHER,
        };
        self.feedback.with_label_values(&[name, judgement]).inc();
    }

    fn is_label(&self, metric: &Metric) -> bool {
        if metric.as_str() == OTHER {
            return false;
        }
        let mut names = self.names.lock();
        if names.len() < MOST_NAMES && !names.contains(metric) {
            names.insert(metric.clone());
        }
        names.contains(metric)
    }

    // All reasons are there from the first exchange on, since a rate does not see a series begin.
    fn series(&self, record: &Record, model: &Arc<str>) -> Arc<Series> {
        let key = key(record, model);
        if let Some(series) = self.series.read().get(&key) {
            return series.clone();
        }
        let labels = [&*key.0, &*key.1, PRIMARY, record.traffic.label()];
        let [tag, model, leg, traffic] = labels;
        let series = Arc::new(Series {
            exchanges: self.exchanges.with_label_values(&labels),
            failures: Flaw::ALL.map(|flaw| {
                self.failures
                    .with_label_values(&[tag, model, leg, traffic, flaw.label()])
            }),
        });
        self.series.write().insert(key, series.clone());
        series
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    #[test]
    fn an_exchange_is_counted_once_and_fails_at_most_once() {
        let success = Success::new(&Maker(&Registry::new()));
        let (record, model) = (Record::default(), Arc::from("m"));
        let check = |flow: &[Use], exchanges: u64, failures: [u64; 4]| {
            let steps = [&[Use::Open], flow].concat();
            let counts = || {
                let series = success.series(&record, &model);
                let failures = series.failures.each_ref().map(IntCounter::get);
                (series.exchanges.get(), failures)
            };
            let (exchanges_before, failures_before) = counts();
            for step in steps.windows(2) {
                success.turned(&record, &model, step[0], step[1]);
            }
            let (exchanges_after, failures_after) = counts();
            assert_eq!(exchanges_after - exchanges_before, exchanges, "{flow:?}");
            let rose = std::array::from_fn(|at| failures_after[at] - failures_before[at]);
            assert_eq!(rose, failures, "{flow:?}");
        };
        use Flaw::{Feedback, Json, Outcome, ToolArguments};
        check(&[Use::Open], 0, [0; 4]);
        check(&[Use::Good], 1, [0; 4]);
        check(&[Use::Good, Use::Good], 1, [0; 4]);
        check(&[Use::Open, Use::Good], 1, [0; 4]);
        check(&[Use::Bad(Outcome)], 1, [1, 0, 0, 0]);
        check(&[Use::Bad(Json), Use::Bad(Json)], 1, [0, 1, 0, 0]);
        check(&[Use::Bad(ToolArguments)], 1, [0, 0, 1, 0]);
        check(&[Use::Good, Use::Bad(Feedback)], 1, [0, 0, 0, 1]);
        let again = [Use::Open, Use::Bad(Feedback), Use::Bad(Feedback)];
        check(&again, 1, [0, 0, 0, 1]);
    }

    #[test]
    fn only_so_many_names_are_labels() {
        let success = Success::new(&Maker(&Registry::new()));
        let name = |name: &str| name.parse::<Metric>().unwrap();
        assert!(!success.is_label(&name(OTHER)));
        for number in 0..2 * MOST_NAMES {
            let is_label = success.is_label(&name(&format!("m{number}")));
            assert_eq!(is_label, number < MOST_NAMES, "{number}");
        }
        assert!(success.is_label(&name("m0")));
    }
}
