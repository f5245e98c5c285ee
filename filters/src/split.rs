//! Which engine an exchange goes to.
//!
//! In: an entry of `rules.splits`, then requests and draws. Out: one of the split's engines, and how it was
//! found: forced by a trusted caller, else by the first sticky key that the request has, else by the draw.

mod fallback;
mod rendezvous;
mod sticky;
mod weight;

use std::sync::Arc;

use http::HeaderName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draw::Draw;
use crate::matcher::{self, Matcher, header_name};
use crate::rules::engine::Engine;

use crate::rules::ordered::Ordered;
use crate::rules::problem::{Place, Problems, list};
use crate::rules::{EngineId, How, Name, Request};
pub use fallback::{Instead, OnUnhealthy, RetryOn};
pub(crate) use rendezvous::Key;
pub use sticky::Sticky;
pub use weight::Weight;

/// How exchanges are split between engines. Of all splits the first one whose `match` fits decides.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Split")]
pub struct Rule {
    /// The name of the split, used once. It also seeds the split's draws and, unless `salt` is given, its
    /// sticky hashes.
    pub name: Name,
    /// Which requests are split. Default: all inference requests.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<matcher::Rule>,
    /// Engines by name, each with its weight; an engine's share is its weight divided by the sum of all. At
    /// least one is above 0. An engine of weight 0 is reached by force only. Listing order matters to
    /// `force` alone.
    pub weights: Ordered<Name, Weight>,
    /// What ties a caller to an engine: the first key that the request has, and has not empty. Default:
    /// none, so each request draws.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sticky: Vec<Sticky>,
    /// How trusted callers choose an engine themselves. Default: they cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<Force>,
    /// What sticky keys are hashed with. Splits with equal salt send a key the same way; a new salt deals all
    /// keys anew. Default: the split's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
    /// What becomes of exchanges whose engine is down, forced ones too: `fallback` sends them to the engine that is up and
    /// that the same hash would choose next, `fail` answers 503. Engines of weight 0 take nobody's place. If all engines of
    /// the split are down, all count as up. Default: `fallback`.
    #[serde(default)]
    pub on_unhealthy: OnUnhealthy,
    /// What sends an exchange in hand to that engine, once, if nothing of it was answered: `connect`, that there was no
    /// connection to be had; `503`, that this was the answer, if all of the request is in memory. None with
    /// `on_unhealthy: fail`. Default: `[connect]`.
    #[serde(default = "connect")]
    pub retry_on: Vec<RetryOn>,
}

// An attribute of a list's field takes a path only.
fn connect() -> Vec<RetryOn> {
    vec![RetryOn::Connect]
}

/// How trusted callers choose an engine themselves.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Force {
    /// The header that names an engine of the split, or its tag, also one of weight 0. In a split of two,
    /// `always` is the engine listed second and `never` the one listed first, unless an engine is called so. Other
    /// values are ignored, as is the header from callers that are not trusted.
    pub header: String,
    /// Whether it is on; while it is off, all are as if they had not chosen. Default: `true`.
    #[serde(default = "on")]
    pub on: bool,
}

fn on() -> bool {
    true
}

/// A compiled [`Rule`].
#[derive(Clone, Debug)]
pub(crate) struct Split {
    name: Arc<str>,
    matcher: Matcher,
    choices: Vec<Choice>,
    sticky: Vec<sticky::Key>,
    force: Option<HeaderName>,
    salt: rendezvous::Salt,
    policy: fallback::Policy,
}

/// What a split has chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    /// The engine.
    pub(crate) engine: EngineId,
    /// How it was found.
    pub(crate) how: How,
    /// What chooses the next one, should this one be down.
    pub(crate) key: Key,
}

/// An engine of a split.
#[derive(Clone, Debug)]
struct Choice {
    engine: EngineId,
    name: Arc<str>,
    tag: Arc<str>,
    stake: rendezvous::Stake,
}

