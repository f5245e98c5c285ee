//! What the YAML reader makes of a text, of whatever shape it is.
//!
//! In: any YAML value. Out: maps, lists and single values, each with its place. Nothing is refused here but what is no YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::Leaf;

/// A value.
pub(super) enum Node {
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
    Leaf(Leaf),
}

impl Leaf {
    /// The same, written as the text has it: `0x10` and `1.50` are read otherwise where a text is wanted.
    pub(super) fn written(self, slice: Option<&str>) -> Leaf {
        let is_bare = |slice: &&str| {
            let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._~".contains(&byte);
            !slice.is_empty() && slice.bytes().all(bare)
        };
        match (self, slice.filter(is_bare)) {
            (Leaf::Plain { found, .. }, Some(slice)) => Leaf::Plain {
                text: slice.to_owned(),
                found,
            },
            (leaf, _) => leaf,
        }
    }
}

fn plain<E>(text: impl fmt::Display, found: String) -> Result<Node, E> {
    let text = text.to_string();
    Ok(Node::Leaf(Leaf::Plain { text, found }))
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
        plain(value, value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        plain(value, format!("the number {value}"))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        plain(value, format!("the number {value}"))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        plain(value, format!("the number {value}"))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        plain(value, format!("the number {value}"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        let text = match value {
            value if value.is_nan() => ".nan".to_owned(),
            f64::INFINITY => ".inf".to_owned(),
            f64::NEG_INFINITY => "-.inf".to_owned(),
            value => format!("{value:?}"),
        };
        plain(text, format!("the number {value}"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(Leaf::Text(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        plain("null", "nothing".to_owned())
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        plain("null", "nothing".to_owned())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        Node::deserialize(from)
    }
}
