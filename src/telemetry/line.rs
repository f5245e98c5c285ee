//! A record as `/v1/exchanges` shows it: one JSON object.
//!
//! In: a record. Out: an entry, with its timeline and what was judged. What is not known is not there. Times are seconds.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use greylag_filters::feedback::Heard;
use greylag_filters::grpc::Status;
use greylag_filters::meter::{FinishReasons, Metered};
use greylag_filters::success::{Flaw, Use};
use schemars::JsonSchema;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::log::said::hex;
use super::ring::Entry;
use crate::record::{Record, Requests, Timeline};

/// The record as a JSON value, with its timeline and what is judged of it by now.
pub fn entry(entry: &Entry) -> serde_json::Value {
    let record = &entry.record;
    let shown = Shown {
        line: Line::of(record),
        judged: Judged::of(entry),
    };
    serde_json::to_value(shown).unwrap_or_default()
}

/// An exchange that the ring holds, as it is shown.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Exchange")]
pub struct Shown<'a> {
    #[serde(flatten)]
    line: Line<'a>,
    #[serde(flatten)]
    judged: Judged<'a>,
}

/// Whether an exchange was of use, by what is known by now.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Judged<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flaw: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback: Option<&'a Heard>,
}

impl<'a> Judged<'a> {
    /// What is known of an exchange that the ring holds.
    pub fn of(entry: &'a Entry) -> Self {
        let (success, flaw) = entry.success.map(Use::told).unwrap_or_default();
        Judged {
            success,
            flaw: flaw.map(Flaw::label),
            feedback: entry.heard.as_deref(),
        }
    }
}

#[derive(JsonSchema, Serialize)]
struct Line<'a> {
    #[schemars(with = "String")]
    time: Display<humantime::Rfc3339Timestamp>,
    id: &'a str,
    method: &'a str,
    path: &'a str,
    route: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_bytes: Option<u64>,
    traffic: &'static str,
    leg: &'static str,
    rules_version: u64,
    #[schemars(with = "String")]
    rules_hash: Hex<8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gray_tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<&'static str>,
    attempts: u8,
    reused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_status: Option<u16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    tunnel: bool,
    outcome: &'static str,
    end: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    request_bytes: u64,
    answer_bytes: u64,
    times: Times,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    trace_id: Option<Hex<16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    span_id: Option<Hex<8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    parent_span_id: Option<Hex<8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Calls<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
    #[schemars(with = "Vec<(f64, u32)>")]
    timeline: Events<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    later_gaps: Vec<(f64, u32)>,
}

#[derive(JsonSchema, Serialize)]
struct Fault {
    code: &'static str,
    grade: &'static str,
    root_cause: &'static str,
}

#[derive(JsonSchema, Serialize)]
struct Times {
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connected: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_from_arrival: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_first_output_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_per_output_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e2e: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct Tokens<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    events: u64,
    token_events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token_event: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<u64>,
    #[schemars(with = "BTreeMap<String, u64>")]
    finish_reasons: Reasons<'a>,
    terminated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_arguments_ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unmetered: Option<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    bad_events: u64,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record) -> Self {
        let trace = record.trace.as_ref();
        Line {
            time: Display(humantime::format_rfc3339_micros(record.started)),
            id: &record.id,
            method: record.method.as_str(),
            path: &record.path,
            route: record.route.label(),
            client: record.client,
            model: record.model.as_deref(),
            stream: record.stream,
            prompt_bytes: record.prompt_bytes,
            traffic: record.traffic.label(),
            leg: "primary",
            rules_version: record.rules_version,
            rules_hash: Hex(record.rules_hash.to_be_bytes()),
            engine: record.engine.as_deref(),
            gray_tag: record.tag.as_deref(),
            split: record.split.as_deref(),
            how: record.how.map(|how| how.label()),
            attempts: record.attempts,
            reused: record.reused,
            status: record.status,
            engine_status: record.engine_status,
            tunnel: record.is_tunnel,
            outcome: record.outcome.label(),
            end: record.end.label(),
            reason: record.reason.map(|reason| reason.code()),
            request_bytes: record.request_bytes,
            answer_bytes: record.answer_bytes,
            times: Times::of(record),
            tokens: Tokens::of(record),
            trace_id: trace.map(|trace| Hex(trace.trace_id)),
            span_id: trace.map(|trace| Hex(trace.span)),
            parent_span_id: trace.and_then(|trace| trace.parent).map(Hex),
            sampled: trace.map(|trace| trace.sampled()),
            kept: record.kept.map(|kept| kept.label()),
            x_trace_id: record.x_trace_id.as_deref(),
            grpc_status: record.grpc_status.map(Status::name),
            requests: record.requests.as_deref().map(Calls::of),
            stalled: record.stalled.map(|stalled| stalled.as_secs_f64()),
            error: record.cause().map(|cause| Fault {
                code: cause.code,
                grade: cause.grade().label(),
                root_cause: cause.root.label(),
            }),
            timeline: Events(&record.timeline),
            later_gaps: later_gaps(&record.timeline),
        }
    }
}

