//! What the rules in force are made of: a base, what people changed on top of it, and what gates did.
//!
//! In: the layers, as they are kept. Out: the ruleset that they make together, and which overlays have no place in it. A change of
//! the base lifts no overlay: one that still fits stays, whoever wrote the base.

mod diff;
mod force;
mod overlay;
mod weights;

use serde::{Deserialize, Serialize};

pub use diff::{Diff, Difference};
pub use force::Force;
pub use overlay::{Change, Overlay, OverlayId};
pub use weights::Weights;

use crate::rules::{Problem, Rules, Ruleset, compile};
use crate::units::Moment;

/// The layers of rules in force, from the bottom up.
#[derive(Clone, Debug)]
pub struct Layers {
    /// What the rules begin with: the file's, or those of the last whole change.
    pub base: Rules,
    /// What was changed on top of it, in the order in which it was first changed. No two change the same thing.
    pub overlays: Vec<Overlay>,
    /// What gates did and nobody has cleared.
    pub latches: Vec<Latch>,
}

/// What a gate did, until it is cleared. There are no gates, so there is none.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Latch {}

/// What layers come to.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The rules in force.
    pub rules: Ruleset,
    /// The overlays that have no place in them, each with why.
    pub unfit: Vec<Unfit>,
}

/// An overlay that the rules have no place for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unfit {
    /// Which.
    pub id: OverlayId,
    /// Why.
    pub problems: Vec<Problem>,
}

impl Layers {
    /// Layers that are a base alone.
    pub fn of(base: Rules) -> Layers {
        Layers {
            base,
            overlays: Vec::new(),
            latches: Vec::new(),
        }
    }

    /// The overlay of this id.
    pub fn overlay(&self, id: &OverlayId) -> Option<&Overlay> {
        self.overlays
            .iter()
            .find(|overlay| overlay.change.id() == *id)
    }

    /// The same layers with this overlay, in the place of one that changes the same thing.
    pub fn with(mut self, overlay: Overlay) -> Layers {
        let id = overlay.change.id();
        let mut all = self.overlays.iter_mut();
        match all.find(|before| before.change.id() == id) {
            Some(before) => *before = overlay,
            None => self.overlays.push(overlay),
        }
        self
    }

    /// The ids of the overlays whose end has come.
    pub fn ended(&self, now: Moment) -> impl Iterator<Item = OverlayId> {
        let ended = self.overlays.iter().filter(move |one| one.has_ended(now));
        ended.map(|one| one.change.id())
    }

    /// The same layers without the overlays that `is_gone` names.
    pub fn without(mut self, is_gone: impl Fn(&Overlay) -> bool) -> Layers {
        self.overlays.retain(|overlay| !is_gone(overlay));
        self
    }

    /// The same layers without those that were found not to fit.
    pub fn without_unfit(self, unfit: &[Unfit]) -> Layers {
        self.without(|one| {
            let id = one.change.id();
            unfit.iter().any(|unfit| unfit.id == id)
        })
    }

    /// Compiles the rules in force. An overlay that does not fit is left out, and told of.
    ///
    /// # Errors
    /// All problems of the base.
    pub fn compile(&self) -> Result<Compiled, Vec<Problem>> {
        let rules = compile(&self.base)?;
        let mut written = self.base.clone();
        let applied = |one: &Overlay| one.change.apply(&mut written);
        // Nearly always all fit.
        if self
            .overlays
            .iter()
            .map(applied)
            .all(|applied| applied.is_ok())
            && let Ok(rules) = compile(&written)
        {
            let unfit = Vec::new();
            return Ok(Compiled { rules, unfit });
        }
        Ok(self.one_by_one(rules))
    }

    fn one_by_one(&self, mut rules: Ruleset) -> Compiled {
        let mut unfit = Vec::new();
        for overlay in &self.overlays {
            let mut written = rules.written().clone();
            let compiled = match overlay.change.apply(&mut written) {
                Ok(()) => compile(&written),
                Err(problem) => Err(vec![problem]),
            };
            match compiled {
                Ok(with_it) => rules = with_it,
                Err(problems) => unfit.push(Unfit {
                    id: overlay.change.id(),
                    problems,
                }),
            }
        }
        Compiled { rules, unfit }
    }
}

/// What a fuzzer feeds: an overlay as a state file could have it. No bytes may panic; what is read is written as itself, and either
/// fits or is told of.
#[cfg(any(test, fuzzing))]
pub fn fuzz_overlay(bytes: &[u8]) {
    const BASE: &str = r#"{"engines":{"a":{"kind":"vllm","url":"http://a"},"b":{"kind":"vllm","url":"http://b"}},
        "default_engine":"a","splits":[{"name":"s","weights":{"a":1,"b":1},"force":{"header":"x-gray"}}]}"#;
    let Ok(overlay) = serde_json::from_slice::<Overlay>(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&overlay).expect("what is read can be written");
    let again: Overlay = serde_json::from_slice(&written).expect("what is written can be read");
    assert_eq!(again, overlay);
    let base: Rules = serde_json::from_str(BASE).expect("the rules above are well-formed");
    let (id, before) = (overlay.change.id(), base.hash());
    let layers = Layers::of(base).with(overlay);
    let compiled = layers.compile().expect("the base compiles");
    match compiled.unfit.as_slice() {
        [] => {}
        [unfit] => {
            assert_eq!((&unfit.id, compiled.rules.hash()), (&id, before));
            assert!(!unfit.problems.is_empty());
        }
        more => assert!(more.is_empty(), "one overlay is unfit once"),
    }
    let left = layers.without_unfit(&compiled.unfit);
    assert!(left.overlays.len() + compiled.unfit.len() == 1);
}

#[cfg(test)]
mod tests;
