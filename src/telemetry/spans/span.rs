//! A record as OpenTelemetry's span.
//!
//! In: a record. Out: one span, from the request's head to the answer's last byte, or to whatever ended it earlier. What is
//! not known is not there, and nothing of a prompt or an answer ever is.
//!
//! Its kind is SERVER: it covers what the caller asked for and was answered, as the HTTP conventions want it of whoever serves,
//! so that a caller's CLIENT span and this one make an edge of a service map. The conventions on generative AI have CLIENT
//! for the caller's own view of a model, which a sidecar's is not.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use greylag_filters::meter::Offset;
use greylag_filters::trace::Trace;
use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::attributes;
use crate::config::Semconv;
use crate::record::Record;
use crate::telemetry::names::{self, Names};

/// Makes spans.
#[derive(Debug)]
pub(super) struct Maker {
    names: Names,
    scope: InstrumentationScope,
}

impl Maker {
    /// One whose names are those of a version of the conventions.
    pub(super) fn new(version: Semconv) -> Self {
        let scope = InstrumentationScope::builder("greylag");
        Maker {
            names: Names::of(version),
            scope: scope.with_version(env!("CARGO_PKG_VERSION")).build(),
        }
    }

    /// The span of an exchange.
    pub(super) fn span(&self, record: &Record) -> SpanData {
        let at = |offset: Offset| record.started.checked_add(offset);
        let end = record.times.ended.and_then(at).unwrap_or(record.started);
        let parent = record.trace.as_ref().and_then(|trace| trace.parent);
        let mut events = SpanEvents::default();
        events.events = self.events(record, end);
        SpanData {
            span_context: context(record),
            parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
            parent_span_is_remote: parent.is_some(),
            span_kind: SpanKind::Server,
            name: name(record),
            start_time: record.started,
            end_time: end,
            attributes: attributes::of(record, &self.names),
            dropped_attributes_count: 0,
            events,
            links: SpanLinks::default(),
            status: status(record),
            instrumentation_scope: self.scope.clone(),
        }
    }

    // What happened on the way, in order.
    fn events(&self, record: &Record, end: SystemTime) -> Vec<Event> {
        let first_token = record.figures.as_ref().and_then(|it| it.first_token);
        let seconds = |time: Duration| KeyValue::new(names::TTFT, time.as_secs_f64());
        let ttft = record.ttft().map(seconds);
        let happened = [
            (names::EVENT_WRITTEN, record.times.written, None),
            (names::EVENT_FIRST_TOKEN, first_token, ttft),
            (names::EVENT_CLIENT_LEFT, record.times.left, None),
        ];
        let event =
            |(name, offset, attribute): (&'static str, Option<Offset>, Option<KeyValue>)| {
                let at = record.started.checked_add(offset?)?.min(end);
                Some(Event::new(name, at, attribute.into_iter().collect(), 0))
            };
        happened.into_iter().filter_map(event).collect()
    }
}

fn context(record: &Record) -> SpanContext {
    let Some(trace) = &record.trace else {
        return SpanContext::empty_context();
    };
    SpanContext::new(
        TraceId::from_bytes(trace.trace_id),
        SpanId::from_bytes(trace.span),
        TraceFlags::new(trace.flags),
        false,
        state(record, trace),
    )
}

fn state(record: &Record, trace: &Trace) -> TraceState {
    let said = record.trace_state.as_deref();
    let said = said.filter(|_| trace.keeps_tracestate());
    said.and_then(|text| text.parse().ok()).unwrap_or_default()
}

// `{operation} {model}` for what a model is asked; the method alone for the rest, since a path may be anything.
fn name(record: &Record) -> Cow<'static, str> {
    if !record.route.is_inference() {
        return record.method.to_string().into();
    }
    let operation = record.route.operation();
    match record.model.as_deref() {
        Some(model) => format!("{operation} {model}").into(),
        None => operation.into(),
    }
}

// Absent where all is well, as the conventions want it of whoever serves.
fn status(record: &Record) -> Status {
    match record.outcome.is_error() {
        true => Status::error(record.outcome.label()),
        false => Status::Unset,
    }
}

#[cfg(test)]
#[path = "span/tests.rs"]
mod tests;
