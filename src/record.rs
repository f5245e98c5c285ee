//! All that is known of one exchange when it ends.
//!
//! In: what the relay learnt on the way. Out: one value, from which the metrics, the log line, the span and the ring's
//! entry are made. It holds no prompt and no answer text, and every string in it is bounded.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use greylag_filters::cause::{self, Cause, Over};
use greylag_filters::feedback::LONGEST_ID;
use greylag_filters::grpc::Status;
use greylag_filters::meter::{Figures, InStreamError, Metered, Offset, StreamTally};
use greylag_filters::outcome::{End, Outcome};
use greylag_filters::route::Route;
use greylag_filters::rules::How;
use greylag_filters::rules::engine::Kind;
use greylag_filters::success::Use;
use greylag_filters::trace::{Kept, Trace};
use greylag_filters::traffic::Class;
use greylag_filters::units::Share;

use crate::reply::Reason;
use crate::upstream::Target;

/// One exchange: a request and its answer.
#[derive(Debug)]
pub struct Record {
    /// The caller's `x-request-id`, else one of ours; at most [`MAX_TEXT`] bytes.
    pub id: Box<str>,
    /// When the request's head was read.
    pub started: SystemTime,
    /// The version of the rules that held for the whole exchange.
    pub rules_version: u64,
    /// The hash of those rules.
    pub rules_hash: u64,

    /// The request's method.
    pub method: http::Method,
    /// The request's path without its query; at most [`MAX_TEXT`] bytes.
    pub path: Box<str>,
    /// The route that the path is.
    pub route: Route,
    /// The client's address: the peer's, or the one that a trusted peer names.
    pub client: Option<IpAddr>,
    /// The model that the request names; at most [`MAX_TEXT`] bytes.
    pub model: Option<Box<str>>,
    /// Whether the request asks for a stream.
    pub stream: bool,
    /// Bytes of the request's prompt or messages, as JSON.
    pub prompt_bytes: Option<u64>,
    /// Real or test traffic.
    pub traffic: Class,

    /// The engine that was chosen; of several that were tried, the last.
    pub engine: Option<Arc<str>>,
    /// Where that engine is.
    pub target: Option<Arc<Target>>,
    /// What kind of server it is.
    pub kind: Option<Kind>,
    /// The engine's tag, the label `gray_tag`.
    pub tag: Option<Arc<str>>,
    /// The split that chose it.
    pub split: Option<Arc<str>>,
    /// How it was chosen.
    pub how: Option<How>,
    /// How often an engine was tried, also when there was no connection to be had: 0 to 4, at most twice for
    /// each of two engines.
    pub attempts: u8,
    /// Whether the last attempt went over a pooled connection.
    pub reused: bool,

    /// The status that the client was sent.
    pub status: Option<u16>,
    /// The status that the engine sent.
    pub engine_status: Option<u16>,
    /// Whether it became a tunnel.
    pub is_tunnel: bool,
    /// How the exchange ended on the wire.
    pub end: End,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the answer was of use, before anybody else judged it; of a `POST` to an inference route alone.
    pub success: Option<Use>,
    /// Why Greylag answered itself, or cut the answer.
    pub reason: Option<Reason>,

    /// Bytes of the request's body as the client sent it.
    pub request_bytes: u64,
    /// Bytes of the answer's body as the client was sent it.
    pub answer_bytes: u64,
    /// When what happened, since `started`.
    pub times: Times,
    /// What the meter made of the answer.
    pub figures: Option<Figures>,
    /// When the token events came.
    pub timeline: Timeline,
    /// The status that a gRPC call ended with; absent where it did not end well enough to have one.
    pub grpc_status: Option<Status>,
    /// The requests of a call that carries many.
    pub requests: Option<Box<Requests>>,
    /// The trace that the exchange is part of.
    pub trace: Option<Trace>,
    /// How long Greylag itself was held up meanwhile; its times are then not the engine's alone.
    pub stalled: Option<Duration>,
    /// The caller's `tracestate`, where the trace is the caller's and spans are sent; at most [`MAX_STATE`] bytes.
    pub trace_state: Option<Box<str>>,
    /// The caller's `x-trace-id`; at most [`MAX_TEXT`] bytes.
    pub x_trace_id: Option<Box<str>>,
    /// Whether it is logged.
    pub logged: Logged,
    /// Why its span is kept, if it is.
    pub kept: Option<Kept>,
}

