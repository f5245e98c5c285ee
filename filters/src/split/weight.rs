//! The weight of an engine in a split.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The weight of an engine in a split: a whole number from 0 to 1,000,000.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Weight(u32);

/// A number that is no weight.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a weight is a whole number from 0 to 1000000; found {0}")]
pub struct NotAWeight(String);

impl Weight {
    /// The largest weight.
    pub const MOST: u32 = 1_000_000;

    /// The weight as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u64> for Weight {
    type Error = NotAWeight;

    fn try_from(number: u64) -> Result<Weight, NotAWeight> {
        match u32::try_from(number) {
            Ok(weight) if weight <= Weight::MOST => Ok(Weight(weight)),
            Ok(_) | Err(_) => Err(NotAWeight(number.to_string())),
        }
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Weight, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Weight;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", Weight::MOST)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Weight, E> {
        number.try_into().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Weight, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::custom(NotAWeight(number.to_string()))),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Weight, E> {
        Err(E::custom(NotAWeight(number.to_string())))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Weight, E> {
        Err(E::custom(NotAWeight(format!(
            "the text {:?}",
            crate::written::start(text)
        ))))
    }
}

impl JsonSchema for Weight {
    fn schema_name() -> Cow<'static, str> {
        "Weight".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer",
            "description": "An engine's share is its weight divided by the sum of all weights.",
            "minimum": 0,
            "maximum": Weight::MOST,
        })
    }
}
