//! The rules in force: one immutable, numbered value, swapped whole.
//!
//! In: compiled rules. Out: a [`Snapshot`] that an exchange takes once and keeps to its end. Nobody ever
//! sees half of a change: everything that may change while running hangs on one pointer, but for switches.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use greylag_filters::layers::Layers;
use greylag_filters::rules::engine::Engine;
use greylag_filters::rules::{Address, EngineId, Problem, Ruleset};
use greylag_filters::split;

use crate::events::Events;
use crate::store::Source;
use crate::switch::{Kind, Panel, Switch};
use crate::upstream::{ApiKey, Speaks, Target};

/// A numbered, compiled, immutable set of rules, with what is needed to reach its engines.
#[derive(Debug)]
pub struct Snapshot {
    /// Counts published snapshots, from 1.
    pub version: u64,
    /// The compiled rules.
    pub rules: Ruleset,
    // one for each of `rules.engines()`, in their order
    targets: Vec<Arc<Target>>,
    // the same for gRPC, where an engine has it
    grpc: Vec<Option<Arc<Target>>>,
    // the API key of each that has one
    keys: Vec<Option<Arc<ApiKey>>>,
    /// What the rules are made of.
    pub layers: Arc<Layers>,
    /// Where their base came from.
    pub source: Source,
    // one for each of `rules.written().splits`, in their order
    splits: Vec<Decided>,
    /// What can be turned off at once.
    pub switches: Panel,
    // one for each split: whether callers may choose; none where they never can
    force: Vec<Option<Arc<Switch>>>,
}

// What one split has decided since the snapshot was published.
#[derive(Debug)]
struct Decided {
    name: Arc<str>,
    // one for each of `rules.engines()`, in their order
    taken: Vec<AtomicU64>,
}

impl Snapshot {
    /// How the engine is reached.
    pub fn target(&self, engine: EngineId) -> &Arc<Target> {
        // `engine` is an index into `rules.engines()`, of which `targets` is the image.
        &self.targets[engine.index()]
    }

    /// How the engine is reached with gRPC, if it has that.
    pub fn grpc_target(&self, engine: EngineId) -> Option<&Arc<Target>> {
        self.grpc[engine.index()].as_ref()
    }

    /// The engine's API key, if it has one.
    pub fn api_key(&self, engine: EngineId) -> Option<&Arc<ApiKey>> {
        self.keys[engine.index()].as_ref()
    }

    /// How each engine is reached, in the order of `rules.engines()`.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Whether trusted callers may choose an engine of a split, by its place in the rules, at this moment.
    pub fn force_is_on(&self, split: usize) -> bool {
        let switch = self.force.get(split).and_then(Option::as_ref);
        switch.is_some_and(|switch| switch.is_on())
    }

    /// Counts what a split, by its place in the rules, has decided; its name.
    pub fn decided(&self, split: usize, engine: EngineId) -> Option<Arc<str>> {
        let split = self.splits.get(split)?;
        let taken = split.taken.get(engine.index())?;
        taken.fetch_add(1, Ordering::Relaxed);
        Some(split.name.clone())
    }

    /// The share of each engine in what each split has decided since the snapshot was published: split, engine's tag,
    /// share from 0 to 1. A split that has decided nothing has no shares.
    pub fn effective_shares(&self) -> Vec<(&str, &str, f64)> {
        let mut shares = Vec::new();
        for (split, written) in self.splits.iter().zip(&self.rules.written().splits) {
            let taken: Vec<f64> = split.taken.iter().map(count).collect();
            let all: f64 = taken.iter().sum();
            let engines = self.rules.engines().iter().zip(&taken);
            let of_split =
                engines.filter(|(engine, _)| written.weights.at(&*engine.name).is_some());
            shares.extend(
                of_split
                    .filter(|_| all > 0.0)
                    .map(|(engine, taken)| (&*split.name, &*engine.tag, taken / all)),
            );
        }
        shares
    }

    /// Whether each engine is up, by its tag.
    pub fn health(&self) -> impl Iterator<Item = (&str, bool)> {
        let engines = self.rules.engines().iter().zip(&self.targets);
        engines.map(|(engine, target)| (&*engine.tag, target.standing.is_up()))
    }