impl Default for Record {
    /// A record of nothing: refused, for a reason of our own, until the relay knows better.
    fn default() -> Self {
        Record {
            id: Box::default(),
            started: SystemTime::UNIX_EPOCH,
            rules_version: 0,
            rules_hash: 0,
            method: http::Method::GET,
            path: Box::default(),
            route: Route::Other,
            client: None,
            model: None,
            stream: false,
            prompt_bytes: None,
            traffic: Class::Real,
            engine: None,
            target: None,
            kind: None,
            tag: None,
            split: None,
            how: None,
            attempts: 0,
            reused: false,
            status: None,
            engine_status: None,
            is_tunnel: false,
            end: End::Refused,
            outcome: Outcome::Refused,
            success: None,
            reason: Some(Reason::Internal),
            request_bytes: 0,
            answer_bytes: 0,
            times: Times::default(),
            figures: None,
            timeline: Timeline::default(),
            grpc_status: None,
            requests: None,
            trace: None,
            stalled: None,
            trace_state: None,
            x_trace_id: None,
            logged: Logged::Always,
            kept: None,
        }
    }
}

impl Record {
    /// From the request's last byte written to the engine to the first token event read.
    pub fn ttft(&self) -> Option<Duration> {
        self.since_written(self.figures.as_ref()?.first_token?)
    }

    /// From the request's last byte written to the first visible text read.
    pub fn time_to_first_output_token(&self) -> Option<Duration> {
        self.since_written(self.figures.as_ref()?.first_output?)
    }

    /// From the request's last byte written to the last token event, or to the end of a complete plain answer.
    pub fn e2e(&self) -> Option<Duration> {
        let figures = self.figures.as_ref()?;
        let plain = || {
            self.times
                .ended
                .filter(|_| self.end == End::Complete && figures.events == 0)
        };
        self.since_written(figures.last_token.or_else(plain)?)
    }

    /// How long its first token took, or, where none was read, all of it. Absent where a long time means nothing: a tunnel,
    /// and a call that carries many requests, last as long as their clients like.
    pub fn waited(&self) -> Option<Duration> {
        if self.is_tunnel || self.route == Route::ModelStreamInfer {
            return None;
        }
        let figures = self.figures.as_ref();
        figures
            .and_then(|figures| figures.first_token)
            .or(self.times.ended)
    }

    /// What was wrong with it; nothing where all is well.
    pub fn cause(&self) -> Option<Cause> {
        cause::of(&Over {
            outcome: self.outcome,
            end: self.end,
            reason: self.reason,
            engine_status: self.engine_status,
            stream_status: self.stream_error().and_then(cause::stream_status),
            // Of many requests in one call each has a time of its own.
            is_whole: self.times.request.is_some() || self.requests.is_some(),
            is_answered: self.times.head.is_some(),
        })
    }

    fn stream_error(&self) -> Option<&InStreamError> {
        self.figures.as_ref()?.error.as_ref()
    }

    fn since_written(&self, at: Offset) -> Option<Duration> {
        at.checked_sub(self.times.written?)
    }
}

/// Whether an exchange is logged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Logged {
    /// As all like it are.
    Always,
    /// It is one of such a share of those like it.
    Share(Share),
    /// It is not.
    Not,
}

impl Logged {
    /// The share of those like it that are logged, above 0, where that is not all.
    pub fn share(self) -> Option<f64> {
        match self {
            Logged::Share(share) => Some(share.ratio()),
            Logged::Always | Logged::Not => None,
        }
    }
}

/// The requests of one call, in the order in which they ended.
#[derive(Debug, Default)]
pub struct Requests {
    kept: Vec<Metered>,
    /// What is counted of all of them.
    pub tally: StreamTally,
}

impl Requests {
    /// How many are kept.
    pub const KEPT: usize = 64;

    /// Adds one that is over; those past [`Requests::KEPT`] are in the metrics alone.
    pub fn push(&mut self, metered: Metered) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(metered);
        }
    }

    /// Those that are kept.
    pub fn kept(&self) -> &[Metered] {
        &self.kept
    }
}

/// The longest text that is kept of what a caller sent, in bytes.
pub const MAX_TEXT: usize = 256;

// A caller can name every exchange that it judges.
const _: () = assert!(LONGEST_ID == MAX_TEXT);

/// The longest `tracestate` that is kept: what every participant must be able to pass on.
pub const MAX_STATE: usize = 512;

/// The beginning of `text`, at most [`MAX_TEXT`] bytes, cut between characters.
pub fn bounded(text: &str) -> Box<str> {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}

/// When what happened, since the request's head was read. Absent: it did not happen.
#[derive(Debug, Default, Clone, Copy)]
pub struct Times {
    /// The request's body was whole.
    pub request: Option<Offset>,
    /// The connection to the engine was there.
    pub connected: Option<Offset>,
    /// The request's last byte was written to the engine.
    pub written: Option<Offset>,
    /// The answer's head was read.
    pub head: Option<Offset>,
    /// The client was found to have left.
    pub left: Option<Offset>,
    /// The answer's last byte was written, or the exchange ended otherwise.
    pub ended: Option<Offset>,
}

impl Times {
    /// What Greylag itself took before the engine had the request: from the request whole to the request written,
    /// without the connect. Absent where the body was passed on as it came, since nothing was held then.
    pub fn overhead(&self, connecting: Duration) -> Option<Duration> {
        let whole = self
            .request
            .filter(|whole| *whole <= self.connected.unwrap_or(*whole))?;
        let held = self.written?.checked_sub(whole)?;
        Some(held.saturating_sub(connecting))
    }
}

