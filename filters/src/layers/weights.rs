//! The weights of a split, as somebody moved them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OverlayId;
use crate::rules::problem::{Place, list};
use crate::rules::{Name, Ordered, Problem, Rules};
use crate::split::{self, Weight};

/// New weights for a split.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WeightsOverlay")]
pub struct Weights {
    /// The split.
    pub split: Name,
    /// A weight for each of its engines, and for no other. Their order stays the split's own.
    pub weights: Ordered<Name, Weight>,
}

impl Weights {
    pub(super) fn id(&self) -> OverlayId {
        OverlayId::of("weights", self.split.as_str())
    }

    pub(super) fn what(&self) -> String {
        let weights = self.weights.iter();
        let weights: Vec<String> = weights
            .map(|(engine, weight)| format!("{}={}", engine.as_str(), weight.get()))
            .collect();
        format!(
            "weights of split {:?}: {}",
            self.split.as_str(),
            weights.join(" ")
        )
    }

    // Engines that are not those of the split would hide one that the base has by now.
    pub(super) fn apply(&self, rules: &mut Rules) -> Result<(), Problem> {
        let (index, split) = find(&self.split, rules)?;
        let place = Place::Rules.key("splits");
        let (place, here) = (place.entry(index), "weights");
        let engines = || list(split.weights.keys().map(Name::as_str));
        let stranger = |name: &&Name| split.weights.at(*name).is_none();
        if let Some(stranger) = self.weights.keys().find(stranger) {
            let what = format!(
                "engine {:?} is not one of the split's (its engines: {})",
                stranger.as_str(),
                engines()
            );
            return Err(problem(place.key(here).key(stranger.as_str()), what));
        }
        let missing = |name: &&Name| self.weights.at(*name).is_none();
        if let Some(missing) = split.weights.keys().find(missing) {
            let what = format!(
                "engine {:?} is given no weight; each of the split's engines needs one: {}",
                missing.as_str(),
                engines()
            );
            return Err(problem(place.key(here), what));
        }
        for (engine, weight) in split.weights.iter_mut() {
            if let Some(new) = self.weights.at(engine) {
                *weight = *new;
            }
        }
        Ok(())
    }
}

/// The split of this name, with its place.
pub(super) fn find<'a>(
    name: &Name,
    rules: &'a mut Rules,
) -> Result<(usize, &'a mut split::Rule), Problem> {
    let defined = list(rules.splits.iter().map(|split| split.name.as_str()));
    let mut splits = rules.splits.iter_mut().enumerate();
    splits
        .find(|(_, split)| split.name == *name)
        .ok_or_else(|| {
            let what = format!(
                "split {:?} is not defined (defined: {defined})",
                name.as_str()
            );
            problem(Place::Rules.key("splits"), what)
        })
}

/// One problem at a place.
pub(super) fn problem(place: Place<'_>, what: impl std::fmt::Display) -> Problem {
    Problem {
        path: place.to_string(),
        what: what.to_string(),
    }
}