impl Times {
    fn of(record: &Record) -> Self {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let figures = record.figures.as_ref();
        Times {
            request: seconds(record.times.request),
            connected: seconds(record.times.connected),
            written: seconds(record.times.written),
            head: seconds(record.times.head),
            ended: seconds(record.times.ended),
            ttft: seconds(record.ttft()),
            ttft_from_arrival: seconds(figures.and_then(|figures| figures.first_token)),
            time_to_first_output_token: seconds(record.time_to_first_output_token()),
            time_per_output_token: seconds(
                figures.and_then(|figures| figures.time_per_output_token()),
            ),
            e2e: seconds(record.e2e()),
        }
    }
}

impl<'a> Tokens<'a> {
    fn of(record: &'a Record) -> Option<Self> {
        let figures = record.figures.as_ref()?;
        let usage = figures.usage.as_ref();
        Some(Tokens {
            model: figures.model.as_deref(),
            events: figures.events,
            token_events: figures.token_events,
            first_token_event: figures.first_token_event,
            prompt: usage.and_then(|usage| usage.prompt),
            output: usage.and_then(|usage| usage.completion),
            cached: usage.and_then(|usage| usage.cached),
            reasoning: usage.and_then(|usage| usage.reasoning),
            finish_reasons: Reasons(&figures.finish_reasons),
            terminated: figures.terminated,
            error: figures
                .error
                .as_ref()
                .map(|error| error.word().unwrap_or("unnamed")),
            json_ok: figures.json_ok,
            tool_arguments_ok: figures.tool_arguments_ok,
            unmetered: figures.unmetered.map(|reason| reason.label()),
            bad_events: figures.bad_events,
        })
    }
}

// The requests of a call that carries many.
#[derive(JsonSchema, Serialize)]
struct Calls<'a> {
    count: u64,
    unmetered: u64,
    strays: u64,
    kept: Vec<Call<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct Call<'a> {
    id: &'a str,
    asked: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft: Option<f64>,
    token_events: u64,
    terminated: bool,
    error: bool,
}

impl<'a> Calls<'a> {
    fn of(requests: &'a Requests) -> Self {
        let tally = &requests.tally;
        Calls {
            count: tally.requests,
            unmetered: tally.unmetered,
            strays: tally.strays,
            kept: requests.kept().iter().map(Call::of).collect(),
        }
    }
}

impl<'a> Call<'a> {
    fn of(metered: &'a Metered) -> Self {
        let figures = &metered.figures;
        Call {
            id: &metered.id,
            asked: metered.asked.as_secs_f64(),
            model: figures.model.as_deref(),
            ttft: metered.first_token_after().map(|ttft| ttft.as_secs_f64()),
            token_events: figures.token_events,
            terminated: figures.terminated,
            error: figures.error.is_some(),
        }
    }
}

// Finish reasons as a map from the reason to how many choices had it.
struct Reasons<'a>(&'a FinishReasons);

impl Serialize for Reasons<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .iter()
                .map(|(reason, choices)| (reason.label(), choices)),
        )
    }
}

// A timeline as pairs of seconds since the head was read and token events.
struct Events<'a>(&'a Timeline);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let events = self.0.events();
        let mut list = serializer.serialize_seq(Some(events.len()))?;
        for (micros, token_events) in events {
            list.serialize_element(&(f64::from(*micros) / 1e6, token_events))?;
        }
        list.end()
    }
}

// The gaps of later reads: at least so many seconds and less than twice that, and how many.
fn later_gaps(timeline: &Timeline) -> Vec<(f64, u32)> {
    let gaps = timeline.later_gaps();
    gaps.map(|(micros, count)| (f64::from(micros) / 1e6, count))
        .collect()
}

// What displays itself, as a string.
struct Display<T>(T);

impl<T: std::fmt::Display> Serialize for Display<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

// Bytes, at most 16, as lower-case hexadecimal digits.
struct Hex<const N: usize>([u8; N]);

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex(serializer, &self.0)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
