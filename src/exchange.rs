//! One exchange: its clock, its id, its pinned snapshot and the record that comes of it.
//!
//! Only this file reads the clock and draws an id. A record is made exactly once, however the exchange ends: dropping
//! the value makes it, so that a panic or an aborted task leaves one too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use greylag_filters::draw::Draw;
use greylag_filters::meter::Offset;
use greylag_filters::outcome::{self, End};
use greylag_filters::success;
use greylag_filters::trace::{self, Kept};
use greylag_filters::units::{Moment, Share};
use http::Method;
use pingora_http::RequestHeader;

use crate::record::{Logged, MAX_TEXT, Record, bounded};
use crate::relay::caller::Caller;
use crate::reply::Reason;
use crate::snapshot::Snapshot;
use crate::stall::Pulse;
use crate::telemetry::Telemetry;

/// What makes this process's ids and draws: a random number drawn at its start, and a counter.
#[derive(Debug)]
pub struct Origin {
    boot: u64,
    count: AtomicU64,
    start: Instant,
    born: Moment,
}

impl Origin {
    /// An origin that no other process shares, as far as chance can tell.
    pub fn fresh() -> Self {
        Origin::seeded(rand::random())
    }

    /// An origin whose ids and draws repeat, for tests.
    pub fn seeded(boot: u64) -> Self {
        Origin {
            boot,
            count: AtomicU64::new(0),
            start: instant(),
            born: wall_clock().into(),
        }
    }

    /// The time since it was made: what is known of engines is dated by this, since it outlives exchanges.
    pub fn now(&self) -> Offset {
        instant().duration_since(self.start)
    }

    /// The time of day at which it was made.
    pub fn born(&self) -> Moment {
        self.born
    }

    /// The time of day: what people are told of, and what outlives the process, is dated by this.
    pub fn today(&self) -> Moment {
        wall_clock().into()
    }

    /// The number that tells this process from others, and the seed of its draws.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// The moment at which `now()` will be `offset`, for a timer.
    pub fn at(&self, offset: Offset) -> tokio::time::Instant {
        (self.start + offset).into()
    }

    fn next_id(&self) -> Box<str> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{count:x}", self.boot).into()
    }
}

/// An exchange under way.
#[derive(Debug)]
pub struct Exchange {
    /// The rules that hold to its end.
    pub snapshot: Arc<Snapshot>,
    /// Who asks.
    pub caller: Caller,
    /// What is known so far.
    pub record: Record,
    /// How much of the time before `written` went into connecting.
    pub connecting: Duration,
    /// Whether the answer is a stream of server-sent events.
    pub sse: bool,
    /// Whether the answer says where its end is.
    pub is_framed: bool,
    seed: u64,
    start: Instant,
    // how long the process had run by then
    born: Offset,
    pulse: Arc<Pulse>,
    // what the worker had lost before
    lost: Duration,
    telemetry: Arc<Telemetry>,
}

impl Exchange {
    /// Begins an exchange whose head has just been read.
    pub fn begin(
        head: &RequestHeader,
        caller: Caller,
        snapshot: Arc<Snapshot>,
        origin: &Origin,
        pulse: &Arc<Pulse>,
        telemetry: &Arc<Telemetry>,
    ) -> Self {
        let start = instant();
        let born = start.duration_since(origin.start);
        let path = head.uri.path();
        let id = caller_id(head).unwrap_or_else(|| origin.next_id());
        telemetry.began();
        let record = Record {
            id,
            started: wall_clock(),
            rules_version: snapshot.version,
            rules_hash: snapshot.rules.hash(),
            method: head.method.clone(),
            path: bounded(path),
            route: snapshot.rules.route(path),
            client: caller.client,
            ..Record::default()
        };
        Exchange {
            snapshot,
            caller,
            record,
            connecting: Duration::ZERO,
            sse: false,
            is_framed: true,
            seed: origin.boot(),
            start,
            born,
            lost: pulse.lost(born),
            pulse: pulse.clone(),
            telemetry: telemetry.clone(),
        }
    }

    /// The time since the request's head was read.
    pub fn now(&self) -> Offset {
        instant().duration_since(self.start)
    }

    /// The time since the process began, by the exchange's clock: what exchanges share is dated by this.
    pub fn process_time(&self) -> Offset {
        self.born + self.now()
    }

    /// The moment at which `now()` will be `offset`, for a timer.
    pub fn at(&self, offset: Offset) -> tokio::time::Instant {
        (self.start + offset).into()
    }

