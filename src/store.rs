//! The rules in force, and every change of them: who wins, and what is kept.
//!
//! In: what somebody wants changed, on the condition that nobody else has changed it. Out: one more version, whole, or a refusal that
//! has changed nothing. A change is compiled, written to the state file and then put in force, in this order, one at a time; readers
//! wait for none of it.

pub mod begin;
pub mod file;
mod history;
mod ledger;
pub mod state;
mod tags;
pub mod tend;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use greylag_filters::layers::{Change, Diff, OverlayId, Unfit};
use greylag_filters::rules::{Problem, Rules};
use greylag_filters::units::Moment;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Notify;

use crate::events::{Events, Kind};
use crate::snapshot::{Snapshot, Turned};
use history::Told;
pub use history::{Entry, Shown};
use ledger::{Ledger, Wished};
pub use tags::EntityTags;

/// Holds the snapshot in force and publishes new ones.
#[derive(Debug)]
pub struct Store {
    current: ArcSwap<Snapshot>,
    // Changing is read-compare-write; readers never take this lock.
    ledger: Mutex<Ledger>,
    published: Notify,
    // Tells this process's versions from those of the process before it.
    boot: u64,
    events: Arc<Events>,
}

/// Where a base came from.
#[derive(Debug, Clone, Copy, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The configuration file.
    File,
    /// The API.
    Api,
    /// Nowhere: the default engine alone, since the file's rules could not be used at the start.
    PassThrough,
}

/// Who changes rules, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The name: a token's, or what stands for one.
    pub name: String,
    /// Why, in the author's words.
    pub reason: Option<String>,
}

/// What somebody wants changed.
#[derive(Debug)]
pub enum Wish {
    /// These rules for a base.
    Base(Box<Rules>),
    /// These rules for a base, since the configuration file has them now.
    File(Box<Rules>),
    /// This on top of the base, until then.
    Overlay(Change, Option<Moment>),
    /// No longer this overlay.
    Lift(OverlayId),
    /// The layers of this version.
    Restore(u64),
    /// No longer what should have ended by now.
    Expire,
}

/// A wish, with what goes with it.
#[derive(Debug)]
pub struct Ask {
    /// What is wanted.
    pub wish: Wish,
    /// By whom.
    pub author: Author,
    /// Only if this is in force (`If-Match`).
    pub expected: Option<EntityTags>,
    /// When.
    pub at: Moment,
}

/// What became of a wish.
#[derive(Debug)]
pub struct Done {
    /// What is in force, or would be.
    pub snapshot: Arc<Snapshot>,
    /// What has changed of the rules in force.
    pub diff: Diff,
    /// The overlays that have no place any more, and are gone.
    pub dropped: Vec<Unfit>,
    /// Whether it outlives the process; none where there is no state file, or nothing was changed.
    pub is_saved: Option<bool>,
}

/// Why a wish was refused.
#[derive(Debug)]
pub enum Refused {
    /// The rules in force are not those the caller had edited.
    Conflict {
        /// The entity tag of the rules in force.
        current: String,
    },
    /// The rules do not compile, or the overlay does not fit; all problems at once.
    Problems(Vec<Problem>),
    /// There is no such overlay.
    NoOverlay,
    /// The history does not have this version.
    NoVersion,
}

/// Who writes of himself.
pub const OWN_NAME: &str = "greylag";

impl Author {
    /// Greylag itself.
    pub fn own(reason: Option<String>) -> Author {
        Author {
            name: OWN_NAME.to_owned(),
            reason,
        }
    }
}

impl Ask {
    /// A wish of Greylag's own, which nobody has to answer for.
    pub fn own(wish: Wish, at: Moment) -> Ask {
        Ask {
            wish,
            author: Author::own(None),
            expected: None,
            at,
        }
    }
}

impl Store {
    /// The snapshot in force. An exchange calls this once.
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// What has happened.
    pub fn events(&self) -> &Arc<Events> {
        &self.events
    }

    /// The entity tag of a snapshot: the process and the version (RFC 9110 §8.8.3), quotes included.
    pub fn entity_tag(&self, snapshot: &Snapshot) -> String {
        format!("\"{:x}-{}\"", self.boot, snapshot.version)
    }

    /// The last versions, newest first.
    pub fn history(&self) -> Vec<Arc<Entry>> {
        self.ledger.lock().history.entries().cloned().collect()
    }

    /// One of the last versions.
    pub fn version(&self, version: u64) -> Option<Arc<Entry>> {
        self.ledger.lock().history.entry(version).cloned()
    }

    /// Whether these are the rules that the configuration file had when it could be used last.
    pub fn is_files(&self, rules: &Rules) -> bool {
        self.ledger.lock().file == Some(rules.hash())
    }

    /// Whether an overlay that is in force should have ended by now.
    pub fn has_ended(&self, now: Moment) -> bool {
        let layers = &self.current.load().layers;
        layers.overlays.iter().any(|one| one.has_ended(now))
    }

    /// What the state file should say and does not, and why.
    pub fn unsaved(&self) -> Option<String> {
        self.ledger.lock().unsaved.clone()
    }

