//! A light client: streamed chats over kept connections, counted.
//!
//! In: a target, how much and how fast. Out: requests, and [`Counts`] of what came back. Every request ends in exactly one
//! count: `sent = ok + refused + errors + truncated + unanswered` once nothing is under way. Bounded by count or time, and
//! stopped when dropped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rand::RngExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::chance::generator;
use crate::wire::Wire;
use answer::{Got, read};

mod answer;

/// What to send, how much, how fast.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where to.
    pub target: SocketAddr,
    /// Connections kept, each with one request at a time.
    pub connections: usize,
    /// Requests a second over all connections, evenly spaced; what finds no free connection goes out late. `None`: each
    /// connection sends the next request as soon as the last is answered.
    pub rate: Option<f64>,
    /// So many requests.
    pub requests: u64,
    /// At most for so long; requests under way then are given up and counted as unanswered.
    pub time: Duration,
    /// Asks for streams.
    pub stream: bool,
    /// Requests come from so many users, told by `x-user-id: user-N`; 0: no header.
    pub users: u64,
    /// The model named.
    pub model: String,
    /// The cap named, if any.
    pub max_tokens: Option<u64>,
    /// More header lines for each request, without their ends.
    pub headers: Vec<String>,
    /// Prompts and users are drawn from it.
    pub seed: u64,
}

impl Load {
    /// A hundred streamed chats from ten users, one after the other on one connection, for at most a minute.
    pub fn to(target: SocketAddr) -> Load {
        Load {
            target,
            connections: 1,
            rate: None,
            requests: 100,
            time: Duration::from_secs(60),
            stream: true,
            users: 10,
            model: "tiny".into(),
            max_tokens: None,
            headers: Vec::new(),
            seed: 1,
        }
    }

    /// Begins.
    pub fn start(self) -> Loading {
        let counts = Arc::new(watch::Sender::new(Counts::default()));
        let next = Arc::new(AtomicU64::new(0));
        let load = Arc::new(self);
        let mut workers = JoinSet::new();
        let start = Instant::now();
        for _ in 0..load.connections {
            workers.spawn(work(load.clone(), start, next.clone(), counts.clone()));
        }
        Loading { workers, counts }
    }

    /// Request `index`, as sent.
    fn request(&self, index: u64) -> Vec<u8> {
        let mut chance = generator(self.seed, "load", &index.to_le_bytes());
        let words: Vec<&str> = (0..chance.random_range(4..40))
            .map(|_| WORDS[chance.random_range(0..WORDS.len())])
            .collect();
        let mut body = serde_json::json!({
            "model": self.model,
            "messages": [{"role": "user", "content": words.join(" ")}],
            "stream": self.stream,
        });
        if let Some(max) = self.max_tokens {
            body["max_tokens"] = max.into();
        }
        let body = body.to_string();
        let mut head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            self.target,
            body.len()
        );
        if self.users > 0 {
            head.push_str(&format!(
                "x-user-id: user-{}\r\n",
                chance.random_range(0..self.users)
            ));
        }
        for line in &self.headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

const WORDS: [&str; 16] = [
    "why", "do", "grey", "geese", "fly", "in", "a", "line", "over", "cold", "water", "every",
    "autumn", "and", "return", "home",
];

/// What came back until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests begun.
    pub sent: u64,
    /// Whole answers under 2xx; streams with `[DONE]` and without an error.
    pub ok: u64,
    /// Answers under another status, by status.
    pub refused: BTreeMap<u16, u64>,
    /// Streams under 2xx that bore an error event.
    pub errors: u64,
    /// Answers that began under 2xx and did not come to their end, or streams without `[DONE]`.
    pub truncated: u64,
    /// Requests without any answer: no connection, reset, given up.
    pub unanswered: u64,
    /// SSE events that bore data, `[DONE]` not counted.
    pub events: u64,
    /// Requests sent a second time, since their kept connection had been closed by the other side.
    pub retried: u64,
}

impl Counts {
    /// Requests that ended.
    pub fn ended(&self) -> u64 {
        self.ok
            + self.refused.values().sum::<u64>()
            + self.errors
            + self.truncated
            + self.unanswered
    }
}

/// A load under way; it stops when dropped.
#[derive(Debug)]
pub struct Loading {
    workers: JoinSet<()>,
    counts: Arc<watch::Sender<Counts>>,
}

impl Loading {
    /// What came back until now.
    pub fn counts(&self) -> Counts {
        self.counts.borrow().clone()
    }

    /// Waits until the counts satisfy `what`; false when `deadline` passes first.
    pub async fn wait_for(&self, what: impl Fn(&Counts) -> bool, deadline: Duration) -> bool {
        let mut look = self.counts.subscribe();
        timeout(deadline, look.wait_for(|counts| what(counts)))
            .await
            .is_ok_and(|counts| counts.is_ok())
    }

    /// Waits until all requests have ended or the time is over.
    pub async fn done(mut self) -> Counts {
        while self.workers.join_next().await.is_some() {}
        self.counts()
    }

    /// Gives up what is under way, counted as sent alone, and closes all connections.
    pub async fn stop(mut self) -> Counts {
        self.workers.shutdown().await;
        self.counts()
    }
}

/// One connection's work: the next request, until none is left or the time is over.
async fn work(
    load: Arc<Load>,
    start: Instant,
    next: Arc<AtomicU64>,
    counts: Arc<watch::Sender<Counts>>,
) {
    let over = start + load.time;
    let mut kept = None;
    loop {
        let index = next.fetch_add(1, Relaxed);
        if index >= load.requests || Instant::now() >= over {
            return;
        }
        if let Some(rate) = load.rate {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a time in seconds needs no more than 52 bits of the index"
            )]
            let due = Duration::try_from_secs_f64(index as f64 / rate)
                .ok()
                .and_then(|due| start.checked_add(due));
            match due {
                Some(due) if due < over => sleep_until(due).await,
                Some(_) | None => return,
            }
        }
        counts.send_modify(|counts| counts.sent += 1);
        let request = load.request(index);
        let got = tokio::time::timeout_at(over, ask(&load, &request, &mut kept, &counts)).await;
        counts.send_modify(|counts| match got {
            Ok(Got::Ok) => counts.ok += 1,
            Ok(Got::Refused(status)) => *counts.refused.entry(status).or_default() += 1,
            Ok(Got::Error) => counts.errors += 1,
            Ok(Got::Truncated) => counts.truncated += 1,
            Ok(Got::Nothing) | Err(_) => counts.unanswered += 1,
        });
    }
}

/// Sends a request on the kept connection, or on a new one when there is none or it turns out to be closed.
async fn ask(
    load: &Load,
    request: &[u8],
    kept: &mut Option<Wire>,
    counts: &watch::Sender<Counts>,
) -> Got {
    let mut on_events = |events| counts.send_modify(|counts| counts.events += events);
    if let Some(mut wire) = kept.take() {
        let (got, keep) = read(&mut wire, request, load.stream, &mut on_events).await;
        if got != Got::Nothing {
            *kept = keep.then_some(wire);
            return got;
        }
        counts.send_modify(|counts| counts.retried += 1);
    }
    let Ok(stream) = TcpStream::connect(load.target).await else {
        return Got::Nothing;
    };
    let mut wire = Wire::new(stream.into());
    let (got, keep) = read(&mut wire, request, load.stream, &mut on_events).await;
    *kept = keep.then_some(wire);
    got
}

#[cfg(test)]
mod tests;
