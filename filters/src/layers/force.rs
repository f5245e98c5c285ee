//! Whether trusted callers may choose an engine of a split, as somebody switched it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OverlayId;
use super::weights::{find, problem};
use crate::rules::problem::Place;
use crate::rules::{Name, Problem, Rules};

/// A split's `force`, switched.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ForceOverlay")]
pub struct Force {
    /// The split.
    pub split: Name,
    /// Whether it is on.
    pub on: bool,
}

impl Force {
    pub(super) fn id(&self) -> OverlayId {
        OverlayId::of("force", self.split.as_str())
    }

    pub(super) fn what(&self) -> String {
        let on = if self.on { "on" } else { "off" };
        format!("force of split {:?}: {on}", self.split.as_str())
    }

    pub(super) fn apply(&self, rules: &mut Rules) -> Result<(), Problem> {
        let (index, split) = find(&self.split, rules)?;
        match &mut split.force {
            Some(force) => {
                force.on = self.on;
                Ok(())
            }
            None => {
                let splits = Place::Rules.key("splits");
                let place = splits.entry(index);
                let what = format!(
                    "split {:?} names no header by which callers could choose, so there is nothing to switch",
                    self.split.as_str()
                );
                Err(problem(place.key("force"), what))
            }
        }
    }
}