    /// What would become of a wish; nothing is changed.
    ///
    /// # Errors
    /// As [`Store::change`].
    pub fn try_out(&self, ask: &Ask) -> Result<Done, Refused> {
        let ledger = self.ledger.lock();
        let next = self.next(&ledger, ask)?;
        let (snapshot, dropped, diff) = (Arc::new(next.snapshot), next.dropped, next.diff);
        Ok(Done {
            snapshot,
            diff,
            dropped,
            is_saved: None,
        })
    }

    /// Puts a wish in force as the next version. Waits for the disk.
    ///
    /// # Errors
    /// Why not; what is in force then stays.
    pub fn change(&self, ask: Ask) -> Result<Done, Refused> {
        let mut ledger = self.ledger.lock();
        let next = self.next(&ledger, &ask)?;
        let what = ask.wish.what(&self.current(), &next.snapshot, ask.at);
        if let Some(file) = next.file {
            ledger.file = file;
        }
        if next.snapshot.source != Source::PassThrough {
            ledger.waiting = None;
        }
        // What is in force must be what the next process finds, so it is written first.
        let is_saved = ledger.save(&next.snapshot);
        let told = Told {
            at: ask.at,
            author: ask.author,
            what,
            diff: next.diff.clone(),
            dropped: next.dropped.clone(),
        };
        let snapshot = Arc::new(next.snapshot);
        self.publish(&mut ledger, &snapshot, told);
        Ok(Done {
            snapshot,
            diff: next.diff,
            dropped: next.dropped,
            is_saved,
        })
    }

    fn publish(&self, ledger: &mut Ledger, next: &Arc<Snapshot>, told: Told) {
        let before = self.current.swap(next.clone());
        let turned = next.settle(&before);
        let entry = ledger.history.note(next, told);
        entry.log();
        self.events.tell(Kind::Version, &entry.shown());
        for switch in turned {
            self.events.tell(Kind::Switch, &switch);
        }
        self.published.notify_waiters();
    }

    /// Turns off all that disturbs exchanges, for those that run too; what was on.
    pub fn reset(&self) -> Vec<Turned> {
        // Not while rules are published, which turn switches as they say.
        let _ledger = self.ledger.lock();
        let off = self.current().reset();
        for turned in &off {
            self.events.tell(Kind::Switch, turned);
        }
        off
    }

    /// Where what is set through the API is kept, if it is.
    pub fn state_path(&self) -> Option<String> {
        let ledger = self.ledger.lock();
        let state = ledger.state.as_ref()?;
        Some(state.path().display().to_string())
    }

    /// Writes the state file once more, should it not have been possible before.
    pub fn save_again(&self) {
        let mut ledger = self.ledger.lock();
        if ledger.unsaved.is_some() {
            ledger.save(&self.current());
        }
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

    // What would be published.
    fn next(&self, ledger: &Ledger, ask: &Ask) -> Result<Next, Refused> {
        let before = self.current();
        let tag = self.entity_tag(&before);
        if let Some(expected) = &ask.expected
            && !expected.allow(&tag)
        {
            return Err(Refused::Conflict { current: tag });
        }
        let Wished {
            layers,
            source,
            file,
        } = ledger.wished(ask, &before)?;
        let asked = match &ask.wish {
            Wish::Overlay(change, _) => Some(change.id()),
            _ => None,
        };
        let compiled = match source {
            // What lies on rules that stand in for others waits for those; what is asked for must have a place now.
            Source::PassThrough => {
                let now = layers.clone();
                now.without(|one| Some(one.change.id()) != asked).compile()
            }
            Source::File | Source::Api => layers.compile(),
        };
        let compiled = compiled.map_err(Refused::Problems)?;
        let dropped = compiled.unfit;
        if let Some(unfit) = dropped
            .iter()
            .find(|unfit| Some(&unfit.id) == asked.as_ref())
        {
            return Err(Refused::Problems(unfit.problems.clone()));
        }
        let layers = Arc::new(layers.without_unfit(&dropped));
        let diff = Diff::of(before.rules.written(), compiled.rules.written());
        let snapshot = Snapshot::new(
            before.version + 1,
            compiled.rules,
            (layers, source),
            Some(&before),
            &self.events,
        );
        Ok(Next {
            snapshot: snapshot.map_err(Refused::Problems)?,
            diff,
            dropped,
            file,
        })
    }
}

// What is published next.
struct Next {
    snapshot: Snapshot,
    diff: Diff,
    dropped: Vec<Unfit>,
    // the hash of the file's rules, where they are news
    file: Option<Option<u64>>,
}

impl Wish {
    // What it is, for people.
    fn what(&self, before: &Snapshot, next: &Snapshot, at: Moment) -> String {
        match self {
            Wish::Base(_) => "rules replaced".to_owned(),
            Wish::File(_) if next.source == Source::Api => {
                "the file can be used again, and is the one that these rules were put on".to_owned()
            }
            Wish::File(_) => "the configuration file has new rules".to_owned(),
            Wish::Overlay(change, _) => change.what(),
            Wish::Lift(id) => format!("overlay {id} lifted"),
            Wish::Restore(version) => format!("version {version} restored"),
            Wish::Expire => format!("ended: {}", before.layers.ended(at)),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::File => "file",
            Source::Api => "api",
            Source::PassThrough => "pass_through",
        })
    }
}

/// A hash of rules as it is shown.
pub fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
