//! What a change is measured against: what was, what the file says, and what is kept.
//!
//! In: a wish. Out: the layers that would come of it, and whether the process that comes after this one will find them.

use greylag_filters::layers::{Layers, Overlay};
use greylag_filters::rules::Rules;
use greylag_filters::units::Moment;

use super::history::{Entry, History};
use super::state::{Saved, StateFile};
use super::{Ask, Refused, Source, Wish, hex};
use crate::snapshot::Snapshot;

/// All that is known beside what is in force.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) history: History,
    // of the rules that the configuration file had when it could be used last; none while it never could
    pub(super) file: Option<u64>,
    // what was kept for rules that are not in force, since the file could not be used at the start
    pub(super) waiting: Option<Saved>,
    pub(super) state: Option<StateFile>,
    // what the state file should say and does not, since it could not be written
    pub(super) unsaved: Option<String>,
}

/// What a wish makes of the layers in force.
pub(super) struct Wished {
    pub(super) layers: Layers,
    pub(super) source: Source,
    pub(super) file: Option<Option<u64>>,
}

impl Ledger {
    /// What would come of a wish.
    pub(super) fn wished(&self, ask: &Ask, before: &Snapshot) -> Result<Wished, Refused> {
        let same = |layers: Layers| Wished {
            layers,
            source: before.source,
            file: None,
        };
        let layers = Layers::clone(&before.layers);
        match &ask.wish {
            Wish::Base(rules) => Ok(Wished {
                layers: Layers {
                    base: Rules::clone(rules).revealed(&before.layers.base),
                    ..layers
                },
                source: Source::Api,
                file: None,
            }),
            Wish::File(rules) => Ok(self.of_file(rules, layers)),
            Wish::Overlay(change, until) => Ok(same(layers.with(Overlay {
                change: change.clone(),
                owner: ask.author.name.clone(),
                reason: ask.author.reason.clone(),
                since: ask.at,
                until: *until,
            }))),
            Wish::Lift(id) => match layers.overlay(id) {
                Some(_) => Ok(same(layers.without(|one| one.change.id() == *id))),
                None => Err(Refused::NoOverlay),
            },
            Wish::Restore(version) => {
                let entry = self.history.entry(*version).ok_or(Refused::NoVersion)?;
                Ok(self.restored(entry, layers, ask.at))
            }
            Wish::Expire => Ok(same(layers.without(|one| one.has_ended(ask.at)))),
        }
    }

    // What waits for the file to be as it was comes back with it.
    fn of_file(&self, rules: &Rules, layers: Layers) -> Wished {
        let hash = rules.hash();
        let (base, source) = match self.waiting.as_ref().and_then(|saved| saved.base_on(hash)) {
            Some(base) => (base.clone(), Source::Api),
            None => (rules.clone(), Source::File),
        };
        Wished {
            layers: Layers { base, ..layers },
            source,
            file: Some(Some(hash)),
        }
    }

    // A latch stays: it is no one's to undo by the way. What should have ended since has ended.
    fn restored(&self, entry: &Entry, layers: Layers, at: Moment) -> Wished {
        let then = Layers::clone(&entry.layers);
        let is_files = self.file == Some(then.base.hash());
        Wished {
            layers: Layers {
                latches: layers.latches,
                ..then
            }
            .without(|one| one.has_ended(at)),
            source: match &self.waiting {
                Some(_) => Source::PassThrough,
                None if is_files => Source::File,
                None => Source::Api,
            },
            file: None,
        }
    }

    /// Whether what is in force outlives the process.
    pub(super) fn save(&mut self, next: &Snapshot) -> Option<bool> {
        let saved = self.kept(next);
        let state = self.state.as_mut()?;
        match state.write(&saved) {
            Ok(()) => {
                if self.unsaved.take().is_some() {
                    tracing::info!(name: "greylag.state.written_again", path = %state.path().display(), "the state file is up to date again");
                }
                Some(true)
            }
            Err(error) => {
                let why = format!("{}: {error}", state.path().display());
                if self.unsaved.replace(why).is_none() {
                    tracing::error!(name: "greylag.state.not_written", path = %state.path().display(), %error, "the state file cannot be written: what was changed is in force, and would be lost with the process");
                }
                Some(false)
            }
        }
    }

    fn kept(&self, next: &Snapshot) -> Saved {
        let layers = &next.layers;
        match &self.waiting {
            // The file could not be used at the start: what was kept for it waits.
            Some(waiting) => Saved {
                version: next.version,
                overlays: layers.overlays.clone(),
                ..waiting.clone()
            },
            None => Saved {
                file: self.file.map(hex),
                base: (next.source == Source::Api).then(|| layers.base.clone()),
                overlays: layers.overlays.clone(),
                latches: layers.latches.clone(),
                ..Saved::of(next.version)
            },
        }
    }
}

impl Saved {
    /// The base that counts before a file whose rules have this hash.
    pub(super) fn base_on(&self, file: u64) -> Option<&Rules> {
        let is_same = self.file.as_deref() == Some(hex(file).as_str());
        self.base.as_ref().filter(|_| is_same)
    }
}
