//! How a tree comes to be: from the text of a file, and from values that variables set.
//!
//! In: YAML texts. Out: a tree with all that they say, each with its place. What is no YAML is refused; nothing else is.

use std::collections::HashMap;
use std::rc::Rc;

use greylag_filters::rules::Step as Shown;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Spanned};

use super::node::Node;
use super::{Entry, Id, Kind, Origin, ROOT, Step, Tree, place};

impl Tree {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is not YAML.
    pub(in crate::config) fn read(text: &str) -> Result<Tree, Error> {
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
    pub(in crate::config) fn set(
        &mut self,
        keys: &[String],
        text: &str,
        variable: &str,
    ) -> Result<(), Error> {
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
            Node::Leaf(leaf) => Kind::Leaf(leaf.clone().written(soil.slice(node.defined))),
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
