//! The request's body: gathered before an engine is chosen, or passed on as it comes.
//!
//! In: a client whose head is read. Out: the whole body, within `limits.body` and the memory that is left, or its
//! beginning. Bodies of inference routes are gathered: an engine needs those whole anyway, and what they say decides where
//! they go. Others that come with their head are whole too, and can be sent again if a pooled connection had gone stale.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use greylag_filters::grpc::Splitter;
use greylag_filters::route::Route;
use http::{Version, header};
use tokio::time::{Instant, sleep_until};

use super::client::h2::Reader;
use super::client::{BODY_PAUSE, Client};
use super::cut::Cut;
use super::head;
use super::stop::Stop;
use super::{Shared, Worker, call, health};
use crate::budget::BudgetShare;
use crate::exchange::Exchange;
use crate::reply::Reason;

/// A request's body.
pub enum Body {
    /// All of it; empty if there is none.
    Whole(Bytes, BudgetShare),
    /// Its beginning; the client still has the rest.
    Streamed(Bytes, BudgetShare),
}

/// Gathers the body if it is to be gathered and fits.
pub async fn take(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut Client,
    cut: &mut Cut,
) -> Result<Body, Stop> {
    let share = worker.shared.budget.share();
    if client.is_body_read() {
        exchange.record.times.request = Some(exchange.now());
        return Ok(Body::Whole(Bytes::new(), share));
    }
    invite(client);
    let length = head::content_length(client.head());
    let limit = longest(worker);
    if length.is_some_and(|length| length > limit) {
        return Ok(Body::Streamed(Bytes::new(), share));
    }
    if has_first_message(exchange, client)
        && let Client::H2(client) = client
    {
        return first_message(worker, exchange, client.split().1, cut, share).await;
    }
    if !is_gathered(exchange, client) {
        return come(exchange, client, share).await;
    }
    gather(worker, exchange, client, cut, share).await
}

// A call of many requests may go on with a sequence, which its first request says. Where there is one engine nobody asks.
fn has_first_message(exchange: &Exchange, client: &Client) -> bool {
    exchange.record.route == Route::ModelStreamInfer
        && call::is_grpc(client.head())
        && exchange.snapshot.rules.engines().len() > 1
}

// What comes up to the first message's end; a client may say nothing for as long as it likes.
async fn first_message(
    worker: &Worker,
    exchange: &mut Exchange,
    reader: &mut Reader,
    cut: &mut Cut,
    mut share: BudgetShare,
) -> Result<Body, Stop> {
    let limit = worker.shared.longest_event();
    let mut splitter = Splitter::new(limit);
    let mut held = BytesMut::new();
    // Of what is held the rest must come.
    let mut pace: Option<Pace> = None;
    loop {
        let late = async {
            match &pace {
                Some(pace) => sleep_until(pace.due).await,
                None => std::future::pending().await,
            }
        };
        let piece = tokio::select! {
            biased;
            piece = reader.piece() => piece?,
            () = late => return Err(Pace::from(exchange).refuse()),
            () = cut.come() => return Err(Stop::Cut),
        };
        let Some(piece) = piece else {
            exchange.record.times.request = Some(exchange.now());
            return Ok(Body::Whole(held.freeze(), share));
        };
        pace.get_or_insert_with(|| Pace::from(exchange))
            .came(piece.len());
        let mut is_there = false;
        splitter.feed(&piece, |_| is_there = true);
        held.extend_from_slice(&piece);
        let is_much = splitter.skipped() > 0 || !share.grow(piece.len() as u64);
        if is_there || is_much {
            return Ok(Body::Streamed(held.freeze(), share));
        }
    }
}

// What has come with the head; that may be all of it.
async fn come(
    exchange: &mut Exchange,
    client: &mut Client,
    mut share: BudgetShare,
) -> Result<Body, Stop> {
    let piece = tokio::select! {
        biased;
        piece = client.read_body() => piece?.unwrap_or_default(),
        () = std::future::ready(()) => Bytes::new(),
    };
    if client.is_body_read() && share.grow(piece.len() as u64) {
        exchange.record.times.request = Some(exchange.now());
        return Ok(Body::Whole(piece, share));
    }
    Ok(Body::Streamed(piece, share))
}

