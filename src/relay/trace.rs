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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pingora_http::RequestHeader;

    use super::*;
    use crate::config::Otlp;
    use crate::exchange::Origin;
    use crate::relay::caller::Caller;
    use crate::store::Store;
    use crate::telemetry::Telemetry;
    use crate::telemetry::log::Log;

    // What a process with this rule makes of heads, one after the other.
    struct Process {
        store: Store,
        telemetry: Arc<Telemetry>,
        origin: Origin,
    }

    impl Process {
        fn new(trace: &str) -> Self {
            let rules = format!(
                r#"{{"engines":{{"a":{{"kind":"vllm","url":"http://a"}}}},"default_engine":"a","trace":{trace}}}"#
            );
            Process {
                store: Store::new(&serde_json::from_str(&rules).unwrap(), 7).unwrap(),
                telemetry: Telemetry::new(0, Log::off(), &Otlp::default()).unwrap(),
                origin: Origin::seeded(7),
            }
        }

        fn begun(&self, fields: &[(&'static str, &str)]) -> Exchange {
            let mut head = RequestHeader::build("GET", b"/health", None).unwrap();
            for (name, value) in fields {
                head.append_header(*name, *value).unwrap();
            }
            let rules = self.store.current();
            let caller = Caller::default();
            let mut exchange = Exchange::begin(
                &head,
                caller,
                rules,
                &self.origin,
                &Arc::default(),
                &self.telemetry,
            );
            begin(&mut exchange, &head.headers);
            exchange
        }

        fn sampled(&self, exchanges: usize) -> usize {
            let sampled = |_: &usize| {
                let exchange = self.begun(&[]);
                exchange.record.trace.is_some_and(|trace| trace.sampled())
            };
            (0..exchanges).filter(sampled).count()
        }
    }

    #[test]
    fn of_ten_thousand_exchanges_a_hundred_are_sampled_at_one_per_cent() {
        let process = Process::new(r#"{ "max_per_second": 10000 }"#);
        let sampled = process.sampled(10_000);
        // 3 · √(10,000 · 0.01 · 0.99) = 29.8
        assert!(sampled.abs_diff(100) <= 29, "{sampled}");
    }

    #[test]
    fn no_more_are_sampled_than_the_cap_says() {
        let process = Process::new(r#"{ "share": "100%", "max_per_second": 3 }"#);
        let start = process.origin.now();
        let sampled = process.sampled(1000);
        let seconds = process.origin.now().as_secs() - start.as_secs() + 1;
        assert!(sampled > 0 && sampled as u64 <= 3 * seconds, "{sampled}");
    }

    #[test]
    fn what_a_caller_calls_its_trace_is_noted_within_bounds() {
        let process = Process::new("{}");
        let check = |fields: &[(&'static str, &str)], expected: Option<&str>| {
            let exchange = process.begun(fields);
            assert_eq!(exchange.record.x_trace_id.as_deref(), expected);
        };
        check(&[], None);
        check(&[("x-trace-id", "t-1")], Some("t-1"));
        check(&[("x-trace-id", "")], None);
        check(&[("x-trace-id", "a"), ("x-trace-id", "b")], None);
        let longest = "x".repeat(MAX_TEXT);
        check(&[("x-trace-id", &longest)], Some(&longest));
        check(&[("x-trace-id", &format!("{longest}x"))], None);
        // Whoever sends no spans keeps no state.
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let exchange = process.begun(&[("traceparent", parent), ("tracestate", "a=1")]);
        assert_eq!(exchange.record.trace_state, None);
    }
}
