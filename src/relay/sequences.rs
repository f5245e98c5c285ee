//! Triton's sequences, whose requests must all reach the engine that keeps their state.
//!
//! In: what a request says of its sequence, and where the rules would send it. Out: the engine that began the sequence, while
//! it is remembered. All workers share what is known; only requests that name a sequence look.

use greylag_filters::facts;
use greylag_filters::followed::Followed;
use greylag_filters::rules::{Decision, EngineId, How};
use greylag_filters::triton::SequenceId;
use parking_lot::Mutex;

use super::Worker;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;

/// So many sequences are remembered.
const MOST: usize = 10_000;

type Key = (Option<Box<str>>, SequenceId);

/// The engines of sequences.
#[derive(Debug)]
pub struct Sequences(Mutex<Followed<Key>>);

impl Default for Sequences {
    fn default() -> Self {
        Sequences(Mutex::new(Followed::new(MOST)))
    }
}

fn key(facts: Option<&facts::Body>) -> Option<Key> {
    let facts = facts?;
    let sequence = facts.triton.as_ref()?.sequence.clone()?;
    Some((facts.model.clone(), sequence))
}

fn engine(snapshot: &Snapshot, name: &str) -> Option<EngineId> {
    let mut engines = snapshot.rules.each_engine();
    engines.find_map(|(id, engine)| (*engine.name == *name).then_some(id))
}

/// Sends a request of a sequence that was begun to the engine that has it, and to no other: what would be a stand-in elsewhere
/// knows nothing of it.
pub fn follow(
    worker: &Worker,
    exchange: &Exchange,
    facts: Option<&facts::Body>,
    decision: &mut Decision,
) {
    let Some(key) = key(facts) else { return };
    let starts = facts.is_some_and(|facts| {
        let asked = facts.triton.as_ref();
        asked.is_some_and(|asked| asked.starts_sequence)
    });
    let begun = worker.shared.sequences.0.lock().engine(&key).cloned();
    if let (Some(name), false) = (begun, starts)
        && let Some(engine) = engine(&exchange.snapshot, &name)
    {
        decision.engine = engine;
        decision.how = How::Sequence;
    }
}

/// Notes which engine has the sequence of a request, or that it ends with it.
pub fn note(worker: &Worker, exchange: &Exchange, facts: Option<&facts::Body>, engine: EngineId) {
    let Some(key) = key(facts) else { return };
    let ends = facts.is_some_and(|facts| {
        let asked = facts.triton.as_ref();
        asked.is_some_and(|asked| asked.ends_sequence)
    });
    let name = exchange.snapshot.rules.engines()[engine.index()]
        .name
        .clone();
    let mut sequences = worker.shared.sequences.0.lock();
    if ends {
        sequences.end(&key);
    } else {
        sequences.begin(key, name);
    }
}