// Of gRPC's calls those of one message are: a conversation has no end to wait for.
fn is_gathered(exchange: &Exchange, client: &Client) -> bool {
    let route = exchange.record.route;
    match call::is_grpc(client.head()) {
        true => route == Route::ModelInfer || health::is_check(client.head()),
        false => route.is_inference(),
    }
}

// What could never be held in memory is not begun to be: trying again would not help.
fn longest(worker: &Worker) -> u64 {
    let Shared { limits, budget, .. } = &*worker.shared;
    limits.body.bytes().min(budget.limit())
}

/// How fast a body must come that is held in memory: what comes slower holds what others need. It has the time of one pause,
/// and a second more for each so many bytes that have come.
struct Pace {
    due: Instant,
}

const BYTES_A_SECOND: u64 = 1 << 10;

impl Pace {
    fn from(exchange: &Exchange) -> Pace {
        Pace {
            due: exchange.at(exchange.now() + BODY_PAUSE),
        }
    }

    fn came(&mut self, bytes: usize) {
        let nanos = (bytes as u64).saturating_mul(1_000_000_000 / BYTES_A_SECOND);
        self.due += Duration::from_nanos(nanos);
    }

    fn refuse(&self) -> Stop {
        let what = format!(
            "the request's body came too slowly: after {} less than {BYTES_A_SECOND} bytes a second",
            humantime::format_duration(BODY_PAUSE)
        );
        Stop::refuse(Reason::RequestTimeout, what)
    }
}

async fn gather(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut Client,
    cut: &mut Cut,
    mut share: BudgetShare,
) -> Result<Body, Stop> {
    let (limits, limit) = (&worker.shared.limits, longest(worker));
    let mut pace = Pace::from(exchange);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let piece = tokio::select! {
            biased;
            piece = client.read_body() => piece?,
            () = sleep_until(pace.due) => return Err(pace.refuse()),
            () = cut.come() => return Err(Stop::Cut),
        };
        let Some(piece) = piece else { break };
        pace.came(piece.len());
        let size = (first.len().max(rest.len()) + piece.len()) as u64;
        // What makes it too long is passed on at once, and never held.
        if size <= limit && !share.grow(piece.len() as u64) {
            let message = format!(
                "all that limits.memory ({}) leaves for bodies is in use",
                limits.memory
            );
            return Err(Stop::refuse(Reason::MemorySpent, message));
        }
        if first.is_empty() && rest.is_empty() {
            first = piece;
        } else {
            // A second piece: from here on all of it is in `rest`.
            if rest.is_empty() {
                let room = head::content_length(client.head()).unwrap_or(0).min(limit);
                rest.reserve(usize::try_from(room).unwrap_or(0).max(2 * first.len()));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&piece);
        }
        if size > limit {
            let held = if rest.is_empty() {
                first
            } else {
                rest.freeze()
            };
            return Ok(Body::Streamed(held, share));
        }
        if client.is_body_read() {
            break;
        }
    }
    exchange.record.times.request = Some(exchange.now());
    let whole = if rest.is_empty() {
        first
    } else {
        rest.freeze()
    };
    Ok(Body::Whole(whole, share))
}

// A client that asks before it sends its body is answered by us: the body is read before an engine is known.
fn invite(client: &mut Client) {
    let head = client.head();
    if head.version >= Version::HTTP_11 && head.headers.contains_key(header::EXPECT) {
        client.invite();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_comes_fast_enough_has_all_the_time_it_needs() {
        let start = Instant::now();
        let mut pace = Pace { due: start };
        // A byte every eight seconds gains nothing to speak of.
        for _ in 0..1000 {
            pace.came(1);
        }
        assert!(pace.due - start < Duration::from_secs(1));
        pace.came(64 << 20);
        assert!(pace.due - start > Duration::from_secs(64 << 10));
        pace.came(usize::MAX);
    }
}