/// When the token events came: the first reads one by one, in microseconds since `started`, each with how many token events it
/// brought; of later ones how long after the one before they came, roughly.
#[derive(Debug, Default)]
pub struct Timeline {
    events: Vec<(u32, u32)>,
    later: Option<Box<Later>>,
}

/// The gaps of the reads after the first ones.
#[derive(Debug)]
struct Later {
    // of 2^i microseconds or more, and less than twice that; the first also holds those of none
    gaps: [u32; Timeline::BINS],
    last: u32,
}

impl Timeline {
    /// How many reads are kept.
    pub const KEPT: usize = 512;
    /// Into how many sizes the gaps of the others are sorted: the last is of half an hour.
    pub const BINS: usize = 32;

    /// A timeline with some room; noting allocates only when that doubles, a handful of times in all.
    pub fn with_room() -> Self {
        const ROOM: usize = 32;
        Timeline {
            events: Vec::with_capacity(ROOM),
            later: None,
        }
    }

    /// Notes that `token_events` came at `at`.
    pub fn note(&mut self, at: Offset, token_events: u32) {
        let micros = u32::try_from(at.as_micros()).unwrap_or(u32::MAX);
        if self.events.len() < Self::KEPT {
            self.events.push((micros, token_events));
            return;
        }
        let last = self.events.last().map_or(micros, |(at, _)| *at);
        let later = self.later.get_or_insert_with(|| {
            Box::new(Later {
                gaps: [0; Timeline::BINS],
                last,
            })
        });
        let gap = micros.saturating_sub(later.last);
        later.last = micros;
        let bin = gap.checked_ilog2().unwrap_or_default();
        if let Some(count) = usize::try_from(bin)
            .ok()
            .and_then(|bin| later.gaps.get_mut(bin))
        {
            *count = count.saturating_add(1);
        }
    }

    /// The reads that are kept: (microseconds, token events), in order.
    pub fn events(&self) -> &[(u32, u32)] {
        &self.events
    }

    /// The gaps of the later ones: at least so many microseconds, and less than twice that; and how many. Shortest first.
    pub fn later_gaps(&self) -> impl Iterator<Item = (u32, u32)> {
        let gaps = self.later.iter().flat_map(|later| later.gaps);
        (0_u32..)
            .zip(gaps)
            .filter(|(_, count)| *count > 0)
            .map(|(bin, count)| (1 << bin, count))
    }

    /// Gives back the room that was not needed, since the record will be kept for a while.
    pub fn settle(&mut self) {
        self.events.shrink_to_fit();
    }

    /// What it holds, in bytes.
    pub fn size(&self) -> usize {
        size_of_val(self.events()) + self.later.as_ref().map_or(0, |later| size_of_val(&**later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(&*bounded("short"), "short");
        let long = "é".repeat(MAX_TEXT);
        assert_eq!(bounded(&long).len(), MAX_TEXT);
        assert_eq!(bounded(&format!("x{long}")).len(), MAX_TEXT - 1);
    }

    #[test]
    fn a_full_timeline_sorts_later_gaps_by_size() {
        let mut timeline = Timeline::with_room();
        for i in 0..Timeline::KEPT as u64 {
            timeline.note(Duration::from_millis(i), 1);
        }
        assert_eq!(timeline.later_gaps().count(), 0);
        let mut at = Duration::from_millis(Timeline::KEPT as u64 - 1);
        for gap in [1000, 1023, 1024, 2047, 0, 1, 1000, u64::from(u32::MAX)] {
            at += Duration::from_micros(gap);
            timeline.note(at, 1);
        }
        assert_eq!(timeline.events().len(), Timeline::KEPT);
        assert_eq!(timeline.events()[1], (1000, 1));
        let later: Vec<(u32, u32)> = timeline.later_gaps().collect();
        // The last offset is the longest that is told.
        assert_eq!(later, [(1, 2), (512, 3), (1024, 2), (1 << 31, 1)]);
        assert!(timeline.size() >= Timeline::KEPT * 8 + Timeline::BINS * 4);
    }

    #[test]
    fn overhead_leaves_the_connect_out() {
        let ms = Duration::from_millis;
        let times = Times {
            request: Some(ms(2)),
            written: Some(ms(9)),
            ..Times::default()
        };
        assert_eq!(times.overhead(ms(6)), Some(ms(1)));
        assert_eq!(Times::default().overhead(ms(6)), None);
        // A body that was passed on as it came was whole only after the connect: nothing was held.
        let passed_on = Times {
            request: Some(ms(9)),
            connected: Some(ms(7)),
            written: Some(ms(9)),
            ..Times::default()
        };
        assert_eq!(passed_on.overhead(ms(6)), None);
    }
}
