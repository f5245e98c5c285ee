//! From the written form to a ruleset, or to everything that is wrong with it.
//!
//! In: rules whose parts are well-formed each. Out: a [`Ruleset`] if they also fit each other. It goes on
//! after a problem, so that one run names all of them.

use super::engine::{self, Engine};
use super::problem::{Place, Problem, Problems, list};
use super::ruleset::Ruleset;
use super::{EngineId, Rules};
use crate::matcher;
use crate::route::Declared;
use crate::split::{self, Split};
use crate::traffic::Classes;

/// Compiles rules.
///
/// # Errors
/// All problems, each with its place, in the order of the rules.
pub fn compile(rules: &Rules) -> Result<Ruleset, Vec<Problem>> {
    let mut problems = Problems::default();
    let engines = engines(rules, &mut problems);
    let default_engine = default_engine(rules, &mut problems);
    let mut wanted = Vec::new();
    let splits = splits(rules, &engines, &mut wanted, &mut problems);
    let routes = Declared::compile(&rules.routes, Place::Rules.key("routes"), &mut problems);
    let classes = Classes::compile(&rules.traffic, Place::Rules.key("traffic"), &mut problems);
    rules.trace.check(Place::Rules.key("trace"), &mut problems);
    let problems = problems.into_vec();
    match (default_engine, classes) {
        (Some(default_engine), Some(classes)) if problems.is_empty() => Ok(Ruleset {
            written: rules.clone(),
            hash: rules.hash(),
            engines,
            default_engine,
            splits,
            wanted,
            routes,
            classes,
        }),
        (_, _) => Err(problems),
    }
}

fn engines(rules: &Rules, problems: &mut Problems) -> Vec<Engine> {
    let place = Place::Rules.key("engines");
    if rules.engines.is_empty() {
        problems.add(place, "no engine is defined; there must be at least one");
    }
    let mut engines: Vec<Engine> = Vec::with_capacity(rules.engines.len());
    for (name, rule) in rules.engines.iter() {
        let place = place.key(name.as_str());
        let engine = engine::compile(name, rule, place, problems);
        // A caller that forces a tag must mean one engine. An engine's own name is always its own; only
        // a tag that was given can be taken.
        if rule.tag.is_some() {
            let taken = |other: &&Engine| *other.tag == *engine.tag;
            if let Some(other) = engines
                .iter()
                .find(taken)
                .filter(|other| *other.name != *engine.tag)
            {
                problems.add(
                    place.key("tag"),
                    format_args!("{:?} is the tag of engine {:?} too", engine.tag, other.name),
                );
            }
            if engine.tag != engine.name && rules.engines.at(&*engine.tag).is_some() {
                problems.add(
                    place.key("tag"),
                    format_args!("{:?} is the name of another engine", engine.tag),
                );
            }
        }
        engines.push(engine);
    }
    engines
}

fn default_engine(rules: &Rules, problems: &mut Problems) -> Option<EngineId> {
    let index = rules.engines.place(rules.default_engine.as_str());
    if index.is_none() {
        problems.add(
            Place::Rules.key("default_engine"),
            format_args!(
                "engine {:?} is not defined (defined: {})",
                rules.default_engine.as_str(),
                list(rules.engines.keys().map(super::Name::as_str))
            ),
        );
    }
    index.map(EngineId::new)
}

fn splits(
    rules: &Rules,
    engines: &[Engine],
    wanted: &mut Vec<Box<str>>,
    problems: &mut Problems,
) -> Vec<Split> {
    let splits_place = Place::Rules.key("splits");
    let mut splits = Vec::with_capacity(rules.splits.len());
    for (index, rule) in rules.splits.iter().enumerate() {
        let place = splits_place.entry(index);
        let earlier = || rules.splits.iter().take(index);
        if earlier().any(|other| other.name == rule.name) {
            problems.add(
                place.key("name"),
                format_args!("{:?} is the name of an earlier split", rule.name.as_str()),
            );
        }
        if let Some(other) = earlier().find(|other| hides(other, rule)) {
            problems.add(
                place,
                format_args!(
                    "it can never be reached, since split {:?} before it takes all that it matches",
                    other.name.as_str()
                ),
            );
        }
        splits.push(Split::compile(rule, engines, wanted, place, problems));
    }
    splits
}

/// Whether an earlier split takes all that a later one matches.
fn hides(earlier: &split::Rule, later: &split::Rule) -> bool {
    earlier
        .matches
        .as_ref()
        .is_none_or(matcher::Rule::is_everything)
        || earlier.matches == later.matches
}
