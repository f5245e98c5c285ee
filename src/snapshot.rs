//! The rules in force: one immutable, numbered value, swapped whole.
//!
//! In: rules in their written form. Out: a [`Snapshot`] that an exchange takes once and keeps to its end. Nobody ever
//! sees half of a change: everything that may change while running hangs on this one pointer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use greylag_filters::rules::engine::Engine;
use greylag_filters::rules::{self, Address, EngineId, Problem, Rules, Ruleset};
use greylag_filters::split;
use parking_lot::Mutex;
use tokio::sync::Notify;

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
    // one for each of `rules.written().splits`, in their order
    splits: Vec<Decided>,
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

    // The problems are those of files that the rules name.
    fn new(version: u64, rules: Ruleset, before: Option<&Snapshot>) -> Result<Self, Vec<Problem>> {
        let place = |engine: &Engine, address: &Address, speaks: Speaks| {
            before
                .and_then(|before| before.same_target(engine, address, speaks))
                .unwrap_or_else(|| {
                    let (name, address) = (engine.name.clone(), address.clone());
                    Arc::new(Target::new(name, address, speaks, &engine.tls))
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
        Ok(Snapshot {
            version,
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

/// Holds the snapshot in force and publishes new ones.
#[derive(Debug)]
pub struct Store {
    current: ArcSwap<Snapshot>,
    // Publishing is read-compare-write; readers never take this lock.
    publishing: Mutex<()>,
    published: Notify,
    // Tells this process's versions from those of the process before it.
    boot: u64,
}

/// Why a publication was refused.
#[derive(Debug)]
pub enum Refused {
    /// The rules in force are not those the caller had edited.
    Conflict {
        /// The entity tag of the rules in force.
        current: String,
    },
    /// The rules do not compile; all problems at once.
    Problems(Vec<Problem>),
}

impl Store {
    /// Compiles `rules` as version 1. `boot` names this process in entity tags.
    ///
    /// # Errors
    /// All problems of the rules, or of files that they name.
    pub fn new(rules: &Rules, boot: u64) -> Result<Self, Vec<Problem>> {
        let compiled = rules::compile(rules)?;
        Ok(Store {
            current: ArcSwap::from_pointee(Snapshot::new(1, compiled, None)?),
            publishing: Mutex::new(()),
            published: Notify::new(),
            boot,
        })
    }

    /// The snapshot in force. An exchange calls this once.
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The entity tag of a snapshot: the process and the version (RFC 9110 §8.8.3), quotes included.
    pub fn entity_tag(&self, snapshot: &Snapshot) -> String {
        format!("\"{:x}-{}\"", self.boot, snapshot.version)
    }

    /// What `rules` would be as the next version; they are not put in force.
    ///
    /// # Errors
    /// All problems of the rules, or of files that they name.
    pub fn try_out(&self, rules: &Rules) -> Result<Snapshot, Vec<Problem>> {
        let before = self.current();
        Snapshot::new(before.version + 1, rules::compile(rules)?, Some(&before))
    }

    /// Compiles `rules` and puts them in force as the next version, if `expected` (an `If-Match` value) fits.
    ///
    /// # Errors
    /// A conflict or all problems; the rules in force then stay.
    pub fn publish(
        &self,
        rules: &Rules,
        expected: Option<&EntityTags>,
    ) -> Result<Arc<Snapshot>, Refused> {
        // Compiling may take a while and must not hold up another publisher's answer.
        let compiled = rules::compile(rules).map_err(Refused::Problems)?;
        let _publishing = self.publishing.lock();
        let before = self.current();
        let tag = self.entity_tag(&before);
        if expected.is_some_and(|expected| !expected.allow(&tag)) {
            return Err(Refused::Conflict { current: tag });
        }
        let next = Snapshot::new(before.version + 1, compiled, Some(&before));
        let next = Arc::new(next.map_err(Refused::Problems)?);
        self.current.store(next.clone());
        self.published.notify_waiters();
        Ok(next)
    }

    /// Ends when a version other than `version` is in force.
    pub async fn changed(&self, version: u64) {
        loop {
            let published = self.published.notified();
            if self.current.load().version != version {
                return;
            }
            published.await;
        }
    }
}

/// The value of an `If-Match` field (RFC 9110 §13.1.1).
#[derive(Debug, PartialEq, Eq)]
pub enum EntityTags {
    /// `*`: whatever is in force.
    Any,
    /// One of these, quotes included; weak tags never match strongly, so they are left out.
    OneOf(Vec<String>),
}

impl EntityTags {
    /// Reads an `If-Match` value; what is not a strong entity tag allows nothing.
    pub fn parse(value: &str) -> Self {
        if value.trim() == "*" {
            return EntityTags::Any;
        }
        let tags = value.split(',').map(str::trim);
        EntityTags::OneOf(
            tags.filter(|tag| tag.starts_with('"') && tag.ends_with('"') && tag.len() >= 2)
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Whether the thing with this tag may be changed.
    pub fn allow(&self, tag: &str) -> bool {
        match self {
            EntityTags::Any => true,
            EntityTags::OneOf(tags) => tags.iter().any(|allowed| allowed == tag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(candidate: u32) -> Rules {
        let text = format!(
            r#"{{"engines":{{"stable":{{"kind":"vllm","url":"http://127.0.0.1:1"}},
                "candidate":{{"kind":"vllm","url":"http://127.0.0.1:2"}}}},"default_engine":"stable",
                "splits":[{{"name":"s","weights":{{"stable":90,"candidate":{candidate}}}}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_conflict_changes_nothing() {
        let store = Store::new(&rules(10), 7).unwrap();
        assert_eq!(store.entity_tag(&store.current()), "\"7-1\"");
        let stale = EntityTags::parse("\"7-0\"");
        let refused = store.publish(&rules(20), Some(&stale));
        assert!(matches!(refused, Err(Refused::Conflict { current }) if current == "\"7-1\""));
        assert_eq!(store.current().version, 1);
        let fits = EntityTags::parse("W/\"7-1\", \"7-1\"");
        assert_eq!(store.publish(&rules(20), Some(&fits)).unwrap().version, 2);
    }

    #[test]
    fn a_bad_set_of_rules_changes_nothing() {
        let store = Store::new(&rules(10), 7).unwrap();
        let mut bad = rules(10);
        bad.default_engine = "nowhere".parse().unwrap();
        assert!(matches!(store.publish(&bad, None), Err(Refused::Problems(all)) if all.len() == 1));
        assert_eq!(store.current().version, 1);
    }

    #[test]
    fn an_engine_that_stays_keeps_its_target() {
        let store = Store::new(&rules(10), 7).unwrap();
        let before = store.current();
        let after = store.publish(&rules(20), None).unwrap();
        let stable = before.rules.default_engine();
        assert!(Arc::ptr_eq(before.target(stable), after.target(stable)));
        assert_ne!(before.rules.hash(), after.rules.hash());
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

    #[test]
    fn if_match_is_read_as_the_rfc_says() {
        let check = |value: &str, tag: &str, allowed: bool| {
            assert_eq!(
                EntityTags::parse(value).allow(tag),
                allowed,
                "{value} for {tag}"
            );
        };
        check("*", "\"a\"", true);
        check("\"a\"", "\"a\"", true);
        check("\"b\" , \"a\"", "\"a\"", true);
        check("W/\"a\"", "\"a\"", false);
        check("a", "\"a\"", false);
        check("", "\"a\"", false);
    }
}
