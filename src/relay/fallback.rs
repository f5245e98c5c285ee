//! Which engine gets a request, given which of them are up; and another one when that one is not to be had.
//!
//! In: what the rules decided, and how the engines fare. Out: the engine, and what was seen of it. What may be done is decided
//! in `greylag_filters::split`; here it is done, once a request.

use std::sync::Arc;

use greylag_filters::health::{self, Sign};
use greylag_filters::rules::{Decision, EngineId, How};
use greylag_filters::split::{Instead, RetryOn};
use pingora_http::RequestHeader;

use super::request::Request;
use super::stop::Stop;
use super::{Worker, sequences};
use crate::exchange::Exchange;
use crate::reply::Reason;
use crate::snapshot::Snapshot;
use crate::upstream::Target;

/// The engine that gets a request, and whose place it takes.
pub struct Choice {
    /// The engine.
    pub engine: EngineId,
    /// How it was found.
    pub how: How,
    /// The engine that would have got it, were it up.
    pub replaces: Option<Arc<Target>>,
}

// Where an engine is asked.
fn target(snapshot: &Snapshot, engine: EngineId, is_grpc: bool) -> Option<&Arc<Target>> {
    match is_grpc {
        true => snapshot.grpc_target(engine),
        false => Some(snapshot.target(engine)),
    }
}

fn is_up(snapshot: &Snapshot, engine: EngineId, is_grpc: bool) -> bool {
    target(snapshot, engine, is_grpc).is_some_and(|target| target.standing.is_up())
}

/// Chooses, before anything is sent.
///
/// # Errors
/// The engine is down, and the split wants such requests to fail.
pub fn choose(
    worker: &Worker,
    exchange: &Exchange,
    decision: &Decision,
    is_grpc: bool,
) -> Result<Choice, Stop> {
    let snapshot = &exchange.snapshot;
    let chosen = Choice {
        engine: decision.engine,
        how: decision.how,
        replaces: None,
    };
    // One that has no gRPC is told of where it is to be reached.
    let Some(first) = target(snapshot, decision.engine, is_grpc) else {
        return Ok(chosen);
    };
    if decision.how == How::Sequence || first.standing.admits(|| worker.shared.origin.now()) {
        return Ok(chosen);
    }
    let up = |engine| is_up(snapshot, engine, is_grpc);
    match snapshot.rules.instead(decision, up) {
        Instead::Stay => Ok(chosen),
        Instead::To(engine) => {
            exchange.telemetry().metrics.engines.fell_back("down");
            Ok(Choice {
                engine,
                how: How::Fallback,
                replaces: Some(first.clone()),
            })
        }
        Instead::Fail => Err(Stop::refuse(
            Reason::EngineUnhealthy,
            format!(
                "engine {} is down, and its split says `on_unhealthy: fail`",
                first.name
            ),
        )),
    }
}

/// Makes the request one for another engine, with that engine's edits, once; returns what it was. None: there is no other, or
/// the split does not want that, and the request is as it was.
pub fn go_on(
    exchange: &mut Exchange,
    head: &RequestHeader,
    request: &mut Request,
    on: RetryOn,
) -> Option<Request> {
    let snapshot = exchange.snapshot.clone();
    let draft = request.draft.as_ref()?;
    let up = |engine| is_up(&snapshot, engine, request.is_grpc);
    let engine = snapshot
        .rules
        .next(&draft.decision, request.engine, on, up)
        .filter(|engine| target(&snapshot, *engine, request.is_grpc).is_some())?;
    let mut other = draft.request(exchange, head, engine).ok()?;
    // Whose place is taken: the first one's, through however many hands it goes.
    let first = request.replaces.as_ref();
    other.replaces = Some(first.unwrap_or(&request.target).clone());
    other.keep_memory_of(request);
    note(exchange, engine, How::Fallback, Some(&other.tag));
    exchange.telemetry().metrics.engines.fell_back(on.label());
    Some(std::mem::replace(request, other))
}

/// Makes the request what it was: the other engine was not to be had either, and the first has at least answered.
pub fn go_back(exchange: &mut Exchange, request: &mut Request, mut was: Request) {
    was.keep_memory_of(request);
    let decided = was.draft.as_ref().map(|draft| draft.decision.how);
    let how = decided.filter(|_| was.replaces.is_none());
    note(
        exchange,
        was.engine,
        how.unwrap_or(How::Fallback),
        Some(&was.tag),
    );
    *request = was;
}

/// Notes in the record which engine it is, and what the exchange is called: `named`, or the engine's tag.
pub fn note(exchange: &mut Exchange, engine: EngineId, how: How, named: Option<&Arc<str>>) {
    let target = exchange.snapshot.target(engine).clone();
    let engine = &exchange.snapshot.rules.engines()[engine.index()];
    let record = &mut exchange.record;
    record.target = Some(target);
    record.kind = Some(engine.kind);
    record.engine = Some(engine.name.clone());
    record.tag = Some(named.unwrap_or(&engine.tag).clone());
    record.how = Some(how);
}

/// The engine has begun to answer.
pub fn answered(worker: &Worker, exchange: &Exchange, request: &Request, status: u16) {
    if health::of_answer(status) != Some(Sign::Alive) {
        return;
    }
    let now = || worker.shared.origin.now();
    if let Some(sequence) = &request.sequence {
        sequences::note(worker, sequence, &request.target.name);
    }
    request.target.standing.lives(&request.target.name, now);
    let first = request.replaces.as_ref();
    if let Some(took) = first.and_then(|first| first.standing.replaced(now())) {
        exchange.telemetry().metrics.engines.failed_over(took);
    }
}
