//! The configuration file while the process runs: its rules are put in force when they change.
//!
//! In: looks at the file, and SIGHUP. Out: a new base, or a report of what is wrong with the file, which then changes nothing. A file that
//! is touched, or says the same in other words, changes nothing either: what was set through the API stays.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use greylag_filters::units::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::{Ask, Refused, Store, Wish};
use crate::config::{Config, Fault, Origin};
use crate::files::{Stamp, stamp};

/// How often the file is looked at. One that is being written is left alone until it is the same at two looks in a row.
const PAUSE: Duration = Duration::from_millis(500);
/// At each so many looks a file is tried again that failed for another that its rules name.
const AGAIN: u64 = 10;

/// The configuration file of this process.
#[derive(Debug)]
pub struct RulesFile {
    origin: Origin,
    asked: Notify,
    known: Mutex<Known>,
    // whether what is wrong is beneath the file: files that its rules name, which may come later than it
    is_waiting: AtomicBool,
}

/// What is known of the file.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What is wrong with it, a line each; empty if it can be used.
    pub problems: Vec<String>,
    /// When it was read last.
    pub read_at: Option<Moment>,
    /// What it says beside rules that is other than at the start, by the first key: it needs a restart.
    pub needs_restart: Vec<String>,
}

/// What a look at the file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// Its rules are in force.
    Changed,
    /// Its rules are the ones it had.
    Same,
    /// It cannot be used.
    Unusable,
}

impl RulesFile {
    /// This file, which was read then, and had these problems.
    pub fn new(origin: Origin, problems: Vec<String>, at: Moment) -> Arc<RulesFile> {
        Arc::new(RulesFile {
            origin,
            asked: Notify::new(),
            is_waiting: AtomicBool::new(false),
            known: Mutex::new(Known {
                problems,
                read_at: Some(at),
                ..Known::default()
            }),
        })
    }

    /// Its path.
    pub fn path(&self) -> &PathBuf {
        &self.origin.path
    }

    /// Whether nothing is wrong with it.
    pub fn is_usable(&self) -> bool {
        self.known.lock().problems.is_empty()
    }

    /// What is known of it.
    pub fn known(&self) -> Known {
        self.known.lock().clone()
    }

    /// Has it read at once, as SIGHUP does.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// Looks at the file now and then, for as long as it is polled; `now` says when it is, and `told` hears what came of a look.
    pub async fn watch(
        self: Arc<Self>,
        store: Arc<Store>,
        now: impl Fn() -> Moment,
        told: impl Fn(Looked),
    ) {
        let mut look = interval(PAUSE);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut read = self.origin.stamp;
        let mut seen = read;
        let mut looks = 0u64;
        loop {
            looks += 1;
            let is_asked = tokio::select! {
                _ = look.tick() => false,
                () = self.asked.notified() => true,
            };
            let is_again = looks.is_multiple_of(AGAIN) && self.is_waiting.load(Ordering::Relaxed);
            let is_asked = is_asked || is_again;
            let (file, store, at) = (self.clone(), store.clone(), now());
            // Looking, reading and compiling must not hold up the API.
            let work = move || file.look(&store, at, is_asked, read, seen);
            let Ok((here, looked)) = tokio::task::spawn_blocking(work).await else {
                tracing::error!(name: "greylag.rules.file_look_failed", file = %self.path().display(), "a look at the configuration file has failed: Greylag has made a mistake, and waits for the next change");
                read = seen;
                continue;
            };
            seen = here;
            // One that was written while it was read shows another stamp at the next look, or the same one twice.
            if let Some(looked) = looked {
                read = here;
                told(looked);
            }
        }
    }

    // The stamp that is there, and what came of it if it was read: it is another than the one that was `read` last, and the one
    // that was `seen` last, so that nobody is writing it.
    fn look(
        &self,
        store: &Store,
        at: Moment,
        is_asked: bool,
        read: Stamp,
        seen: Stamp,
    ) -> (Stamp, Option<Looked>) {
        let here = stamp(self.path());
        let is_due = is_asked || (here != read && here == seen);
        let looked = is_due.then(|| self.take(store, at, here)).flatten();
        (here, looked)
    }

    // Puts its rules in force. None: it has changed meanwhile.
    fn take(&self, store: &Store, at: Moment, expected: Stamp) -> Option<Looked> {
        let loaded = Config::load_with(self.path(), &self.origin.environment);
        if stamp(self.path()) != expected {
            return None;
        }
        let looked = self.judge(store, loaded, at);
        self.known.lock().read_at = Some(at);
        looked
    }

    fn judge(&self, store: &Store, loaded: Result<Config, Fault>, at: Moment) -> Option<Looked> {
        let config = match loaded {
            Ok(config) => config,
            Err(fault) => {
                let lines = fault.to_string();
                return Some(self.unusable(lines.lines().map(str::to_owned).collect()));
            }
        };
        self.compare(&config);
        if store.is_files(&config.rules) {
            self.usable();
            tracing::info!(name: "greylag.rules.file_same", file = %self.path().display(), "the configuration file was read again, and has the rules that it had");
            return Some(Looked::Same);
        }
        let wish = Wish::File(Box::new(config.rules));
        match store.change(Ask::own(wish, at)) {
            Ok(_) => {
                self.usable();
                Some(Looked::Changed)
            }
            Err(Refused::Problems(problems)) => {
                let file = self.path().display();
                let lines = problems.iter().map(|problem| format!("{file}: {problem}"));
                let looked = self.unusable(lines.collect());
                self.is_waiting.store(true, Ordering::Relaxed);
                Some(looked)
            }
            // Only what is asked on a condition, or by a name, is refused otherwise.
            Err(
                Refused::Conflict { .. }
                | Refused::NoOverlay
                | Refused::NoVersion
                | Refused::Nothing,
            ) => None,
        }
    }

    fn unusable(&self, problems: Vec<String>) -> Looked {
        self.is_waiting.store(false, Ordering::Relaxed);
        let mut known = self.known.lock();
        // One that is tried again is told of once.
        if known.problems != problems {
            let (file, all) = (self.path().display(), problems.join("; "));
            tracing::error!(name: "greylag.rules.file_unusable", %file, problems = all, "the configuration file cannot be used: what was in force stays");
            known.problems = problems;
        }
        Looked::Unusable
    }

    fn usable(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
        self.known.lock().problems.clear();
    }

    fn compare(&self, config: &Config) {
        let changed = self.origin.changed(config);
        let mut known = self.known.lock();
        if changed != known.needs_restart {
            if !changed.is_empty() {
                let (file, keys) = (self.path().display(), changed.join(", "));
                tracing::warn!(name: "greylag.config.needs_restart", %file, keys, "the configuration file has changed where a restart is needed");
            }
            known.needs_restart = changed;
        }
    }
}
