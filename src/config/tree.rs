//! Where in a file the value of a path stands, and what stands at a place.
//!
//! In: a YAML text. Out: line and column, both from 1, of paths such as `rules.splits[0].weights.candidate`; and the
//! other way about, so that a message can say which key it is about and what was found there.

use std::collections::HashMap;
use std::fmt;

use greylag_filters::rules::Step;
use greylag_filters::written::start;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned};

/// Line and column, both from 1.
pub(super) type Place = (u64, u64);

/// The place that a location of the parser means.
pub(super) fn of(location: Location) -> Place {
    (location.line(), location.column())
}

/// `LINE:COLUMN: ` as it follows `FILE:`; a space where the place is not known.
pub(super) fn prefix(place: Option<Place>) -> String {
    match place {
        Some((line, column)) => format!("{line}:{column}: "),
        None => " ".to_owned(),
    }
}

/// The places of all paths of a text.
#[derive(Debug, Default)]
pub(super) struct Places {
    // by path: where its key or its list entry stands
    paths: HashMap<String, Place>,
    // by the place of a key: the path of the map that it is in
    keys: HashMap<Place, String>,
    // by the place where a value begins: its path, and what it is
    values: HashMap<Place, (String, String)>,
}

impl Places {
    /// Reads a text; of one that is not YAML no place is known.
    pub(super) fn of(text: &str) -> Places {
        let options = serde_saphyr::options! {
            with_snippet: false,
            // What the configuration refuses still has to be found.
            duplicate_keys: DuplicateKeyPolicy::PassThrough,
            non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        };
        let mut places = Places::default();
        if let Ok(root) = serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options) {
            places.enter("", &root);
        }
        places
    }

    /// The place of a path, or of the nearest parent that the text has.
    pub(super) fn find(&self, path: &str) -> Option<Place> {
        let ends = path
            .char_indices()
            .rev()
            .filter(|(_, letter)| matches!(letter, '.' | '['))
            .map(|(end, _)| end);
        std::iter::once(path.len())
            .chain(ends)
            .filter_map(|end| path.get(..end))
            .find_map(|parent| self.paths.get(parent).copied())
    }

    /// The path of the map that has a key at this place.
    pub(super) fn map_with_key_at(&self, place: Place) -> Option<&str> {
        self.keys.get(&place).map(String::as_str)
    }

    /// The path of the value that begins at this place, and what it is: `"text"`, `the number 5`, `a list`.
    pub(super) fn value_at(&self, place: Place) -> Option<(&str, &str)> {
        let (path, found) = self.values.get(&place)?;
        Some((path, found))
    }

    fn enter(&mut self, path: &str, node: &Spanned<Node>) {
        let found = match &node.value {
            Node::Map(_) => "a map",
            Node::List(_) => "a list",
            Node::Leaf(found) => found,
        };
        let value = (path.to_owned(), found.to_owned());
        self.values.insert(of(node.referenced), value);
        match &node.value {
            Node::Map(entries) => {
                for (key, value) in entries {
                    let place = of(key.referenced);
                    self.keys.insert(place, path.to_owned());
                    let path = joined(path, &key.value);
                    self.paths.insert(path.clone(), place);
                    self.enter(&path, value);
                }
            }
            Node::List(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.paths.insert(path.clone(), of(entry.referenced));
                    self.enter(&path, entry);
                }
            }
            Node::Leaf(_) => {}
        }
    }
}

// As the paths of problems are written; at the top of the file no dot is before a key.
fn joined(above: &str, key: &str) -> String {
    let path = format!("{above}{}", Step(key));
    match path.strip_prefix('.') {
        Some(key) if above.is_empty() => key.to_owned(),
        Some(_) | None => path,
    }
}

// A text's shape: keys, and where everything stands; of a value only what a message needs.
enum Node {
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
    Leaf(String),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Node, D::Error> {
        from.deserialize_any(Shape)
    }
}

struct Shape;

impl<'de> Visitor<'de> for Shape {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Node::List(entries))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(format!("the number {value}")))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(format!("the number {value}")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Leaf(format!("the number {value}")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(format!("{:?}", start(value))))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf("nothing".to_owned()))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf("nothing".to_owned()))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        Node::deserialize(from)
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Places};

    const TEXT: &str = "\
rules:
  engines: { stable: { url: 'http://a:1' }, \"a.b\": { url: 'http://b:1' } }
  splits:
    - name: first
      weights:
        stable: 90

    -
      name: second
      sticky: [{ header: x }, client_ip]
limits: &all { body: 1B }
";

    fn check(path: &str, expected: Option<Place>) {
        assert_eq!(Places::of(TEXT).find(path), expected, "{path}");
    }

    #[test]
    fn a_path_is_found_at_its_key() {
        check("rules", Some((1, 1)));
        check("rules.engines.stable", Some((2, 14)));
        check("rules.engines[\"a.b\"].url", Some((2, 54)));
        check("rules.splits[0].weights.stable", Some((6, 9)));
        check("rules.splits[1].name", Some((9, 7)));
        check("rules.splits[1].sticky[1]", Some((10, 31)));
        check("limits.body", Some((11, 16)));
    }

    #[test]
    fn an_entry_of_a_list_is_found_where_its_value_begins() {
        check("rules.splits[0]", Some((4, 7)));
        check("rules.splits[1]", Some((9, 7)));
    }

    #[test]
    fn what_was_left_out_is_found_at_its_parent() {
        check("rules.default_engine", Some((1, 1)));
        check("rules.splits[1].weights.stable", Some((9, 7)));
        check("workers", None);
    }

    #[test]
    fn a_place_says_what_stands_there() {
        let places = Places::of(TEXT);
        assert_eq!(
            places.value_at((6, 17)),
            Some(("rules.splits[0].weights.stable", "the number 90"))
        );
        assert_eq!(
            places.value_at((10, 31)),
            Some(("rules.splits[1].sticky[1]", "\"client_ip\""))
        );
        assert_eq!(places.value_at((11, 14)), Some(("limits", "a map")));
        assert_eq!(places.value_at((1, 3)), None);
        assert_eq!(places.map_with_key_at((9, 7)), Some("rules.splits[1]"));
        assert_eq!(places.map_with_key_at((11, 1)), Some(""));
    }

    #[test]
    fn a_text_that_is_not_yaml_has_no_places() {
        assert_eq!(Places::of("a: [").find("a"), None);
        assert_eq!(Places::of("").find("a"), None);
    }
}
