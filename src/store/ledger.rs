//! What a change is measured against: what was, what the file says, and what is kept.
//!
//! In: a wish. Out: the layers that would come of it, and whether the process that comes after this one will find them.

use std::io;

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
    // what tells the rules that the configuration file had when they were taken, or could not be, from others
    pub(super) file: String,
    // what was kept for rules that are not in force, since the file could not be used at the start
    pub(super) waiting: Option<Saved>,
    pub(super) state: Option<StateFile>,
}

/// What a wish makes of the layers in force.
pub(super) struct Wished {
    pub(super) layers: Layers,
    pub(super) source: Source,
    pub(super) file: Option<String>,
}

impl Ledger {
    /// What would come of a wish.
    pub(super) fn wished(
        &self,
        ask: &Ask,
        before: &Snapshot,
        history: &History,
    ) -> Result<Wished, Refused> {
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
                let entry = history.entry(*version).ok_or(Refused::NoVersion)?;
                Ok(self.restored(entry, layers, ask.at))
            }
            Wish::Expire if layers.ended(ask.at).next().is_none() => Err(Refused::Nothing),
            Wish::Expire => Ok(same(layers.without(|one| one.has_ended(ask.at)))),
        }
    }

    // What waits for the file to be as it was comes back with it.
    fn of_file(&self, rules: &Rules, layers: Layers) -> Wished {
        let file = hex(rules.hash());
        let waiting = self.waiting.as_ref();
        let (base, source) = match waiting.and_then(|saved| saved.base_on(&file)) {
            Some(base) => (base.clone(), Source::Api),
            None => (rules.clone(), Source::File),
        };
        Wished {
            layers: Layers { base, ..layers },
            source,
            file: Some(file),
        }
    }

    // A latch stays: it is no one's to undo by the way. What should have ended since has ended.
    fn restored(&self, entry: &Entry, layers: Layers, at: Moment) -> Wished {
        let then = Layers::clone(&entry.layers);
        let is_files = self.file == hex(then.base.hash());
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

    /// Writes what is in force to the state file, if there is one.
    pub(super) fn save(&mut self, next: &Snapshot) -> Option<io::Result<()>> {
        let saved = self.kept(next);
        Some(self.state.as_mut()?.write(&saved))
    }

    fn kept(&self, next: &Snapshot) -> Saved {
        let layers = &next.layers;
        let overlays = layers.overlays.iter();
        let overlays = overlays.filter(|one| one.change.is_kept()).cloned();
        let overlays: Vec<Overlay> = overlays.collect();
        match &self.waiting {
            // The file could not be used at the start: what was kept for it waits.
            Some(waiting) => Saved {
                version: next.version,
                overlays,
                ..waiting.clone()
            },
            None => Saved {
                file: Some(self.file.clone()),
                base: (next.source == Source::Api).then(|| layers.base.clone()),
                overlays,
                latches: layers.latches.clone(),
                ..Saved::of(next.version)
            },
        }
    }
}

impl Saved {
    /// The base that counts before a file of which this tells its rules from others.
    pub(super) fn base_on(&self, file: &str) -> Option<&Rules> {
        let is_same = self.file.as_deref() == Some(file);
        self.base.as_ref().filter(|_| is_same)
    }
}