impl Split {
    /// The compiled rule, or none and the problems with it.
    ///
    /// `wanted` collects the body keys that all rules together need.
    pub(crate) fn compile(
        rule: &Rule,
        engines: &[Engine],
        wanted: &mut Vec<Box<str>>,
        place: Place<'_>,
        problems: &mut Problems,
    ) -> Split {
        let matcher = rule
            .matches
            .as_ref()
            .map(|rule| Matcher::compile(rule, place.key("match"), problems));
        let choices = choices(rule, engines, place.key("weights"), problems);
        let sticky_place = place.key("sticky");
        let mut sticky = Vec::with_capacity(rule.sticky.len());
        for (index, key) in rule.sticky.iter().enumerate() {
            let key_place = sticky_place.entry(index);
            if rule.sticky.iter().take(index).any(|earlier| earlier == key) {
                problems.add(key_place, "the key is written twice");
            }
            sticky.extend(sticky::Key::compile(key, wanted, key_place, problems));
        }
        let force_place = place.key("force");
        let force = rule
            .force
            .as_ref()
            .and_then(|force| header_name(&force.header, force_place.key("header"), problems));
        let salt = rule.salt.as_deref().unwrap_or(rule.name.as_str());
        Split {
            name: rule.name.as_str().into(),
            matcher: matcher.unwrap_or_default(),
            choices,
            sticky,
            force,
            salt: rendezvous::Salt::new(salt),
            policy: fallback::Policy::compile(rule, place, problems),
        }
    }

    /// The engine for a request, or none if the request does not fit.
    ///
    /// `force_is_on` is asked only about a request that would force an engine.
    pub(crate) fn choose(
        &self,
        request: &Request<'_>,
        force_is_on: impl FnOnce() -> bool,
        seed: u64,
        id: &[u8],
    ) -> Option<Chosen> {
        if !self.matcher.fits(request) {
            return None;
        }
        let mut sticky = self.sticky.iter();
        let (key, how) = match sticky.find_map(|key| key.hash(self.salt, request)) {
            Some(key) => (key, How::Sticky),
            None => (Key::from(Draw::new(seed, &self.name, id)), How::Draw),
        };
        let forced = self.forced(request).filter(|_| force_is_on());
        let (choice, how) = match forced {
            Some(choice) => (choice, How::Forced),
            None => {
                let all = &self.choices;
                let drawn = rendezvous::choose(key, all, |one| (&one.stake, &one.name))?;
                (drawn, how)
            }
        };
        Some(Chosen {
            engine: choice.engine,
            how,
            key,
        })
    }

    /// The header by which trusted callers choose an engine, if there is one.
    pub(crate) fn force_header(&self) -> Option<&HeaderName> {
        self.force.as_ref()
    }

    fn forced(&self, request: &Request<'_>) -> Option<&Choice> {
        if !request.trusted {
            return None;
        }
        let value = request.headers.get(self.force.as_ref()?)?.as_bytes();
        let named = self
            .choices
            .iter()
            .find(|choice| choice.name.as_bytes() == value || choice.tag.as_bytes() == value);
        named.or(match (value, self.choices.as_slice()) {
            (b"never", [first, _]) => Some(first),
            (b"always", [_, second]) => Some(second),
            _ => None,
        })
    }
}

fn choices(
    rule: &Rule,
    engines: &[Engine],
    place: Place<'_>,
    problems: &mut Problems,
) -> Vec<Choice> {
    let mut choices = Vec::with_capacity(rule.weights.len());
    for (name, weight) in rule.weights.iter() {
        match engines
            .iter()
            .enumerate()
            .find(|(_, engine)| *engine.name == *name.as_str())
        {
            Some((index, engine)) => choices.push(Choice {
                engine: EngineId::new(index),
                name: engine.name.clone(),
                tag: engine.tag.clone(),
                stake: rendezvous::Stake::new(&engine.name, *weight),
            }),
            None => problems.add(
                place.key(name.as_str()),
                format_args!(
                    "engine {:?} is not defined (defined: {})",
                    name.as_str(),
                    list(engines.iter().map(|engine| &*engine.name))
                ),
            ),
        }
    }
    if rule.weights.is_empty() {
        problems.add(place, "no engine is listed; a split needs at least one");
    } else if rule.weights.iter().all(|(_, weight)| weight.get() == 0) {
        problems.add(place, "all weights are zero; at least one must be above 0");
    }
    choices
}

#[cfg(test)]
mod tests;
