//! What has changed between two sets of rules, for people who look at it later.
//!
//! In: two written forms. Out: the places where they differ, with what stood there and what stands there, secrets hidden. Entries of
//! lists that have names are told by them, so that one more split at the front does not make all others look changed.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::rules::{HIDDEN, Rules, Step};

/// The differences that are listed at most.
const MOST: usize = 200;

/// What has changed.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct Diff {
    /// The places that differ, in the order of the keys.
    pub changes: Vec<Difference>,
    /// How many more differ than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// Whether what is in another order than before is all, or part, of the change: of splits the first that fits decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reordered: bool,
}

/// A place that differs.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Difference {
    /// Where, from `rules` down.
    pub path: String,
    /// What stood there; absent where nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What stands there; absent where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl Diff {
    /// What has changed from `before` to `after`.
    pub fn of(before: &Rules, after: &Rules) -> Diff {
        let mut diff = Diff::default();
        if before == after {
            return diff;
        }
        diff.enter("rules".to_owned(), json(before), json(after));
        diff.secrets(before, after);
        diff.reordered |= diff.changes.is_empty();
        diff
    }

    fn enter(&mut self, path: String, before: Value, after: Value) {
        match (before, after) {
            (before, after) if before == after => {}
            (Value::Object(before), Value::Object(after)) => self.maps(&path, before, after),
            (Value::Array(before), Value::Array(after)) => match (named(&before), named(&after)) {
                (Some((names, before)), Some((others, after))) => {
                    self.reordered |= is_reordered(&names, &others);
                    self.maps(&path, before, after);
                }
                (_, _) => self.differ(path, Some(Value::Array(before)), Some(Value::Array(after))),
            },
            (before, after) => self.differ(path, Some(before), Some(after)),
        }
    }

    fn maps(&mut self, path: &str, before: Map<String, Value>, mut after: Map<String, Value>) {
        let mut keys = BTreeMap::new();
        for (key, value) in before {
            let other = after.remove(&key);
            keys.insert(key, (Some(value), other));
        }
        keys.extend(
            after
                .into_iter()
                .map(|(key, value)| (key, (None, Some(value)))),
        );
        for (key, (before, after)) in keys {
            let path = format!("{path}{}", Step(&key));
            match (before, after) {
                (Some(before), Some(after)) => self.enter(path, before, after),
                (before, after) => self.differ(path, before, after),
            }
        }
    }

    // Hidden they look alike: that one has changed is said, and not what it is.
    fn secrets(&mut self, before: &Rules, after: &Rules) {
        for (name, engine) in after.engines.iter() {
            let Some(other) = before.engines.at(name) else {
                continue;
            };
            for (field, secret) in engine.headers.iter() {
                if other.headers.at(field).is_some_and(|old| old != secret) {
                    let engine = Step(name.as_str());
                    let path = format!("rules.engines{engine}.headers{}", Step(field));
                    self.differ(path, Some(HIDDEN.into()), Some(HIDDEN.into()));
                }
            }
        }
    }

    fn differ(&mut self, path: String, before: Option<Value>, after: Option<Value>) {
        if self.changes.len() == MOST {
            self.more += 1;
            return;
        }
        self.changes.push(Difference {
            path,
            before,
            after,
        });
    }
}

fn json(rules: &Rules) -> Value {
    serde_json::to_value(rules.hidden()).expect("the written form has only string keys")
}

// The entries of a list by their names, and the names in order; none unless each has one of its own.
fn named(list: &[Value]) -> Option<(Vec<String>, Map<String, Value>)> {
    let name = |entry: &Value| Some(entry.get("name")?.as_str()?.to_owned());
    let names: Vec<String> = list.iter().map(name).collect::<Option<_>>()?;
    let entries: Map<_, _> = names.iter().cloned().zip(list.iter().cloned()).collect();
    (entries.len() == list.len()).then_some((names, entries))
}

// Whether what both have stands in another order.
fn is_reordered(before: &[String], after: &[String]) -> bool {
    let (left, right): (HashSet<_>, HashSet<_>) = (before.iter().collect(), after.iter().collect());
    let kept = before.iter().filter(|name| right.contains(name));
    let here = after.iter().filter(|name| left.contains(name));
    !kept.eq(here)
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
