//! A configuration's text as a tree: its keys and values, and where each stands.
//!
//! In: a YAML text, and single values that the environment sets. Out: where the value of a path such as
//! `rules.splits[0].weights.candidate` stands, and a tree from which single entries can be taken out, so that reading can go on
//! behind what is wrong. Values are kept as they are written; what they mean is for others to read.

mod node;

use std::collections::HashMap;
use std::rc::Rc;

use greylag_filters::rules::Step as Shown;
use greylag_filters::written::start;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Spanned};

use node::Node;

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
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is not YAML.
    pub(super) fn read(text: &str) -> Result<Tree, Error> {
        let root = node(text)?;
        let mut tree = Tree {
            entries: Vec::new(),
            paths: HashMap::new(),
        };
        tree.plant(&root, Step::Root, ROOT, Origin::Nowhere, &Soil::File(text));
        Ok(tree)
    }

    /// Has the value of these keys be what `text` says in YAML, whatever the tree says. If the file has something at a key on the way
    /// that is no map, that stays, to be found wrong.
    ///
    /// # Errors
    /// It is not YAML.
    pub(super) fn set(&mut self, keys: &[String], text: &str, variable: &str) -> Result<(), Error> {
        let root = node(text)?;
        let variable = Rc::from(variable);
        let soil = Soil::Variable(text, &variable);
        let Some((last, way)) = keys.split_last() else {
            return Ok(());
        };
        let mut map = ROOT;
        for key in way {
            map = match self.child(map, key) {
                Some(child) => child,
                None => {
                    let (step, kind) = (Step::Key(key.clone()), Kind::Map(Vec::new()));
                    let Some(child) = self.adopt(map, step, Origin::Nowhere, Origin::Nowhere, kind)
                    else {
                        return Ok(());
                    };
                    child
                }
            };
        }
        let Some(Kind::Map(children)) = self.entries.get(map).map(|entry| &entry.kind) else {
            return Ok(());
        };
        // Of a key that is written twice all go.
        let same = Step::Key(last.clone());
        for child in children.clone() {
            if self
                .entries
                .get(child)
                .is_some_and(|entry| entry.step == same)
            {
                self.remove(child);
            }
        }
        self.plant(
            &root,
            same,
            map,
            Origin::Variable(Rc::clone(&variable)),
            &soil,
        );
        Ok(())
    }

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

    fn child(&self, map: Id, key: &str) -> Option<Id> {
        let mut children = self.within(map);
        let found =
            children.find(|(_, entry)| matches!(&entry.step, Step::Key(name) if name == key));
        found.map(|(id, _)| id)
    }

    // As if it had never been there.
    fn remove(&mut self, id: Id) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        let (above, path) = (entry.above, entry.path.clone());
        // What is below is reached no longer, and must not be found by its path either.
        let is_below = |other: &str| {
            let rest = other.strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.paths.retain(|other, _| !is_below(other));
        if let Some(Kind::Map(ids) | Kind::List(ids)) =
            self.entries.get_mut(above).map(|entry| &mut entry.kind)
        {
            ids.retain(|other| *other != id);
        }
    }

    fn plant(
        &mut self,
        node: &Spanned<Node>,
        step: Step,
        above: Id,
        key: Origin,
        soil: &Soil<'_>,
    ) -> Option<Id> {
        let value = soil.origin(node.referenced);
        let key = match &step {
            Step::Root | Step::Index(_) => value.clone(),
            Step::Key(_) => key,
        };
        let kind = match &node.value {
            Node::Map(_) => Kind::Map(Vec::new()),
            Node::List(_) => Kind::List(Vec::new()),
            Node::Leaf(leaf) => Kind::Leaf(leaf.clone().as_written(soil.slice(node.defined))),
        };
        let id = self.adopt(above, step, key, value, kind)?;
        match &node.value {
            Node::Map(entries) => {
                for (key, value) in entries {
                    let origin = soil.origin(key.referenced);
                    self.plant(value, Step::Key(key.value.clone()), id, origin, soil);
                }
            }
            Node::List(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    self.plant(entry, Step::Index(index), id, Origin::Nowhere, soil);
                }
            }
            Node::Leaf(_) => {}
        }
        Some(id)
    }

    // Puts an entry at the end of one that can hold it.
    fn adopt(
        &mut self,
        above: Id,
        step: Step,
        key: Origin,
        value: Origin,
        kind: Kind,
    ) -> Option<Id> {
        let id = self.entries.len();
        let path = match &step {
            Step::Root => String::new(),
            Step::Key(key) => joined(&self.entries.get(above)?.path, key),
            Step::Index(index) => format!("{}[{index}]", self.entries.get(above)?.path),
        };
        if step != Step::Root {
            match (&mut self.entries.get_mut(above)?.kind, &step) {
                (Kind::Map(ids), Step::Key(_)) | (Kind::List(ids), Step::Index(_)) => ids.push(id),
                (Kind::Map(_) | Kind::List(_) | Kind::Leaf(_), _) => return None,
            }
        }
        self.paths.entry(path.clone()).or_insert(id);
        self.entries.push(Entry {
            step,
            path,
            above,
            key,
            value,
            kind,
            is_out: false,
        });
        Some(id)
    }
}

// What a tree grows from: a text, and where it stands.
enum Soil<'a> {
    File(&'a str),
    Variable(&'a str, &'a Rc<str>),
}

impl Soil<'_> {
    fn origin(&self, location: Location) -> Origin {
        match self {
            Soil::File(_) => Origin::File(place(location)),
            Soil::Variable(_, name) => Origin::Variable(Rc::clone(name)),
        }
    }

    fn slice(&self, location: Location) -> Option<&str> {
        let (Soil::File(text) | Soil::Variable(text, _)) = self;
        let span = location.span();
        let begin = usize::try_from(span.byte_offset()?).ok()?;
        let end = begin.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
        text.get(begin..end)
    }
}

fn node(text: &str) -> Result<Spanned<Node>, Error> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        // What the configuration refuses still has to be found.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    serde_saphyr::from_str_with_options(text, options)
}

// As the paths of problems are written; at the top of the file no dot is before a key.
fn joined(above: &str, key: &str) -> String {
    let path = format!("{above}{}", Shown(key));
    match path.strip_prefix('.') {
        Some(key) if above.is_empty() => key.to_owned(),
        Some(_) | None => path,
    }
}

#[cfg(test)]
mod tests;