    /// The draw of a rule for this exchange.
    pub fn draw(&self, rule: &str) -> Draw {
        Draw::new(self.seed, rule, self.record.id.as_bytes())
    }

    /// Fresh bytes for a trace's id and a span's: the one chance that is not a draw, since ids of one process must not
    /// be guessed from another's.
    pub fn fresh(&self) -> [u8; 24] {
        rand::random()
    }

    /// The seed of the draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Where the exchange's figures go.
    pub fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }

    // What went wrong is always logged, and of what went well a share.
    fn logged(&self) -> Logged {
        let share = self.telemetry.log.share();
        if share == Share::ALL || self.record.cause().is_some() {
            Logged::Always
        } else if share.hits(self.draw("log:line")) {
            Logged::Share(share)
        } else {
            Logged::Not
        }
    }

    // Why its span is kept, where spans are sent.
    fn kept(&self) -> Option<Kept> {
        let spans = &self.telemetry.spans;
        let trace = self.record.trace.as_ref().filter(|_| spans.is_on())?;
        let rule = &self.snapshot.rules.written().trace;
        let ended = trace::Ended {
            outcome: self.record.outcome,
            // Nothing injects any.
            is_injected: false,
            waited: self.record.waited(),
        };
        rule.keeps(trace, ended, || {
            let luck = self.draw(trace::END).ratio();
            spans.ends.admit(self.process_time(), rule.most(), luck)
        })
    }

    /// Notes how the exchange ended, and why if Greylag had a hand in it. The last word counts.
    pub fn ended(&mut self, end: End, reason: Option<Reason>) {
        self.record.end = end;
        self.record.reason = reason;
        self.record.times.ended = Some(self.now());
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let ended = self.record.times.ended;
        let ended = *self
            .record
            .times
            .ended
            .insert(ended.unwrap_or_else(|| self.now()));
        let lost = self.pulse.lost(self.born + ended).saturating_sub(self.lost);
        self.record.stalled = Some(lost).filter(|lost| !lost.is_zero());
        let figures = self.record.figures.as_ref();
        self.record.end = outcome::end(self.record.end, self.is_framed, figures);
        self.record.outcome = outcome::classify(
            self.record.end,
            self.record.engine_status,
            self.sse,
            self.record.figures.as_ref(),
        );
        let (outcome, figures) = (self.record.outcome, self.record.figures.as_ref());
        // A preflight, a page and a tunnel answer no request for inference.
        let is_judged = self.record.route.is_inference() && self.record.method == Method::POST;
        self.record.success = is_judged.then(|| success::of(outcome, figures));
        self.record.kept = self.kept();
        self.record.logged = self.logged();
        self.record.timeline.settle();
        self.telemetry
            .ended(std::mem::take(&mut self.record), self.connecting);
    }
}

// The caller's id is passed on and kept when it is one that a log can hold.
fn caller_id(head: &RequestHeader) -> Option<Box<str>> {
    let id = head.headers.get("x-request-id")?.to_str().ok()?;
    (1..=MAX_TEXT).contains(&id.len()).then(|| id.into())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock"
)]
fn instant() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use greylag_filters::outcome::Outcome;

    use super::*;
    use crate::config::Otlp;
    use crate::store::Store;
    use crate::telemetry::log::Log;

    #[test]
    fn an_exchange_that_is_only_dropped_leaves_one_record_too() {
        let rules = r#"{"engines":{"a":{"kind":"vllm","url":"http://a"}},"default_engine":"a"}"#;
        let store = Store::new(&serde_json::from_str(rules).unwrap(), 7).unwrap();
        let telemetry = Telemetry::new(1 << 20, Log::off(), &Otlp::default()).unwrap();
        let head = RequestHeader::build("GET", b"/health", None).unwrap();
        let origin = Origin::seeded(7);
        let exchange = Exchange::begin(
            &head,
            Caller::default(),
            store.current(),
            &origin,
            &Arc::default(),
            &telemetry,
        );
        assert_eq!(telemetry.in_flight(), 1);
        // As a panic does, or the end of the runtime.
        drop(exchange);
        assert_eq!(telemetry.in_flight(), 0);
        let records = telemetry.ring.newest(usize::MAX, |_| true);
        assert_eq!(records.len(), 1);
        let record = &records[0];
        assert_eq!(
            (record.outcome, record.reason),
            (Outcome::Refused, Some(Reason::Internal))
        );
        assert_eq!(
            (record.rules_version, &*record.id),
            (1, "0000000000000007-0")
        );
        assert!(record.times.ended.is_some());
    }
}
