//! What may be open to one engine, and what is kept open between requests.
//!
//! In: `pool` of an engine's rules. Out: a [`Pool`], or problems.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::problem::{Place, Problems};
use crate::units::Period;

/// What may be open to an engine, and what is kept open between requests.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Pool")]
pub struct PoolRule {
    /// Requests under way at a time, of all workers together, at each of `url` and `grpc`; for one more it counts as an engine that answers 503: its split
    /// may send that one elsewhere, else the caller is answered 503. At least 1. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Idle HTTP/1.1 connections that each worker keeps to each of its addresses. Default: `1024`.
    pub idle: u32,
    /// How long an idle HTTP/1.1 connection is kept, in whole seconds, at most 1h; shorter than the server keeps it. Default:
    /// `4s`, since uvicorn, in front of vLLM and SGLang, closes after 5 s.
    pub idle_for: Period,
    /// Requests at a time on one HTTP/2 connection, 1 to 10000; the engine may allow fewer. Default: `100`.
    pub streams: u32,
}

impl Default for PoolRule {
    fn default() -> PoolRule {
        PoolRule {
            requests: None,
            idle: 1024,
            idle_for: Duration::from_secs(4).into(),
            streams: 100,
        }
    }
}

impl PoolRule {
    /// As the relay reads it.
    pub fn limits(&self) -> Pool {
        Pool {
            requests: self.requests,
            idle: usize::try_from(self.idle).unwrap_or(usize::MAX),
            idle_seconds: self.idle_for.get().as_secs(),
            streams: usize::try_from(self.streams).unwrap_or(usize::MAX),
        }
    }
}

/// What may be open to an engine, as the relay reads it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pool {
    /// Requests under way at a time, if that is limited: at least 1.
    pub requests: Option<u32>,
    /// Idle HTTP/1.1 connections to one address, of one worker.
    pub idle: usize,
    /// For how many seconds one is kept.
    pub idle_seconds: u64,
    /// Requests at a time on one HTTP/2 connection: at least 1.
    pub streams: usize,
}

const LONGEST_IDLE: Duration = Duration::from_secs(3600);
const MOST_STREAMS: u32 = 10_000;

/// Compiles the limits of one engine; what is wrong with them goes to `problems`.
pub(super) fn compile(rule: &PoolRule, place: Place<'_>, problems: &mut Problems) -> Pool {
    let place = place.key("pool");
    if rule.requests == Some(0) {
        problems.add(
            place.key("requests"),
            "found 0, with which the engine would never be asked; at least 1 is needed, or none for no limit",
        );
    }
    let idle_for = rule.idle_for.get();
    if idle_for.subsec_nanos() != 0 || idle_for > LONGEST_IDLE {
        problems.add(
            place.key("idle_for"),
            format_args!(
                "found {}; whole seconds are allowed, from 0s to 1h",
                rule.idle_for
            ),
        );
    }
    if !(1..=MOST_STREAMS).contains(&rule.streams) {
        problems.add(
            place.key("streams"),
            format_args!("found {}; 1 to {MOST_STREAMS} are allowed", rule.streams),
        );
    }
    rule.limits()
}
