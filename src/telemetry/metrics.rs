//! All metrics, by name.
//!
//! In: records as exchanges end, and the gaps of streams. Out: Prometheus' text format. Every label comes from a closed
//! set: engines' tags, models that engines serve, routes, methods, statuses and enums; never from a caller's text, but for
//! so many tags that trusted callers give (see `identity`). The table of `docs/metrics.md` is this file's, for people.

mod engines;
mod maker;
mod spans;
mod success;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use greylag_filters::meter::{Figures, Metered, Unmetered};
use greylag_filters::rules::How;
use greylag_filters::success::Use;
use greylag_filters::traffic::Class;
use parking_lot::RwLock;
use prometheus::local::LocalHistogram;
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry,
    TextEncoder,
};

use crate::record::Record;
use crate::reply::Reason;
use crate::snapshot::Snapshot;
pub use engines::Engines;
use maker::Maker;
pub use spans::Exported;
pub use success::Success;

/// Upper bounds in seconds, from half a millisecond: engines decode a token in less than ten.
const SECONDS: [f64; 21] = [
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
/// Upper bounds in seconds for the lag of timers, which are as exact as a millisecond or two.
const STALLS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
const LEG: [&str; 4] = ["gray_tag", "model_name", "leg", "traffic"];

/// The metrics and their registry.
#[derive(Debug)]
pub struct Metrics {
    /// What is counted of engines that fail.
    pub engines: Engines,
    /// What is counted of spans.
    pub spans: Exported,
    /// What is counted of answers' use.
    pub success: Success,
    registry: Registry,
    duration: HistogramVec,
    requests: IntCounterVec,
    ttft: HistogramVec,
    inter_chunk: HistogramVec,
    time_per_output_token: HistogramVec,
    e2e: HistogramVec,
    output_tokens: IntCounterVec,
    prompt_tokens: IntCounterVec,
    outcomes: IntCounterVec,
    finish_reasons: IntCounterVec,
    overhead: HistogramVec,
    token_overhead: Histogram,
    stalls: Histogram,
    stalled: IntCounter,
    throttled: IntCounter,
    client_abort: Histogram,
    unmetered: IntCounterVec,
    refused: IntCounterVec,
    retried: IntCounter,
    hops: IntCounter,
    reloads: IntCounterVec,
    log_dropped: IntCounter,
    in_flight: IntGauge,
    rules_version: IntGauge,
    rules_file_usable: IntGauge,
    state_saved: IntGauge,
    connections: IntGauge,
    memory: IntGauge,
    effective_share: GaugeVec,
    // the handles of one engine's exchanges, so that ending one does not look each of them up
    series: RwLock<HashMap<Key, Arc<Series>>>,
}

/// What is read when the page is asked for.
#[derive(Debug, Default, Clone, Copy)]
pub struct Levels {
    /// Exchanges that have begun and not ended.
    pub in_flight: u64,
    /// Connections that clients have open.
    pub connections: u64,
    /// Bytes that request bodies hold.
    pub body_memory: u64,
    /// The version of the rules in force.
    pub rules_version: u64,
    /// Whether nothing is wrong with the configuration file.
    pub is_file_usable: bool,
    /// Whether the state file says what is in force, or there is none.
    pub is_saved: bool,
    /// Log lines that found no room, since the start.
    pub log_dropped: u64,
    /// Periods in which the control group was throttled, since it was made.
    pub throttled: u64,
}

type Key = (Arc<str>, Arc<str>, Class);

// The metrics with the labels of `LEG`, for one set of them.
#[derive(Debug)]
struct Series {
    ttft: Histogram,
    inter_chunk: Histogram,
    time_per_output_token: Histogram,
    e2e: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// All metrics, at zero.
    pub fn new() -> Self {
        let registry = Registry::new();
        let make = Maker(&registry);
        let build = make.gauges(
            "greylag_build_info",
            "The version that runs; the value is always 1.",
            &["version"],
        );
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let overhead = make.own_histograms(
            "greylag_overhead_seconds",
            "What Greylag itself takes: for a request from whole in memory to written to the engine, connecting left out; for a token from read to written to the client.",
            &["part"],
        );
        Metrics {
            engines: Engines::new(&make),
            spans: Exported::new(&make),
            success: Success::new(&make),
            duration: make.histograms(
                "model_inference_duration_seconds",
                "Time from an inference request's head to its answer's last byte.",
                &SECONDS,
                &["gray_tag", "model_name", "status_code"],
            ),
            requests: make.counters(
                "model_request_total",
                "Requests by engine tag, route and method.",
                &["gray_tag", "route", "http_method"],
            ),
            ttft: make.histograms(
                "greylag_ttft_seconds",
                "Time from the request's last byte written to the engine to the first token event read.",
                &SECONDS,
                &LEG,
            ),
            inter_chunk: make.histograms(
                "greylag_inter_chunk_seconds",
                "Gaps between token events as they come from the engine; of several in one read, all but the first have a gap of 0.",
                &SECONDS,
                &LEG,
            ),
            time_per_output_token: make.histograms(
                "greylag_time_per_output_token_seconds",
                "Time between first and last token event, divided by one less than the tokens of usage.",
                &SECONDS,
                &LEG,
            ),
            e2e: make.histograms(
                "greylag_e2e_seconds",
                "Time from the request's last byte written to the last token event, or to a plain answer's end.",
                &SECONDS,
                &LEG,
            ),
            output_tokens: make.counters("greylag_output_tokens_total", "Output tokens, from usage.", &LEG),
            prompt_tokens: make.counters("greylag_prompt_tokens_total", "Prompt tokens, from usage.", &LEG),
            outcomes: make.counters(
                "greylag_outcomes_total",
                "Exchanges by what became of them.",
                &["gray_tag", "model_name", "leg", "traffic", "route", "outcome"],
            ),
            finish_reasons: make.counters(
                "greylag_finish_reasons_total",
                "Choices by why they ended.",
                &["gray_tag", "model_name", "leg", "traffic", "finish_reason"],
            ),
            token_overhead: overhead.with_label_values(&["token"]),
            overhead,
            stalls: make.histogram_of(
                "greylag_stall_seconds",
                "How late the workers' timers are, looked at 100 times a second: what Greylag's own threads are held up.",
                &STALLS,
            ),
            stalled: make.counter("greylag_stalled_exchanges_total", "Exchanges during which Greylag itself was held up."),
            throttled: make.counter(
                "greylag_cpu_throttled_total",
                "Periods in which the control group's CPU quota was spent and its tasks had to wait.",
            ),
            client_abort: make.histogram(
                "greylag_client_abort_seconds",
                "Time from noticing that a client left to the engine's connection being closed.",
            ),
            unmetered: make.counters(
                "greylag_unmetered_total",
                "Requests or answers of inference routes that were passed on unread, by reason.",
                &["reason"],
            ),
            refused: make.counters("greylag_refused_total", "Answers that Greylag gave itself, by reason.", &["reason"]),
            retried: make.counter("greylag_retried_total", "Exchanges that were sent to an engine more than once."),
            hops: make.counter("greylag_hops_total", "Exchanges that another Greylag had routed, so that they were not split again."),
            reloads: make.counters(
                "greylag_rules_reload_total",
                "Attempts to change the rules, by result.",
                &["result"],
            ),
            log_dropped: make.counter("greylag_log_dropped_total", "Log lines that found no room."),
            in_flight: make.gauge("greylag_in_flight", "Exchanges that have begun and not ended."),
            rules_version: make.gauge("greylag_rules_version", "The version of the rules in force."),
            rules_file_usable: make.gauge(
                "greylag_rules_file_usable",
                "Whether the configuration file can be used: 1, or 0 while what was in force before stays.",
            ),
            state_saved: make.gauge(
                "greylag_state_saved",
                "Whether what is in force would outlive the process as far as it should: 0 while the state file cannot be written.",
            ),
            connections: make.gauge("greylag_connections", "Connections that clients have open."),
            memory: make.gauge("greylag_body_memory_bytes", "Memory that request bodies hold, of limits.memory."),
            effective_share: make.shares(
                "greylag_effective_share",
                "Share of an engine in what a split has decided since the rules in force were published.",
                &["split", "gray_tag"],
            ),
            series: RwLock::default(),
            registry,
        }
    }

    /// Counts an exchange that has ended.
    pub fn count(&self, record: &Record, model: &Arc<str>, connecting: Duration) {
        let tag = record.tag.as_deref().unwrap_or("none");
        let route = record.route.label();
        let method = method_label(&record.method);
        self.requests.with_label_values(&[tag, route, method]).inc();
        let traffic = record.traffic.label();
        let outcome = record.outcome.label();
        self.outcomes
            .with_label_values(&[tag, model, PRIMARY, traffic, route, outcome])
            .inc();
        if record.attempts > 1 {
            self.retried.inc();
        }
        if record.stalled.is_some() {
            self.stalled.inc();
        }
        if record.how == Some(How::Hop) {
            self.hops.inc();
        }
        if record.engine_status.is_none()
            && let Some(reason) = record.reason
        {
            self.refused(reason);
        }
        if let (Some(left), Some(ended)) = (record.times.left, record.times.ended) {
            self.client_abort
                .observe(ended.saturating_sub(left).as_secs_f64());
        }
        if let Some(overhead) = record.times.overhead(connecting) {
            self.overhead
                .with_label_values(&["request"])
                .observe(overhead.as_secs_f64());
        }
        if let Some(success) = record.success {
            self.success.turned(record, model, Use::Open, success);
        }
        if record.route.is_inference() {
            self.count_inference(record, model, tag);
        }
    }

    fn count_inference(&self, record: &Record, model: &Arc<str>, tag: &str) {
        if let (Some(status), Some(ended)) = (record.status, record.times.ended) {
            let mut digits = itoa::Buffer::new();
            self.duration
                .with_label_values(&[tag, model, digits.format(status)])
                .observe(ended.as_secs_f64());
        }
        let Some(figures) = &record.figures else {
            return;
        };
        let series = self.series(record, model);
        series.count(record, figures);
        let traffic = record.traffic.label();
        // A count that is not known makes no series: it is absent, not zero.
        let tokens = |counters: &IntCounterVec, count: Option<u64>| {
            if let Some(count) = count {
                counters
                    .with_label_values(&[tag, model, PRIMARY, traffic])
                    .inc_by(count);
            }
        };
        tokens(
            &self.prompt_tokens,
            figures.usage.and_then(|usage| usage.prompt),
        );
        tokens(
            &self.output_tokens,
            figures.usage.and_then(|usage| usage.completion),
        );
        for (reason, choices) in figures.finish_reasons.iter() {
            self.finish_reasons
                .with_label_values(&[tag, model, PRIMARY, traffic, reason.label()])
                .inc_by(u64::from(choices));
        }
        if let Some(reason) = figures.unmetered {
            self.unmetered(reason);
        }
    }

    /// Counts a request that is over, of a call that carries many.
    pub fn request(&self, record: &Record, model: &Arc<str>, metered: &Metered) {
        let series = self.series(record, model);
        if let Some(ttft) = metered.first_token_after() {
            series.ttft.observe(ttft.as_secs_f64());
        }
        if let Some(last) = metered.figures.last_token {
            let e2e = last.saturating_sub(metered.asked);
            series.e2e.observe(e2e.as_secs_f64());
        }
    }

    /// The gaps of one stream.
    pub fn gaps(&self, record: &Record, model: &Arc<str>) -> Gaps {
        Gaps {
            inter_chunk: self.series(record, model).inter_chunk.local(),
            overhead: self.token_overhead.local(),
        }
    }

    /// A beat of a worker was so late.
    pub fn stalled(&self, late: Duration) {
        self.stalls.observe(late.as_secs_f64());
    }

    /// Something of an inference route that was not read.
    pub fn unmetered(&self, reason: Unmetered) {
        self.unmetered.with_label_values(&[reason.label()]).inc();
    }

    /// An answer of ours.
    pub fn refused(&self, reason: Reason) {
        self.refused.with_label_values(&[reason.code()]).inc();
    }

    /// An attempt to change the rules: `ok`, `conflict` or `invalid`.
    pub fn reloaded(&self, result: &'static str) {
        self.reloads.with_label_values(&[result]).inc();
    }

    /// The page, with the levels, the splits' effective shares and the engines' health as they are now.
    pub fn page(&self, levels: &Levels, snapshot: &Snapshot) -> String {
        // Splits and engines come and go with the rules.
        self.effective_share.reset();
        for (split, tag, share) in snapshot.effective_shares() {
            self.effective_share
                .with_label_values(&[split, tag])
                .set(share);
        }
        self.engines.set_health(snapshot.health());
        let level =
            |gauge: &IntGauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        level(&self.in_flight, levels.in_flight);
        level(&self.rules_version, levels.rules_version);
        level(&self.rules_file_usable, levels.is_file_usable.into());
        level(&self.state_saved, levels.is_saved.into());
        level(&self.connections, levels.connections);
        level(&self.memory, levels.body_memory);
        self.throttled
            .inc_by(levels.throttled.saturating_sub(self.throttled.get()));
        self.log_dropped
            .inc_by(levels.log_dropped.saturating_sub(self.log_dropped.get()));
        let mut page = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut page)
            .expect("a vector takes what is written to it");
        String::from_utf8_lossy(&page).into_owned()
    }

    fn series(&self, record: &Record, model: &Arc<str>) -> Arc<Series> {
        let key = key(record, model);
        if let Some(series) = self.series.read().get(&key) {
            return series.clone();
        }
        let labels = [&*key.0, &*key.1, PRIMARY, record.traffic.label()];
        let series = Arc::new(Series {
            ttft: self.ttft.with_label_values(&labels),
            inter_chunk: self.inter_chunk.with_label_values(&labels),
            time_per_output_token: self.time_per_output_token.with_label_values(&labels),
            e2e: self.e2e.with_label_values(&labels),
        });
        self.series.write().insert(key, series.clone());
        series
    }
}

