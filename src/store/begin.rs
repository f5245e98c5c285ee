//! Which rules a process begins with.
//!
//! In: the configuration file's rules, and what the process before this one has kept. Out: a store with its first version. What was
//! kept is never lost by a start that cannot use it, and whatever was not used is told of.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use greylag_filters::layers::{Compiled, Diff, Layers, Unfit};
use greylag_filters::rules::{Problem, Rules};
use greylag_filters::units::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::history::{History, Told};
use super::ledger::Ledger;
use super::state::{Found, Saved, StateFile};
use super::{Author, Source, Store, hex};
use crate::events::Events;
use crate::snapshot::Snapshot;

/// What a store begins with.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The rules of the configuration file; of one whose rules cannot be used, its default engine alone.
    pub rules: &'a Rules,
    /// Whether they are the file's.
    pub is_usable: bool,
    /// What tells the file's rules from others: their hash, or something of a text that cannot be used.
    pub file: String,
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
            file: hex(rules.hash()),
            state: None,
            at: Moment::at(0),
            boot,
        })
    }

    /// A store that goes on where the process before this one has ended.
    ///
    /// # Errors
    /// All problems of the rules, or of files that they name.
    pub fn begin(mut beginning: Beginning<'_>) -> Result<Self, Vec<Problem>> {
        let found = beginning.state.as_mut().map(StateFile::read);
        let Found { saved, faults } = found.unwrap_or_default();
        for fault in faults {
            tracing::error!(name: "greylag.state.unusable", fault, "a state file cannot be used");
        }
        let events = Arc::new(Events::default());
        let kept = saved.clone().unwrap_or_else(|| Saved::of(0));
        let First { snapshot, dropped } = beginning.first(&kept, &events)?;
        let told = Told {
            at: beginning.at,
            author: Author::own(None),
            what: what(saved.as_ref(), snapshot.source, beginning.at),
            diff: Diff::default(),
            dropped,
        };
        let snapshot = Arc::new(snapshot);
        let mut history = History::default();
        history.note(&snapshot, told).log_dropped();
        let state_path = beginning
            .state
            .as_ref()
            .map(|state| state.path().to_owned());
        let store = Store {
            current: ArcSwap::new(snapshot.clone()),
            history: ArcSwap::from_pointee(history),
            unsaved: ArcSwapOption::empty(),
            state_path,
            ledger: Mutex::new(Ledger {
                file: beginning.file,
                waiting: (snapshot.source == Source::PassThrough).then_some(kept),
                state: beginning.state,
            }),
            published: Notify::new(),
            boot: beginning.boot,
            events,
        };
        store.save(&mut store.ledger.lock(), &snapshot);
        Ok(store)
    }
}

// The first snapshot, and what it has no place for.
struct First {
    snapshot: Snapshot,
    dropped: Vec<Unfit>,
}

impl Beginning<'_> {
    // What was put on this very file counts before it.
    fn first(&mut self, kept: &Saved, events: &Arc<Events>) -> Result<First, Vec<Problem>> {
        if let Some(base) = kept.base_on(&self.file) {
            match self.make(base, Source::Api, kept, events) {
                Ok(first) => return Ok(first),
                Err(problems) => gone(self.state.as_mut(), &problems),
            }
        } else if kept.base.is_some() && self.is_usable {
            tracing::warn!(name: "greylag.state.base_gone", "the configuration file has other rules than when rules were set through the API: the file's are in force");
        }
        let source = match self.is_usable {
            true => Source::File,
            false => Source::PassThrough,
        };
        self.make(self.rules, source, kept, events)
    }

    fn make(
        &self,
        base: &Rules,
        source: Source,
        kept: &Saved,
        events: &Arc<Events>,
    ) -> Result<First, Vec<Problem>> {
        let layers = Layers {
            base: base.clone(),
            overlays: Vec::new(),
            latches: kept.latches.clone(),
        };
        // Of two that change the same the later counts, as if they had been laid.
        let layers = kept.overlays.iter().cloned().fold(layers, Layers::with);
        let (compiled, layers) = compiled(layers, source, self.at)?;
        let layers = (Arc::new(layers), source);
        Ok(First {
            snapshot: Snapshot::new(
                kept.version.saturating_add(1),
                compiled.rules,
                layers,
                None,
                events,
            )?,
            dropped: compiled.unfit,
        })
    }
}

// What lies on rules that stand in for others waits for those.
fn compiled(
    layers: Layers,
    source: Source,
    at: Moment,
) -> Result<(Compiled, Layers), Vec<Problem>> {
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
