//! One change on top of the base: what it changes, and whose it is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Force, Weights};
use crate::rules::{Name, Problem, Rules};
use crate::units::Moment;

/// A change on top of the base. It stays until it is lifted, its end comes, or the base has no place for it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// What it changes.
    pub change: Change,
    /// Who made it.
    pub owner: String,
    /// Why, in the owner's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was made.
    pub since: Moment,
    /// When it is lifted by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
}

impl Overlay {
    /// Whether its end has come.
    pub fn has_ended(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// What an overlay changes.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The weights of a split.
    Weights(Weights),
    /// Whether trusted callers may choose an engine of a split.
    Force(Force),
}

/// What an overlay is called: what it changes and of which, `weights:canary`. No two overlays have the same.
#[derive(Clone, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct OverlayId(String);

impl OverlayId {
    /// The id as somebody wrote it; of an overlay or of none.
    pub fn read(text: &str) -> OverlayId {
        OverlayId(text.to_owned())
    }

    pub(super) fn of(what: &str, name: &str) -> OverlayId {
        OverlayId(format!("{what}:{name}"))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OverlayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Change {
    /// What an overlay with this change is called.
    pub fn id(&self) -> OverlayId {
        match self {
            Change::Weights(weights) => weights.id(),
            Change::Force(force) => force.id(),
        }
    }

    /// What it does, for people: `weights of split "canary": stable=50 candidate=50`.
    pub fn what(&self) -> String {
        match self {
            Change::Weights(weights) => weights.what(),
            Change::Force(force) => force.what(),
        }
    }

    /// The split that it is of, if it is of one.
    pub fn split(&self) -> Option<&Name> {
        match self {
            Change::Weights(weights) => Some(&weights.split),
            Change::Force(force) => Some(&force.split),
        }
    }

    /// Whether it outlives the process.
    pub fn is_kept(&self) -> bool {
        match self {
            Change::Weights(_) | Change::Force(_) => true,
        }
    }

    /// Makes the change.
    pub(super) fn apply(&self, rules: &mut Rules) -> Result<(), Problem> {
        match self {
            Change::Weights(weights) => weights.apply(rules),
            Change::Force(force) => force.apply(rules),
        }
    }
}
