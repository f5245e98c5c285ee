//! A configuration's text as a tree: its keys and values, and where each stands.
//!
//! In: a YAML text, and single values that the environment sets. Out: where the value of a path such as
//! `rules.splits[0].weights.candidate` stands, and a tree from which single entries can be taken out, so that reading can go on
//! behind what is wrong. Values are kept as they are written; what they mean is for others to read.

mod node;
mod plant;

use std::collections::HashMap;
use std::rc::Rc;

use greylag_filters::written::start;
use serde_saphyr::Location;

/// Line and column, both from 1.
pub(super) type Place = (u64, u64);

/// The place that a location of the parser means.
pub(super) fn place(location: Location) -> Place {
    (location.line(), location.column())
}

/// Where something was said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Nowhere: by default, or by what is not there.
    Nowhere,
    /// In the file.
    File(Place),
    /// In the variable of this name.
    Variable(Rc<str>),
}

/// How an entry is reached from the one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// It is the whole tree.
    Root,
    /// By a map's key.
    Key(String),
    /// By its place in a list.
    Index(usize),
}

/// Which entry of a tree: its place in the order of reading.
pub(super) type Id = usize;

/// A value, and the key that it has.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) step: Step,
    /// As paths of problems are written.
    pub(super) path: String,
    pub(super) above: Id,
    pub(super) key: Origin,
    pub(super) value: Origin,
    pub(super) kind: Kind,
    /// Whether it was taken out.
    pub(super) is_out: bool,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Kind {
    Map(Vec<Id>),
    List(Vec<Id>),
    Leaf(Leaf),
}

/// A single value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Leaf {
    /// A text, whatever it looks like.
    Text(String),
    /// A number, a truth value or nothing: how it is written, and how a message calls it.
    Plain { text: String, found: String },
}

impl Kind {
    /// What a message says was found: `"text"`, `the number 5`, `a list`.
    pub(super) fn found(&self) -> String {
        match self {
            Kind::Map(_) => "a map".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Leaf(Leaf::Text(text)) => format!("{:?}", start(text)),
            Kind::Leaf(Leaf::Plain { found, .. }) => found.clone(),
        }
    }
}

/// A text, read.
#[derive(Debug)]
pub(super) struct Tree {
    entries: Vec<Entry>,
    // by path; of a key that is written twice the first
    paths: HashMap<String, Id>,
}

/// The entry that holds all others.
pub(super) const ROOT: Id = 0;

impl Tree {
    /// An entry.
    pub(super) fn entry(&self, id: Id) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// What is in an entry and was not taken out, in order.
    pub(super) fn within(&self, id: Id) -> impl Iterator<Item = (Id, &Entry)> {
        let ids = match self.entries.get(id).map(|entry| &entry.kind) {
            Some(Kind::Map(ids) | Kind::List(ids)) => ids.as_slice(),
            Some(Kind::Leaf(_)) | None => &[],
        };
        let entries = ids
            .iter()
            .filter_map(|id| Some((*id, self.entries.get(*id)?)));
        entries.filter(|(_, entry)| !entry.is_out)
    }

    /// The keys of a map that were taken out.
    pub(super) fn taken_out(&self, id: Id) -> impl Iterator<Item = &Step> {
        let ids = match self.entries.get(id).map(|entry| &entry.kind) {
            Some(Kind::Map(ids) | Kind::List(ids)) => ids.as_slice(),
            Some(Kind::Leaf(_)) | None => &[],
        };
        let entries = ids.iter().filter_map(|id| self.entries.get(*id));
        entries
            .filter(|entry| entry.is_out)
            .map(|entry| &entry.step)
    }

    /// Takes an entry out, with all that is in it.
    pub(super) fn take_out(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.is_out = true;
        }
    }

    /// The steps from the root to an entry.
    pub(super) fn steps(&self, mut id: Id) -> Vec<&Step> {
        let mut steps = Vec::new();
        while let Some(entry) = self.entries.get(id).filter(|_| id != ROOT) {
            steps.push(&entry.step);
            id = entry.above;
        }
        steps.reverse();
        steps
    }

    /// Where a path was said, or the nearest parent that the tree has: at its key, or where its entry of a list begins.
    pub(super) fn find(&self, path: &str) -> Origin {
        let ends = path.char_indices().rev();
        let ends = ends.filter(|(_, letter)| matches!(letter, '.' | '['));
        let parents = std::iter::once(path.len()).chain(ends.map(|(end, _)| end));
        let mut parents = parents.filter_map(|end| path.get(..end));
        let entry = parents.find_map(|parent| self.entries.get(*self.paths.get(parent)?));
        match entry.filter(|entry| entry.step != Step::Root) {
            Some(entry) => entry.key.clone(),
            None => Origin::Nowhere,
        }
    }
}

#[cfg(test)]
mod tests;
