//! A record as people and programs read it: one JSON object.
//!
//! In: a record. Out: the access log's line, and an entry of `/v1/exchanges`, which are the same but for the timeline.
//! What is not known is not there. Times are seconds.

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::record::{Record, Timeline};

/// Appends the record's log line.
pub fn write(record: &Record, out: &mut Vec<u8>) {
    let before = out.len();
    // Writing to a vector does not fail; if serialising ever did, half a line must not stay.
    match serde_json::to_writer(&mut *out, &Line::of(record, None)) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(before),
    }
}

/// The record as a JSON value, with its timeline.
pub fn entry(record: &Record) -> serde_json::Value {
    serde_json::to_value(Line::of(record, Some(&record.timeline))).unwrap_or_default()
}

#[derive(Serialize)]
struct Line<'a> {
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
    traffic: &'static str,
    leg: &'static str,
    rules_version: u64,
    rules_hash: Display<Hex64>,
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
    trace_id: Option<Display<Hex<16>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<Display<Hex<8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<Display<Hex<8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<Events<'a>>,
}

#[derive(Serialize)]
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

#[derive(Serialize)]
struct Tokens<'a> {
    events: u64,
    token_events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<u64>,
    finish_reasons: Reasons<'a>,
    terminated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unmetered: Option<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    bad_events: u64,
}
