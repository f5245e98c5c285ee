//! Everything in a tree that cannot be read.
//!
//! In: a tree. Out: a configuration, or all keys and values that mean nothing, not only the first. The reader stops at the first, so
//! that entry is taken out and what is left is read again, and so on. What is only missing because it was taken out is no problem.

use serde_saphyr::Error;

use super::Config;
use super::canonical::{Canonical, Part};
use super::nearest::nearest;
use super::shape::Shape;
use super::tree::{Entry, Id, Kind, Origin, ROOT, Step, Tree};
use super::wording;

/// After so many entries the rest is left for the next time.
const MOST: usize = 100;

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) origin: Origin,
    /// Empty where it is about the whole.
    pub(super) path: String,
    pub(super) what: String,
}

/// What came of a tree that cannot be read.
#[derive(Debug)]
pub(super) struct Survey {
    /// All that is wrong, in the order in which it was found; at least one.
    pub(super) findings: Vec<Finding>,
    /// What the rest says, once all that was taken out.
    pub(super) rest: Option<Box<Config>>,
}

impl Survey {
    fn of(findings: Vec<Finding>) -> Survey {
        Survey {
            findings,
            rest: None,
        }
    }
}

/// Reads a tree.
///
/// # Errors
/// All that cannot be read.
pub(super) fn read(tree: &mut Tree) -> Result<Config, Survey> {
    let mut findings = Vec::new();
    let mut shape = None;
    for _ in 0..MOST {
        let canonical = Canonical::of(tree);
        let options = serde_saphyr::options! { with_snippet: false };
        let read = serde_saphyr::from_str_with_options::<Config>(&canonical.text, options);
        let error = match read.map(Box::new) {
            Ok(config) if findings.is_empty() => return Ok(*config),
            Ok(config) => {
                return Err(Survey {
                    findings,
                    rest: Some(config),
                });
            }
            Err(error) => error,
        };
        let shape = shape.get_or_insert_with(Shape::of_types);
        let at = error
            .location()
            .and_then(|place| canonical.at(place.line()));
        let Some((id, part)) = at else {
            findings.push(general(&error));
            return Err(Survey::of(findings));
        };
        let (found, culprit) = judged(tree, shape, &error, id, part);
        findings.extend(found);
        if culprit == ROOT {
            return Err(Survey::of(findings));
        }
        tree.take_out(culprit);
    }
    findings.push(Finding {
        origin: Origin::Nowhere,
        path: String::new(),
        what: "found so much that not all of it is listed".to_owned(),
    });
    Err(Survey::of(findings))
}

/// A problem whose place is not known.
pub(super) fn general(error: &Error) -> Finding {
    Finding {
        origin: Origin::Nowhere,
        path: String::new(),
        what: wording::of(error, "something else"),
    }
}

// What an error says, and what has to be taken out for the rest to be read.
fn judged(tree: &Tree, shape: &Shape, error: &Error, id: Id, part: Part) -> (Vec<Finding>, Id) {
    let Some(entry) = tree.entry(id) else {
        return (vec![general(error)], ROOT);
    };
    let finding = |origin: &Origin, path: &str, what: String| Finding {
        origin: origin.clone(),
        path: path.to_owned(),
        what,
    };
    let error = error.without_snippet();
    if let Error::SerdeMissingField { field, .. } = error {
        // The reader is at the last key that it has seen, or at a map without keys.
        let map = match part {
            Part::Key => entry.above,
            Part::Value => id,
        };
        let found = missing(tree, shape, map, field);
        return (found, map);
    }
    if part == Part::Key {
        let map = tree.entry(entry.above);
        let path = map.map_or("", |map| map.path.as_str());
        // A variant with a value is the only key of its map.
        let culprit = match error {
            Error::SerdeUnknownVariant { .. } => entry.above,
            _ => id,
        };
        let what = wording::of(error, "a key that cannot be one");
        return (vec![finding(&entry.key, path, what)], culprit);
    }
    // Nothing is wrong with it but what was taken out.
    let is_maimed = tree.taken_out(id).next().is_some();
    let found = (!is_maimed).then(|| {
        let what = wording::of(error, &found(tree, shape, id, entry));
        finding(&entry.value, &entry.path, what)
    });
    (found.into_iter().collect(), id)
}

// The keys that a map has never had, where the reader has told of the first.
fn missing(tree: &Tree, shape: &Shape, map: Id, first: &str) -> Vec<Finding> {
    let Some(entry) = tree.entry(map) else {
        return Vec::new();
    };
    let there = tree.within(map).map(|(_, entry)| &entry.step);
    let there: Vec<&str> = there.filter_map(key).collect();
    // What was meant by a slip is there, too.
    let gone: Vec<&str> = tree.taken_out(map).filter_map(key).collect();
    let is_there =
        |key: &str| there.contains(&key) || gone.iter().any(|name| nearest(name, [key]).is_some());
    let others = shape.required(&tree.steps(map)).into_iter();
    let needed = std::iter::once(first.to_owned()).chain(others.filter(|key| key != first));
    let finding = |key: String| Finding {
        origin: entry.value.clone(),
        path: entry.path.clone(),
        what: wording::missing(&key),
    };
    let needed = needed.filter(|key| !is_there(key));
    needed.map(finding).collect()
}

fn key(step: &Step) -> Option<&str> {
    match step {
        Step::Key(key) => Some(key),
        Step::Root | Step::Index(_) => None,
    }
}

fn found(tree: &Tree, shape: &Shape, id: Id, entry: &Entry) -> String {
    match &entry.kind {
        Kind::Leaf(_) if shape.is_secret(&tree.steps(id)) => "a single value".to_owned(),
        kind => kind.found(),
    }
}

#[cfg(test)]
mod tests;
