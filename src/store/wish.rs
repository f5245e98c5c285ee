//! What somebody wants changed, and what becomes of it.

use std::fmt;
use std::sync::Arc;

use greylag_filters::layers::{Change, Diff, OverlayId, Unfit};
use greylag_filters::rules::{Problem, Rules};
use greylag_filters::units::Moment;
use schemars::JsonSchema;
use serde::Serialize;

use super::tags::EntityTags;
use crate::snapshot::Snapshot;

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
    /// Nothing is to be done.
    Nothing,
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

impl Wish {
    /// What it is, for people.
    pub(super) fn what(&self, before: &Snapshot, next: &Snapshot, at: Moment) -> String {
        match self {
            Wish::Base(_) => "rules replaced".to_owned(),
            Wish::File(_) if next.source == Source::Api => {
                "the file can be used again, and is the one that these rules were put on".to_owned()
            }
            Wish::File(_) => "the configuration file has new rules".to_owned(),
            Wish::Overlay(change, _) => change.what(),
            Wish::Lift(id) => format!("overlay {id} lifted"),
            Wish::Restore(version) => format!("version {version} restored"),
            Wish::Expire => {
                let ended: Vec<String> = before.layers.ended(at).map(|id| id.to_string()).collect();
                format!("ended: {}", ended.join(", "))
            }
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
