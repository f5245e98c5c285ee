//! What was in force before, and who changed it.
//!
//! In: each published version. Out: the last ones, newest first, each with what it was made of, so that it can be put in force again.

use std::collections::VecDeque;
use std::sync::Arc;

use greylag_filters::layers::{Diff, Layers, Unfit};
use greylag_filters::units::Moment;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Author, Source, hex};
use crate::snapshot::Snapshot;

/// So many versions are kept.
pub const MOST: usize = 100;
/// So many bytes of the rules that they are made of.
const BYTES: usize = 8 << 20;

/// A version that was published.
#[derive(Debug)]
pub struct Entry {
    /// Its number.
    pub version: u64,
    /// The hash of the rules in force.
    pub hash: u64,
    /// When it was published.
    pub at: Moment,
    /// Who changed the rules.
    pub author: Author,
    /// What was changed, for people.
    pub what: String,
    /// What it changed of the rules in force.
    pub diff: Diff,
    /// The overlays that it had no place for.
    pub dropped: Vec<Unfit>,
    /// What the rules were made of.
    pub layers: Arc<Layers>,
    /// Where their base came from.
    pub source: Source,
    // the bytes that only this entry holds, near enough
    weight: usize,
}

/// A version as it is told of.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Version")]
pub struct Shown<'a> {
    /// Its number.
    pub version: u64,
    /// The hash of the rules in force.
    pub hash: String,
    /// When it was published.
    pub at: Moment,
    /// Who changed the rules.
    pub author: &'a str,
    /// Why, in the author's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// What was changed, for people.
    pub what: &'a str,
    /// Where the base came from.
    pub base: Source,
}

impl Entry {
    /// What is told of it.
    pub fn shown(&self) -> Shown<'_> {
        Shown {
            version: self.version,
            hash: hex(self.hash),
            at: self.at,
            author: &self.author.name,
            reason: self.author.reason.as_deref(),
            what: &self.what,
            base: self.source,
        }
    }

    /// Tells the process's own log of a change.
    pub(super) fn log(&self) {
        let (version, hash) = (self.version, hex(self.hash));
        let (author, reason) = (&*self.author.name, self.author.reason.as_deref());
        let what = &*self.what;
        tracing::info!(name: "greylag.rules.published", version, hash, author, reason, what, "other rules are in force");
        self.log_dropped();
    }

    /// The same of the overlays that it had no place for.
    pub(super) fn log_dropped(&self) {
        let version = self.version;
        for unfit in &self.dropped {
            let problems: Vec<String> = unfit.problems.iter().map(ToString::to_string).collect();
            let (overlay, why) = (unfit.id.as_str(), problems.join("; "));
            tracing::warn!(name: "greylag.rules.overlay_dropped", version, overlay, why, "an overlay has no place in the rules any more: it is gone");
        }
    }
}

/// What is told of a version beside the snapshot itself.
#[derive(Debug)]
pub struct Told {
    /// When.
    pub at: Moment,
    /// By whom.
    pub author: Author,
    /// What was changed, for people.
    pub what: String,
    /// What it changed of the rules in force.
    pub diff: Diff,
    /// The overlays that it had no place for.
    pub dropped: Vec<Unfit>,
}

/// The last versions.
#[derive(Clone, Debug, Default)]
pub struct History {
    // oldest first
    entries: VecDeque<Arc<Entry>>,
    // the sum of their weights
    bytes: usize,
}

impl History {
    /// Takes a version in; old ones make room.
    pub fn note(&mut self, snapshot: &Snapshot, told: Told) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            version: snapshot.version,
            hash: snapshot.rules.hash(),
            at: told.at,
            author: told.author,
            what: told.what,
            weight: weight(snapshot, &told.diff),
            diff: told.diff,
            dropped: told.dropped,
            layers: snapshot.layers.clone(),
            source: snapshot.source,
        });
        self.bytes += entry.weight;
        self.entries.push_back(entry.clone());
        while self.entries.len() > MOST || (self.bytes > BYTES && self.entries.len() > 1) {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.weight;
        }
        entry
    }

    /// The versions, newest first.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter().rev()
    }

    /// One of them.
    pub fn entry(&self, version: u64) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.version == version)
    }
}

// The layers as text, twice for what stands around each piece of it.
fn weight(snapshot: &Snapshot, diff: &Diff) -> usize {
    let length = |json: Result<String, serde_json::Error>| json.map_or(0, |json| json.len());
    let layers = &snapshot.layers;
    let base = length(serde_json::to_string(&layers.base));
    let overlays = length(serde_json::to_string(&layers.overlays));
    2 * (base + overlays + length(serde_json::to_string(diff)))
}
