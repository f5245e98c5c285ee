//! The story of an exchange, top to bottom.
//!
//! In: a client whose request's head has been read. Out: an answer, and one record. Each step is a noun of its own; this
//! file says in which order they come. While an engine is waited for, the client, the exchange's patience and the drain's
//! end are watched in the same `select!`, so that none of them is noticed late.

pub mod answer;
pub mod attempts;
pub mod body;
pub mod call;
pub mod caller;
pub mod client;
pub mod cut;
pub mod ear;
pub mod edits;
pub mod fallback;
pub mod head;
pub mod health;
pub mod patience;
pub mod request;
pub mod send;
pub mod sequences;
pub mod stop;
pub mod stream;
pub mod trace;
pub mod tunnel;
pub mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use greylag_filters::outcome::End;
use ipnet::IpNet;

use crate::budget::Budget;
use crate::config::{Forwarded, Limits};
use crate::exchange::{Exchange, Origin};
use crate::identity::Identity;
use crate::stall::Pulse;
use crate::store::Store;
use crate::telemetry::Telemetry;
use crate::upstream::{Pool, Pools};
use body::Body;
use caller::Caller;
use client::Client;
use cut::Cut;
use sequences::Sequences;
use stop::Stop;

/// What all exchanges of a process share.
#[derive(Debug)]
pub struct Shared {
    /// The rules in force.
    pub store: Arc<Store>,
    /// Where ids and draws come from.
    pub origin: Origin,
    /// Where records go.
    pub telemetry: Arc<Telemetry>,
    /// The bounds of what is held and waited for.
    pub limits: Limits,
    /// The memory for bodies.
    pub budget: Arc<Budget>,
    /// The workers' connections to engines, to be looked at.
    pub pools: Pools,
    /// Whose word on hops, clients, tags, force and traffic class is taken.
    pub trusted: Vec<IpNet>,
    /// Which engines keep the state of what was begun.
    pub sequences: Sequences,
    /// Whether engines are told of peers.
    pub forwarded: Forwarded,
    /// What this process is called.
    pub identity: Identity,
    /// Whether answers close their connection, since the process is about to end.
    pub draining: AtomicBool,
}

impl Shared {
    /// The longest event, message or plain answer that is metered, in bytes.
    pub fn longest_event(&self) -> usize {
        usize::try_from(self.limits.event.bytes()).unwrap_or(usize::MAX)
    }

    /// The records that the ring holds, newest first.
    pub fn ring_records(&self) -> Vec<Arc<crate::record::Record>> {
        self.telemetry.ring.newest(usize::MAX, |_| true)
    }
}

/// A worker thread's own: a pool of connections to engines, shared with no other thread.
pub struct Worker {
    /// What it shares with the others.
    pub shared: Arc<Shared>,
    /// Its idle connections.
    pub pool: Arc<Pool>,
    /// What shows that its thread was held up.
    pub pulse: Arc<Pulse>,
}

/// Carries one exchange from its head to its record. True: the connection may carry another.
pub async fn carry(worker: &Worker, client: &mut Client, cut: &mut Cut) -> bool {
    let shared = &worker.shared;
    let mut exchange = Exchange::begin(
        client.head(),
        Caller::of(client.address(), &client.head().headers, &shared.trusted),
        shared.store.current(),
        &shared.origin,
        &worker.pulse,
        &shared.telemetry,
    );
    if shared.draining.load(Ordering::Relaxed) {
        client.close_after();
    }
    let carried = steps(worker, &mut exchange, client, cut).await;
    exchange.record.request_bytes = client.request_bytes();
    let may_go_on = match carried {
        Ok(()) => {
            exchange.ended(End::Complete, None);
            true
        }
        Err(stop) => stop.settle(&mut exchange, client).await,
    };
    exchange.record.answer_bytes = client.answer_bytes();
    may_go_on
}

// The body, before a call's own deadline.
async fn body_in_time(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut Client,
    cut: &mut Cut,
) -> Result<Body, Stop> {
    let due = match (call::is_grpc(client.head()), &*client) {
        (true, Client::H2(_)) => call::deadline(client.head())?,
        _ => None,
    };
    let Some(due) = due.map(|due| exchange.at(due)) else {
        return body::take(worker, exchange, client, cut).await;
    };
    tokio::select! {
        biased;
        body = body::take(worker, exchange, client, cut) => body,
        () = tokio::time::sleep_until(due) => Err(Stop::Overdue),
    }
}

async fn steps(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut Client,
    cut: &mut Cut,
) -> Result<(), Stop> {
    trace::begin(exchange, &client.head().headers);
    head::admit(client.head()).inspect_err(|_| client.close_after())?;
    exchange.caller.admit()?;
    let body = body_in_time(worker, exchange, client, cut).await?;
    if health::is_ours(client.head(), &body) {
        return health::answer(worker, exchange, client).await;
    }
    let request = request::plan(worker, exchange, client.head(), body).await?;
    if let (true, Client::H2(client)) = (request.is_grpc, &mut *client) {
        return call::carry(worker, exchange, client, cut, request).await;
    }
    let sent = send::send(worker, exchange, client, cut, request).await?;
    answer::give(worker, exchange, client, cut, sent).await
}
