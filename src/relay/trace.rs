//! The trace that an exchange is part of, as its head says.
//!
//! In: the head. Out: in the record, its place in the trace and what the caller calls it. The decision on sampling stands in
//! `greylag_filters::trace`; the cap that it asks is shared by all workers.

use greylag_filters::trace;
use http::HeaderMap;

use crate::exchange::Exchange;
use crate::record::{MAX_STATE, MAX_TEXT};

/// Notes the trace of an exchange, before anything can be refused, so that a refusal has its place too.
pub fn begin(exchange: &mut Exchange, headers: &HeaderMap) {
    exchange.record.x_trace_id = text(headers, "x-trace-id", MAX_TEXT);
    let rule = &exchange.snapshot.rules.written().trace;
    let sample = || {
        rule.samples(exchange.draw(trace::HEAD), |luck| {
            let heads = &exchange.telemetry().spans.heads;
            heads.admit(exchange.process_time(), rule.most(), luck)
        })
    };
    let trace = trace::begin(headers, exchange.fresh(), sample);
    // Whoever sends no spans needs no state; nor does a trace that is ours.
    if trace.keeps_tracestate() && exchange.telemetry().spans.is_on() {
        exchange.record.trace_state = text(headers, "tracestate", MAX_STATE);
    }
    exchange.record.trace = Some(trace);
}

// A field that is there once and no longer than `most`: a part of it would be another one.
fn text(headers: &HeaderMap, name: &str, most: usize) -> Option<Box<str>> {
    let mut given = headers.get_all(name).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return None;
    };
    let text = value.to_str().ok()?;
    (1..=most).contains(&text.len()).then(|| text.into())
}