    /// A snapshot of these rules, made of these layers. What `before` knows of the same things is kept.
    ///
    /// # Errors
    /// The problems of files that the rules name.
    pub fn new(
        version: u64,
        rules: Ruleset,
        (layers, source): (Arc<Layers>, Source),
        before: Option<&Snapshot>,
        events: &Arc<Events>,
    ) -> Result<Self, Vec<Problem>> {
        let place = |engine: &Engine, address: &Address, speaks: Speaks| {
            before
                .and_then(|before| before.same_target(engine, address, speaks))
                .unwrap_or_else(|| {
                    let (name, address) = (engine.name.clone(), address.clone());
                    let events = events.clone();
                    Arc::new(Target::new(name, address, speaks, &engine.tls, events))
                })
        };
        let targets = rules.engines().iter();
        let targets: Vec<Arc<Target>> = targets
            .map(|engine| place(engine, &engine.address, Speaks::Http1))
            .collect();
        let grpc = rules.engines().iter();
        let grpc: Vec<Option<Arc<Target>>> = grpc
            .map(|engine| Some(place(engine, engine.grpc.as_ref()?, Speaks::H2)))
            .collect();
        let problems: Vec<Problem> = targets
            .iter()
            .zip(&grpc)
            .filter_map(|(target, grpc)| {
                let grpc = grpc.iter().map(|grpc| grpc.prepare());
                let fault = [target.prepare()]
                    .into_iter()
                    .chain(grpc)
                    .find_map(Result::err)?;
                Some(Problem {
                    path: format!("rules.engines.{}.tls", target.name),
                    what: fault.to_string(),
                })
            })
            .collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let keys = rules.engines().iter();
        let keys = keys.map(|engine| same_key(engine.api_key_file.as_deref()?, before));
        let keys = keys.collect();
        let engines = rules.engines().len();
        let decided = |split: &split::Rule| Decided {
            name: Arc::from(split.name.as_str()),
            taken: (0..engines).map(|_| AtomicU64::new(0)).collect(),
        };
        let switches = Panel::of(rules.written(), before.map(|before| &before.switches));
        let switch = |split: &split::Rule| {
            let switch = switches.switch(Kind::Force, split.name.as_str());
            switch.cloned()
        };
        Ok(Snapshot {
            version,
            layers,
            source,
            force: rules.written().splits.iter().map(switch).collect(),
            switches,
            splits: rules.written().splits.iter().map(decided).collect(),
            rules,
            targets,
            grpc,
            keys,
        })
    }

    // What is known of an engine (its addresses, its health, its models) outlives an edit of other rules.
    fn same_target(
        &self,
        engine: &Engine,
        address: &Address,
        speaks: Speaks,
    ) -> Option<Arc<Target>> {
        self.targets
            .iter()
            .chain(self.grpc.iter().flatten())
            .find(|target| target.is(&engine.name, address, speaks, &engine.tls))
            .cloned()
    }
}

// A key that was read once is known as long as its file is named.
fn same_key(file: &Path, before: Option<&Snapshot>) -> Option<Arc<ApiKey>> {
    let mut known = before
        .into_iter()
        .flat_map(|before| before.keys.iter().flatten());
    let same = known.find(|key| key.file() == file).cloned();
    Some(same.unwrap_or_else(|| Arc::new(ApiKey::in_file(file))))
}

// Exact up to 2^53, and near enough to a share beyond.
fn count(taken: &AtomicU64) -> f64 {
    taken.load(Ordering::Relaxed) as f64
}

#[cfg(test)]
mod tests {
    use greylag_filters::rules::Rules;

    use crate::store::Store;

    fn rules(candidate: u32) -> Rules {
        let text = format!(
            r#"{{"engines":{{"stable":{{"kind":"vllm","url":"http://127.0.0.1:1"}},
                "candidate":{{"kind":"vllm","url":"http://127.0.0.1:2"}}}},"default_engine":"stable",
                "splits":[{{"name":"s","weights":{{"stable":90,"candidate":{candidate}}}}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn effective_shares_are_of_what_was_decided() {
        let store = Store::new(&rules(10), 7).unwrap();
        let snapshot = store.current();
        assert_eq!(snapshot.effective_shares(), []);
        let stable = snapshot.rules.default_engine();
        assert_eq!(snapshot.decided(0, stable).as_deref(), Some("s"));
        assert_eq!(
            snapshot.effective_shares(),
            [("s", "stable", 1.0), ("s", "candidate", 0.0)]
        );
        assert_eq!(snapshot.decided(1, stable), None);
    }
}
