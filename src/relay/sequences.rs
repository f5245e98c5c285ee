//! Triton's sequences, whose requests must all reach the engine that keeps their state.
//!
//! In: what a request says of its sequence, and where the rules would send it. Out: the engine that began the sequence, while
//! it is remembered. All workers share what is known; only requests that name a sequence look.

use std::sync::Arc;

use greylag_filters::facts;
use greylag_filters::followed::Followed;
use greylag_filters::meter::InSequence;
use greylag_filters::rules::{Decision, EngineId, How};
use greylag_filters::triton::{Request, SequenceId};
use parking_lot::Mutex;

use super::Worker;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;

/// So many sequences are remembered.
const MOST: usize = 10_000;

type Key = (Option<Box<str>>, SequenceId);

/// The sequence that a request belongs to.
#[derive(Debug, Clone)]
pub struct Sequence {
    key: Key,
    starts: bool,
    ends: bool,
}

impl Sequence {
    /// As the request's facts name it.
    pub fn of(facts: Option<&facts::Body>) -> Option<Sequence> {
        let facts = facts?;
        let asked = facts.triton.as_ref()?;
        Sequence::named(facts.model.as_deref(), asked)
    }

    // As a request for this model names it.
    fn named(model: Option<&str>, asked: &Request) -> Option<Sequence> {
        Some(Sequence {
            key: (model.map(Box::from), asked.sequence.clone()?),
            starts: asked.starts_sequence,
            ends: asked.ends_sequence,
        })
    }
}

/// The engines of sequences.
#[derive(Debug)]
pub struct Sequences(Mutex<Followed<Key>>);

impl Default for Sequences {
    fn default() -> Self {
        Sequences(Mutex::new(Followed::new(MOST)))
    }
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
    sequence: Option<&Sequence>,
    decision: &mut Decision,
) {
    let Some(Sequence {
        key, starts: false, ..
    }) = sequence
    else {
        return;
    };
    let begun = worker.shared.sequences.0.lock().engine(key).cloned();
    if let Some(name) = begun
        && let Some(engine) = engine(&exchange.snapshot, &name)
    {
        decision.engine = engine;
        decision.how = How::Sequence;
    }
}

/// Notes that a call of many requests has brought `engine` this one. A sequence that goes on there while another engine has it
/// was begun in another call: it stays where it was begun.
pub fn heard(worker: &Worker, asked: &InSequence, engine: &Arc<str>) {
    let Some(sequence) = Sequence::named(asked.model.as_deref(), &asked.request) else {
        return;
    };
    let begun = worker
        .shared
        .sequences
        .0
        .lock()
        .engine(&sequence.key)
        .cloned();
    if sequence.starts || begun.is_none_or(|begun| begun == *engine) {
        note(worker, &sequence, engine);
    }
}

/// Notes that `engine` has answered a request of the sequence, or that it ends with that.
pub fn note(worker: &Worker, sequence: &Sequence, engine: &Arc<str>) {
    let mut sequences = worker.shared.sequences.0.lock();
    if sequence.ends {
        sequences.end(&sequence.key);
    } else {
        sequences.begin(sequence.key.clone(), engine.clone());
    }
}
