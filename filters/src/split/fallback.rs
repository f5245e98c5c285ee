//! Where an exchange goes when its engine is not to be had.
//!
//! In: what a split has chosen, which engines are up, and what went wrong. Out: the engine that the same hash would choose
//! next, or that there is none. If all engines of a split are down, all count as up: one that may be dead is better than none.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

use super::{Choice, Split, rendezvous};
use crate::rules::EngineId;
use crate::rules::problem::{Place, Problems};

/// What becomes of exchanges whose engine is down.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnhealthy {
    /// They go to the engine that is up and that the same hash would choose next.
    #[default]
    Fallback,
    /// They are answered 503 `engine_unhealthy`.
    Fail,
}

/// What sends an exchange in hand to another engine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
pub enum RetryOn {
    /// There was no connection to be had.
    #[serde(rename = "connect")]
    Connect,
    /// The engine answered 503.
    #[serde(rename = "503")]
    Busy,
}

impl RetryOn {
    /// A word for labels.
    pub fn label(self) -> &'static str {
        match self {
            RetryOn::Connect => "connect",
            RetryOn::Busy => "503",
        }
    }
}

// By hand, since `503` without quotes is a number.
impl<'de> Deserialize<'de> for RetryOn {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RetryOn, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = RetryOn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connect or 503")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RetryOn, E> {
        match text {
            "connect" => Ok(RetryOn::Connect),
            "503" => Ok(RetryOn::Busy),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RetryOn, E> {
        match number {
            503 => Ok(RetryOn::Busy),
            other => Err(E::invalid_value(
                serde::de::Unexpected::Unsigned(other),
                &self,
            )),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<RetryOn, E> {
        u64::try_from(number)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
            .and_then(|number| self.visit_u64(number))
    }
}

impl JsonSchema for RetryOn {
    fn schema_name() -> Cow<'static, str> {
        "RetryOn".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["connect", "503", 503] })
    }
}

/// What becomes of an exchange whose engine is down.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Instead {
    /// It goes there all the same: no other engine is up.
    Stay,
    /// It goes to this one.
    To(EngineId),
    /// It fails.
    Fail,
}

/// The compiled keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    on_unhealthy: OnUnhealthy,
    connect: bool,
    busy: bool,
}

impl Policy {
    pub(super) fn compile(rule: &super::Rule, place: Place<'_>, problems: &mut Problems) -> Policy {
        let mut policy = Policy {
            on_unhealthy: rule.on_unhealthy,
            connect: false,
            busy: false,
        };
        let place = place.key("retry_on");
        for (index, on) in rule.retry_on.iter().enumerate() {
            let flag = match on {
                RetryOn::Connect => &mut policy.connect,
                RetryOn::Busy => &mut policy.busy,
            };
            if std::mem::replace(flag, true) {
                problems.add(place.entry(index), "it is written twice");
            }
        }
        if rule.on_unhealthy == OnUnhealthy::Fail && policy.busy {
            problems.add(
                place,
                "with `on_unhealthy: fail` there is no other engine to go to, so 503 cannot stand here",
            );
        }
        policy
    }

    fn retries(&self, on: RetryOn) -> bool {
        self.on_unhealthy == OnUnhealthy::Fallback
            && match on {
                RetryOn::Connect => self.connect,
                RetryOn::Busy => self.busy,
            }
    }
}

impl Split {
    /// For an exchange whose chosen engine is down.
    pub(crate) fn instead(
        &self,
        chosen: EngineId,
        key: rendezvous::Key,
        is_up: impl Fn(EngineId) -> bool,
    ) -> Instead {
        match (
            self.other(key, |engine| engine != chosen && is_up(engine)),
            self.policy.on_unhealthy,
        ) {
            (None, _) => Instead::Stay,
            (Some(engine), OnUnhealthy::Fallback) => Instead::To(engine),
            (Some(_), OnUnhealthy::Fail) => Instead::Fail,
        }
    }

    /// For an exchange that has failed on an engine, before anything was answered.
    pub(crate) fn next(
        &self,
        failed: EngineId,
        key: rendezvous::Key,
        on: RetryOn,
        is_up: impl Fn(EngineId) -> bool,
    ) -> Option<EngineId> {
        if !self.policy.retries(on) {
            return None;
        }
        self.other(key, |engine| engine != failed && is_up(engine))
            .or_else(|| self.other(key, |engine| engine != failed))
    }

    // What the key chooses of those that fit.
    fn other(&self, key: rendezvous::Key, fits: impl Fn(EngineId) -> bool) -> Option<EngineId> {
        let fit: Vec<&Choice> = self
            .choices
            .iter()
            .filter(|choice| fits(choice.engine))
            .collect();
        rendezvous::choose(key, &fit, |choice| (&choice.stake, &choice.name))
            .map(|choice| choice.engine)
    }
}

#[cfg(test)]
mod tests;