fn key(record: &Record, model: &Arc<str>) -> Key {
    let tag = record.tag.clone().unwrap_or_else(|| Arc::from("none"));
    (tag, model.clone(), record.traffic)
}

impl Series {
    fn count(&self, record: &Record, figures: &Figures) {
        if let Some(ttft) = record.ttft() {
            self.ttft.observe(ttft.as_secs_f64());
        }
        if let Some(e2e) = record.e2e() {
            self.e2e.observe(e2e.as_secs_f64());
        }
        if let Some(time) = figures.time_per_output_token() {
            self.time_per_output_token.observe(time.as_secs_f64());
        }
    }
}

/// The gaps of one stream: noted without a lock, and added to the metrics when the stream ends.
#[derive(Debug)]
pub struct Gaps {
    inter_chunk: LocalHistogram,
    overhead: LocalHistogram,
}

impl Gaps {
    /// Notes `token_events` of one read, the first of them `gap` after the one before; the others came with it, so
    /// their gap is 0.
    pub fn note(&self, token_events: u32, gap: Option<Duration>) {
        if let Some(gap) = gap {
            self.inter_chunk.observe(gap.as_secs_f64());
        }
        for _ in 1..token_events {
            self.inter_chunk.observe(0.0);
        }
    }

    /// Notes how long a token event took from the engine's socket to the client's.
    pub fn relayed(&self, took: Duration) {
        self.overhead.observe(took.as_secs_f64());
    }
}

impl Drop for Gaps {
    fn drop(&mut self) {
        self.inter_chunk.flush();
        self.overhead.flush();
    }
}

/// The leg that answers the caller.
const PRIMARY: &str = "primary";

fn method_label(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        "PATCH" => "PATCH",
        _ => "other",
    }
}
