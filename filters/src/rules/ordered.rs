//! A map that keeps the order in which it was written.
//!
//! In: a YAML or JSON map. Out: its entries, in file order. A key that is written twice is refused, where
//! many parsers would let the last one win in silence. Meant for maps of dozens: look-up is a walk.

use std::borrow::{Borrow, Cow};
use std::collections::HashSet;
use std::fmt::{self, Display};
use std::hash::Hash;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::written::start;

/// Entries in the order in which they were written, each key once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ordered<K, V> {
    // no two entries have equal keys
    entries: Vec<(K, V)>,
}

/// A key that stands in a map already.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{key:?} is written twice")]
pub struct WrittenTwice {
    /// The key, or its start if it is long.
    pub key: String,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Ordered<K, V> {
        Ordered {
            entries: Vec::new(),
        }
    }
}

impl<K: Clone + Display + Eq + Hash, V> Ordered<K, V> {
    /// A map of these entries.
    ///
    /// # Errors
    /// If a key stands in it twice.
    pub fn new(entries: Vec<(K, V)>) -> Result<Ordered<K, V>, WrittenTwice> {
        let mut seen = HashSet::with_capacity(entries.len());
        match entries.iter().find(|(key, _)| !seen.insert(key)) {
            Some((key, _)) => Err(WrittenTwice {
                key: start(&key.to_string()),
            }),
            None => Ok(Ordered { entries }),
        }
    }
}

impl<K, V> Ordered<K, V> {
    /// The value of a key.
    pub fn at<Q: Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.place(key)
            .and_then(|place| self.entries.get(place))
            .map(|(_, value)| value)
    }

    /// The place of a key, counted from 0.
    pub fn place<Q: Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        self.entries
            .iter()
            .position(|(other, _)| other.borrow() == key)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// The entries in order, to change their values.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K: Serialize, V: Serialize> Serialize for Ordered<K, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.entries.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, K, V> Deserialize<'de> for Ordered<K, V>
where
    K: Clone + Deserialize<'de> + Display + Eq + Hash,
    V: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ordered<K, V>, D::Error> {
        from.deserialize_map(Reader(PhantomData))
    }
}

struct Reader<K, V>(PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for Reader<K, V>
where
    K: Clone + Deserialize<'de> + Display + Eq + Hash,
    V: Deserialize<'de>,
{
    type Value = Ordered<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<K, V>, A::Error> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<K>()? {
            // Checked before its value is read, so that the message points at the second key.
            if !seen.insert(key.clone()) {
                let key = start(&key.to_string());
                return Err(A::Error::custom(WrittenTwice { key }));
            }
            entries.push((key, map.next_value()?));
        }
        Ok(Ordered { entries })
    }
}

impl<K: JsonSchema, V: JsonSchema> JsonSchema for Ordered<K, V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Map_of_{}", V::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<K>(),
            "additionalProperties": generator.subschema_for::<V>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Ordered;

    fn read(json: &str) -> Result<Ordered<String, u8>, String> {
        serde_json::from_str(json).map_err(|fault| fault.to_string())
    }

    #[test]
    fn order_is_kept_there_and_back() {
        let json = r#"{"z":1,"a":2,"m":3}"#;
        let map = read(json).unwrap();
        assert_eq!(map.keys().collect::<Vec<_>>(), ["z", "a", "m"]);
        assert_eq!(serde_json::to_string(&map).unwrap(), json);
        assert_eq!(
            (map.at("a"), map.place("m"), map.at("b")),
            (Some(&2), Some(2), None)
        );
    }

    #[test]
    fn a_key_written_twice_is_refused_where_it_stands() {
        assert_eq!(
            read(r#"{"a":1,"b":2,"a":3}"#),
            Err("\"a\" is written twice at line 1 column 16".to_owned())
        );
        assert!(Ordered::new(vec![("a", 1), ("a", 2)]).is_err());
    }
}
