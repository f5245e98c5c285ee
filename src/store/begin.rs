//! Which rules a process begins with.
//!
//! In: the configuration file's rules, and what the process before this one has kept. Out: a store with its first version. What was
//! kept is never lost by a start that cannot use it, and whatever was not used is told of.

use std::sync::Arc;

use arc_swap::ArcSwap;
use greylag_filters::layers::{Compiled, Diff, Layers};
use greylag_filters::rules::{Problem, Rules};
use greylag_filters::units::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::history::{History, Told};
use super::ledger::Ledger;
use super::state::{Found, Saved, StateFile};
use super::{Author, Source, Store};
use crate::events::Events;
use crate::snapshot::Snapshot;

/// What a store begins with.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The rules of the configuration file; of one whose rules cannot be used, its default engine alone.
    pub rules: &'a Rules,
    /// Whether they are the file's.
    pub is_usable: bool,
    /// Where what is set through the API is kept.
    pub state: Option<StateFile>,
    /// Now.
    pub at: Moment,
    /// The number that tells this process from others.
    pub boot: u64,
}

impl Store {
    /// A store of these rules, which keeps nothing; `boot` names the process in entity tags.
    ///
    /// # Errors
    /// All problems of the rules, or of files that they name.
    pub fn new(rules: &Rules, boot: u64) -> Result<Self, Vec<Problem>> {
        Store::begin(Beginning {
            rules,
            is_usable: true,
            state: None,
            at: Moment::at(0),
            boot,
        })
    }

    /// A store that goes on where the process before this one has ended.
    ///
    /// # Errors
    /// All problems of the rules, or of files that they name.
    pub fn begin(beginning: Beginning<'_>) -> Result<Self, Vec<Problem>> {
        let Beginning {
            rules,
            is_usable,
            mut state,
            at,
            boot,
        } = beginning;
        let found = state.as_mut().map(StateFile::read);
        let Found { saved, faults } = found.unwrap_or_default();
        for fault in faults {
            tracing::error!(name: "greylag.state.unusable", fault, "a state file cannot be used");
        }
        let events = Arc::new(Events::default());
        let version = saved.as_ref().map_or(0, |saved| saved.version) + 1;
        let make = |layers: Layers, source| match first(layers, source, at) {
            Ok((compiled, layers)) => {
                let layers = (Arc::new(layers), source);
                let Compiled { rules, unfit } = compiled;
                let snapshot = Snapshot::new(version, rules, layers, None, &events);
                snapshot.map(|snapshot| (snapshot, unfit))
            }
            Err(problems) => Err(problems),
        };
        let kept = saved.clone().unwrap_or_else(|| Saved::of(0));
        let layers = |base: &Rules| Layers {
            base: base.clone(),
            overlays: kept.overlays.clone(),
            latches: kept.latches.clone(),
        };
        let (snapshot, dropped) = if !is_usable {
            make(layers(rules), Source::PassThrough)?
        } else {
            match kept
                .base_on(rules.hash())
                .map(|base| make(layers(base), Source::Api))
            {
                Some(Ok(made)) => made,
                Some(Err(problems)) => {
                    gone(state.as_mut(), &problems);
                    make(layers(rules), Source::File)?
                }
                None => {
                    if kept.base.is_some() {
                        tracing::warn!(name: "greylag.state.base_gone", "the configuration file has other rules than when rules were set through the API: the file's are in force");
                    }
                    make(layers(rules), Source::File)?
                }
            }
        };
        let mut ledger = Ledger {
            history: History::default(),
            file: is_usable.then(|| rules.hash()),
            waiting: (!is_usable).then_some(kept),
            state,
            unsaved: None,
        };
        ledger.save(&snapshot);
        let told = Told {
            at,
            author: Author::own(None),
            what: what(saved.as_ref(), snapshot.source, at),
            diff: Diff::default(),
            dropped,
        };
        let snapshot = Arc::new(snapshot);
        ledger.history.note(&snapshot, told).log_dropped();
        Ok(Store {
            current: ArcSwap::new(snapshot),
            ledger: Mutex::new(ledger),
            published: Notify::new(),
            boot,
            events,
        })
    }
}

// What lies on rules that stand in for others waits for those.
fn first(layers: Layers, source: Source, at: Moment) -> Result<(Compiled, Layers), Vec<Problem>> {
    let layers = layers.without(|one| one.has_ended(at));
    if source == Source::PassThrough {
        return Ok((Layers::of(layers.base.clone()).compile()?, layers));
    }
    let compiled = layers.compile()?;
    let layers = layers.without_unfit(&compiled.unfit);
    Ok((compiled, layers))
}

// Rules that were good once and no longer are: another version of this program wrote them, or a file that they name is gone.
fn gone(state: Option<&mut StateFile>, problems: &[Problem]) {
    let kept = state.map(StateFile::keep).unwrap_or_default();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let problems = problems.join("; ");
    tracing::error!(name: "greylag.state.base_unusable", problems, kept, "the rules that were set through the API can no longer be used: the file's are in force");
}

fn what(saved: Option<&Saved>, source: Source, at: Moment) -> String {
    let after = saved.map_or(String::new(), |saved| {
        let ended = saved.overlays.iter().filter(|one| one.has_ended(at));
        let ended = ended.map(|one| format!(", without {} that has ended", one.change.id()));
        format!(
            ", after version {}{}",
            saved.version,
            ended.collect::<String>()
        )
    });
    match source {
        Source::File => format!("start with the file's rules{after}"),
        Source::Api => format!("start with the rules that were set through the API{after}"),
        Source::PassThrough => {
            format!(
                "start with the default engine alone{after}, since the file's rules cannot be used"
            )
        }
    }
}
