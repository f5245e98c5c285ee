//! The rules in force, and every change of them: who wins, and what is kept.
//!
//! In: what somebody wants changed, on the condition that nobody else has changed it. Out: one more version, whole, or a refusal that
//! has changed nothing. A change is compiled, written to the state file and then put in force, in this order, one at a time; readers
//! wait for none of it.

pub mod begin;
pub mod file;
pub mod history;
mod ledger;
pub mod state;
mod tags;
pub mod tend;
mod wish;

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use greylag_filters::layers::{Diff, Unfit};
use greylag_filters::rules::Rules;
use greylag_filters::units::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::events::{Events, Kind};
use crate::snapshot::Snapshot;
use crate::switch::Turned;
pub use history::{Entry, Shown};
use history::{History, Told};
use ledger::{Ledger, Wished};
pub use tags::EntityTags;
pub use wish::{Ask, Author, Done, OWN_NAME, Refused, Source, Wish};

/// Holds the snapshot in force and publishes new ones.
#[derive(Debug)]
pub struct Store {
    current: ArcSwap<Snapshot>,
    history: ArcSwap<History>,
    // what the state file should say and does not, and why
    unsaved: ArcSwapOption<String>,
    state_path: Option<PathBuf>,
    // Changing is read-compare-write, and waits for the disk. Those who read never take this lock.
    ledger: Mutex<Ledger>,
    published: Notify,
    // Tells this process's versions from those of the process before it.
    boot: u64,
    events: Arc<Events>,
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
        self.history.load().entries().cloned().collect()
    }

    /// One of the last versions.
    pub fn version(&self, version: u64) -> Option<Arc<Entry>> {
        self.history.load().entry(version).cloned()
    }

    /// Whether these are the rules that the configuration file had when it could be used last. Waits for changes.
    pub fn is_files(&self, rules: &Rules) -> bool {
        self.ledger.lock().file == hex(rules.hash())
    }

    /// Whether an overlay that is in force should have ended by now.
    pub fn has_ended(&self, now: Moment) -> bool {
        self.current.load().layers.ended(now).next().is_some()
    }

    /// What the state file should say and does not, and why.
    pub fn unsaved(&self) -> Option<Arc<String>> {
        self.unsaved.load_full()
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
        let is_saved = self.save(&mut ledger, &next.snapshot);
        let told = Told {
            at: ask.at,
            author: ask.author,
            what,
            diff: next.diff.clone(),
            dropped: next.dropped.clone(),
        };
        let snapshot = Arc::new(next.snapshot);
        self.publish(&snapshot, told);
        Ok(Done {
            snapshot,
            diff: next.diff,
            dropped: next.dropped,
            is_saved,
        })
    }

    fn publish(&self, next: &Arc<Snapshot>, told: Told) {
        let before = self.current();
        // What goes off does so before the rules that say it are seen, and what goes on after.
        let mut turned = next.switches.turn_off(&before.switches);
        self.current.store(next.clone());
        turned.extend(next.switches.turn_on(&before.switches));
        let mut history = History::clone(&self.history.load());
        let entry = history.note(next, told);
        self.history.store(Arc::new(history));
        entry.log();
        self.events.tell(Kind::Version, &entry.shown());
        for switch in turned {
            self.events.tell(Kind::Switch, &switch);
        }
        self.published.notify_waiters();
    }

    // Whether what is in force outlives the process; none where it never does.
    fn save(&self, ledger: &mut Ledger, next: &Snapshot) -> Option<bool> {
        let path = self.state_path.as_ref()?.display();
        match ledger.save(next)? {
            Ok(()) => {
                if self.unsaved.swap(None).is_some() {
                    tracing::info!(name: "greylag.state.written_again", %path, "the state file is up to date again");
                }
                Some(true)
            }
            Err(error) => {
                let why = Arc::new(format!("{path}: {error}"));
                if self.unsaved.swap(Some(why)).is_none() {
                    tracing::error!(name: "greylag.state.not_written", %path, %error, "the state file cannot be written: what was changed is in force, and would be lost with the process");
                }
                Some(false)
            }
        }
    }

    /// Turns off all that disturbs exchanges, for those that run too; what was on. Waits for nobody's change.
    pub fn reset(&self) -> Vec<Turned> {
        let off = self.current().switches.reset();
        for turned in &off {
            self.events.tell(Kind::Switch, turned);
        }
        off
    }

    /// Where what is set through the API is kept, if it is.
    pub fn state_path(&self) -> Option<&PathBuf> {
        self.state_path.as_ref()
    }

    /// Writes the state file once more, should it not have been possible before. Waits for the disk.
    pub fn save_again(&self) {
        let mut ledger = self.ledger.lock();
        if self.unsaved.load().is_some() {
            self.save(&mut ledger, &self.current());
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
        } = ledger.wished(ask, &before, &self.history.load())?;
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
            before.version.saturating_add(1),
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
    file: Option<String>,
}

/// A hash of rules as it is shown.
pub fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
