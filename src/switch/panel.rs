//! All switches of a set of rules.
//!
//! In: what the rules say of each, and the switches of the rules before. Out: which were turned. A switch is turned where the rules
//! say something else than before, and left as it is where they say the same: what a reset or a check has turned off stays off.

use std::sync::Arc;

use greylag_filters::rules::Rules;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Kind, Switch};

/// The switches of rules.
#[derive(Debug, Default)]
pub struct Panel {
    // no two of the same kind have the same name
    switches: Vec<Named>,
}

#[derive(Debug)]
struct Named {
    name: Box<str>,
    // what the rules say
    wanted: bool,
    switch: Arc<Switch>,
}

/// A switch that was turned, as it is told of.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Turned {
    /// Which kind of thing it is.
    pub kind: Kind,
    /// Of which name.
    pub name: String,
    /// Whether it is on now.
    pub on: bool,
}

// All that can be switched in rules, and whether they want it on: a kind of thing is a line here.
fn wanted(rules: &Rules) -> impl Iterator<Item = (Kind, &str, bool)> {
    let splits = rules.splits.iter();
    splits.filter_map(|split| Some((Kind::Force, split.name.as_str(), split.force.as_ref()?.on)))
}

impl Panel {
    /// The switches of these rules; those that the ones before have too are the same.
    pub fn of(rules: &Rules, before: Option<&Panel>) -> Panel {
        let switches = wanted(rules).map(|(kind, name, wanted)| {
            let known = before.and_then(|before| before.find(kind, name));
            let known = known.map(|known| known.switch.clone());
            Named {
                name: name.into(),
                wanted,
                switch: known.unwrap_or_else(|| Arc::new(Switch::new(kind, wanted))),
            }
        });
        Panel {
            switches: switches.collect(),
        }
    }

    /// One of them.
    pub fn switch(&self, kind: Kind, name: &str) -> Option<&Arc<Switch>> {
        self.find(kind, name).map(|named| &named.switch)
    }

    /// Turns off what these rules say so of and those before did not, and what they do not have, for exchanges that keep those.
    pub fn turn_off(&self, before: &Panel) -> Vec<Turned> {
        let goes_off = |old: &&Named| match self.find(old.switch.kind, &old.name) {
            Some(new) => old.wanted && !new.wanted,
            None => true,
        };
        turned(before.switches.iter().filter(goes_off), false)
    }

    /// Turns on what these rules say so of and those before did not.
    pub fn turn_on(&self, before: &Panel) -> Vec<Turned> {
        let goes_on = |new: &&Named| {
            let old = before.find(new.switch.kind, &new.name);
            new.wanted && old.is_some_and(|old| !old.wanted)
        };
        turned(self.switches.iter().filter(goes_on), true)
    }

    /// Turns off all that disturbs exchanges; what was on.
    pub fn reset(&self) -> Vec<Turned> {
        let disturbs = |named: &&Named| named.switch.kind.disturbs();
        turned(self.switches.iter().filter(disturbs), false)
    }

    fn find(&self, kind: Kind, name: &str) -> Option<&Named> {
        let mut switches = self.switches.iter();
        switches.find(|named| named.switch.kind == kind && *named.name == *name)
    }
}

fn turned<'a>(switches: impl Iterator<Item = &'a Named>, on: bool) -> Vec<Turned> {
    let turned = switches.filter(|named| named.switch.turn(on));
    let told = |named: &Named| Turned {
        kind: named.switch.kind,
        name: named.name.to_string(),
        on,
    };
    turned.map(told).collect()
}
