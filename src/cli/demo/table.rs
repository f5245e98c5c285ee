//! The demo's table, from the records of the ring.
//!
//! In: the last exchanges. Out: a row an engine. On a terminal the rows are drawn over; elsewhere they are printed now and
//! then.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use greylag_filters::outcome::Outcome;

use crate::record::Record;
use crate::relay::Shared;

/// A table that is drawn again and again.
#[derive(Debug)]
pub struct Table {
    on_terminal: bool,
    // lines that the next drawing goes over
    drawn: usize,
    // how long one printed table stands before the next
    pause: Duration,
    last: Option<Duration>,
}

impl Table {
    /// A table that has not been drawn, of a demo that runs for `length`.
    pub fn new(on_terminal: bool, length: Duration) -> Self {
        const LONGEST: Duration = Duration::from_secs(10);
        Table {
            on_terminal,
            drawn: 0,
            pause: (length / 6).min(LONGEST),
            last: None,
        }
    }

    /// Draws the table as it is after `elapsed`.
    pub fn draw(&mut self, shared: &Shared, elapsed: Duration) {
        let stands = self.last.is_some_and(|last| elapsed < last + self.pause);
        if self.on_terminal || !stands {
            self.last = Some(elapsed);
            self.write(shared, elapsed);
        }
    }

    /// Draws the table once more and leaves it as it stands.
    pub fn finish(mut self, shared: &Shared, elapsed: Duration) {
        self.write(shared, elapsed);
    }

    fn write(&mut self, shared: &Shared, elapsed: Duration) {
        let lines = lines(shared, elapsed);
        let mut out = io::stdout().lock();
        if self.on_terminal && self.drawn > 0 {
            let _ = write!(out, "\x1b[{}A", self.drawn);
        }
        for line in &lines {
            let clear = if self.on_terminal { "\x1b[2K" } else { "" };
            let _ = writeln!(out, "{clear}{line}");
        }
        let _ = out.flush();
        self.drawn = lines.len();
    }

    /// Leaves the table as it stands.
    pub fn end(&mut self) {
        self.drawn = 0;
    }
}

fn lines(shared: &Shared, elapsed: Duration) -> Vec<String> {
    let records = shared.ring_records();
    let mut lines = vec![format!(
        "{:>5}  {:<11} {:>5} {:>6} {:>11} {:>11} {:>13} {:>13} {:>9}",
        format!("{}s", elapsed.as_secs()),
        "engine",
        "reqs",
        "errors",
        "TTFT p50",
        "TTFT p95",
        "inter-ch p50",
        "inter-ch p95",
        "tokens/s"
    )];
    for engine in shared.store.current().rules.engines() {
        let mine: Vec<&Record> = records
            .iter()
            .map(|record| &**record)
            .filter(|record| record.engine.as_deref() == Some(&*engine.name))
            .collect();
        lines.push(row(&engine.name, &mine, elapsed));
    }
    lines
}

fn row(engine: &str, records: &[&Record], elapsed: Duration) -> String {
    let errors = records
        .iter()
        .filter(|record| record.outcome != Outcome::Ok)
        .count();
    let mut ttft: Vec<Duration> = records.iter().filter_map(|record| record.ttft()).collect();
    let mut gaps: Vec<Duration> = records.iter().flat_map(|record| gaps(record)).collect();
    let tokens: u64 = records
        .iter()
        .filter_map(|record| record.figures.as_ref()?.usage?.completion)
        .sum();
    format!(
        "{:>5}  {engine:<11} {:>5} {errors:>6} {:>11} {:>11} {:>13} {:>13} {:>9.1}",
        "",
        records.len(),
        quantile(&mut ttft, 50),
        quantile(&mut ttft, 95),
        quantile(&mut gaps, 50),
        quantile(&mut gaps, 95),
        rate(tokens, elapsed),
    )
}

fn rate(tokens: u64, elapsed: Duration) -> f64 {
    let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
    f64::from(tokens) / elapsed.as_secs_f64().max(0.001)
}

// The gaps between the token events of one answer, as far as its timeline goes; as in the metric, those that came in one
// read have none.
fn gaps(record: &Record) -> Vec<Duration> {
    let mut gaps = Vec::new();
    let mut last = None;
    for (at, token_events) in record.timeline.events() {
        if let Some(last) = last {
            gaps.push(Duration::from_micros(u64::from(at.saturating_sub(last))));
        }
        gaps.extend((1..*token_events).map(|_| Duration::ZERO));
        last = Some(*at);
    }
    gaps
}

// The nearest-rank quantile, in milliseconds.
fn quantile(values: &mut [Duration], percent: usize) -> String {
    if values.is_empty() {
        return "-".into();
    }
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    let value = values.get(rank - 1).copied().unwrap_or_default();
    format!("{:.1} ms", value.as_secs_f64() * 1e3)
}

/// How many exchanges each version of the rules sent to each engine.
pub fn by_version(shared: &Shared) -> String {
    let mut counts: BTreeMap<(u64, Arc<str>), usize> = BTreeMap::new();
    for record in shared.ring_records() {
        if let Some(engine) = &record.engine {
            *counts
                .entry((record.rules_version, engine.clone()))
                .or_default() += 1;
        }
    }
    let lines = counts.iter().map(|((version, engine), count)| {
        format!("  rules version {version}: {count:>4} to {engine}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let check = |millis: &[u64], percent: usize, expected: &str| {
            let mut values: Vec<Duration> =
                millis.iter().copied().map(Duration::from_millis).collect();
            assert_eq!(
                quantile(&mut values, percent),
                expected,
                "{millis:?} {percent}"
            );
        };
        check(&[], 50, "-");
        check(&[7], 95, "7.0 ms");
        check(&[3, 1, 2, 4], 50, "2.0 ms");
        check(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 95, "10.0 ms");
    }
}
