//! What a caller says of an answer that it got.
//!
//! In: a body of JSON. Out: which exchange is meant, what was judged and how; and what has been said of one exchange so far,
//! of which so much is kept. Nothing of it is text of the caller's own but a short name and the exchange's id.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::written::{Misfit, Written, written};

/// One judgement.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// The exchange's id.
    pub request_id: Id,
    /// What was judged.
    pub metric: Metric,
    /// How it was judged.
    pub value: Value,
}

/// Reads a judgement: one JSON object with these three keys and no others, each once.
///
/// # Errors
/// What is wrong, and where.
pub fn read(body: &[u8]) -> Result<Feedback, serde_json::Error> {
    serde_json::from_slice(body).map(|Whole(feedback)| feedback)
}

// A struct alone would be read from a list too.
struct Whole(Feedback);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Whole, D::Error> {
        from.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `request_id`, `metric` and `value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Whole, A::Error> {
        Feedback::deserialize(MapAccessDeserializer::new(map)).map(Whole)
    }
}

/// The id of an exchange that may be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id(Box<str>);

/// The longest id that an exchange has, in bytes.
pub const LONGEST_ID: usize = 256;

impl Id {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Id {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Id, Misfit> {
        if (1..=LONGEST_ID).contains(&text.len()) {
            Ok(Id(text.into()))
        } else {
            Err(Misfit::of::<Id>(text))
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Written for Id {
    const ALLOWED: &'static str = "a request_id is a text of 1 to 256 bytes";
    const PATTERN: &'static str = r"^[\s\S]{1,256}$";
    const EXAMPLE: &'static str = "req-0123456789abcdef";
}

written!(Id, deserialize_any);

/// The name of what is judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric(Box<str>);

impl Metric {
    const LONGEST: usize = 64;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Metric {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Metric, Misfit> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let begins = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
        if begins && text.len() <= Metric::LONGEST && text.bytes().all(plain) {
            Ok(Metric(text.into()))
        } else {
            Err(Misfit::of::<Metric>(text))
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Written for Metric {
    const ALLOWED: &'static str =
        "a metric is 1 to 64 lower-case letters, digits and underscores (ASCII), a letter first";
    const PATTERN: &'static str = "^[a-z][a-z0-9_]{0,63}$";
    const EXAMPLE: &'static str = "thumbs";
}

written!(Metric, deserialize_any);

/// How something was judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Value(Said);

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Said {
    Bool(bool),
    // finite
    Number(f64),
}

impl Value {
    /// A number, if it is finite.
    pub fn number(number: f64) -> Option<Value> {
        number.is_finite().then_some(Value(Said::Number(number)))
    }

    /// Whether it speaks against the answer: false, or less than 0.
    pub fn is_negative(self) -> bool {
        match self.0 {
            Said::Bool(is_good) => !is_good,
            Said::Number(number) => number < 0.0,
        }
    }
}

impl From<bool> for Value {
    fn from(is_good: bool) -> Value {
        Value(Said::Bool(is_good))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        from.deserialize_any(Scalar)
    }
}

struct Scalar;

impl Visitor<'_> for Scalar {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a finite number, true or false as value")
    }

    fn visit_bool<E: Error>(self, is_good: bool) -> Result<Value, E> {
        Ok(is_good.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Value::number(number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    // The text is the caller's, and a message needs none of it.
    fn visit_str<E: Error>(self, _: &str) -> Result<Value, E> {
        Err(E::invalid_type(Unexpected::Other("a string"), &self))
    }
}

/// What has been said of one exchange: of each metric the last word.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    // at most MOST, each name once, in the order in which they came
    metrics: Vec<(Metric, Value)>,
}

/// There is no room for one more metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Heard {
    /// How many metrics an exchange may have.
    pub const MOST: usize = 8;

    /// Takes a judgement in; of a metric that has one, the last counts.
    ///
    /// # Errors
    /// It is a metric more than there may be; nothing has changed then.
    pub fn hear(&mut self, metric: Metric, value: Value) -> Result<(), Full> {
        if let Some((_, last)) = self.metrics.iter_mut().find(|(name, _)| *name == metric) {
            *last = value;
            return Ok(());
        }
        if self.metrics.len() >= Self::MOST {
            return Err(Full);
        }
        self.metrics.push((metric, value));
        Ok(())
    }

    /// The metrics and their last values, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value)> {
        let metrics = self.metrics.iter();
        metrics.map(|(metric, value)| (metric.as_str(), *value))
    }

    /// What it holds, in bytes.
    pub fn size(&self) -> usize {
        let names = self.metrics.iter().map(|(metric, _)| metric.0.len());
        self.metrics.capacity() * size_of::<(Metric, Value)>() + names.sum::<usize>()
    }
}

impl JsonSchema for Heard {
    fn schema_name() -> Cow<'static, str> {
        "Heard".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<Metric>(),
            "additionalProperties": generator.subschema_for::<Value>(),
            "maxProperties": Heard::MOST,
        })
    }
}

impl JsonSchema for Value {
    fn schema_name() -> Cow<'static, str> {
        "Judgement".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["boolean", "number"] })
    }
}

impl Serialize for Heard {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

/// Any bytes: what is read is what serde_json finds there, keeps to the bounds, and reads back as itself; and however often
/// it is heard under whatever name, so much is kept.
#[cfg(any(test, fuzzing))]
pub fn fuzz_feedback(bytes: &[u8]) {
    let Ok(feedback) = read(bytes) else {
        return;
    };
    let theirs: serde_json::Value = serde_json::from_slice(bytes).expect("what is read is JSON");
    let theirs = theirs.as_object().expect("what is read is an object");
    assert_eq!(theirs.len(), 3);
    let text = |key: &str| theirs.get(key).and_then(|value| value.as_str());
    assert_eq!(text("request_id"), Some(feedback.request_id.as_str()));
    assert_eq!(text("metric"), Some(feedback.metric.as_str()));
    assert!((1..=LONGEST_ID).contains(&feedback.request_id.as_str().len()));
    let value = theirs.get("value").expect("it has a value");
    let is_negative = value.as_f64().map(|number| number < 0.0);
    let is_negative = is_negative.or(value.as_bool().map(|is_good| !is_good));
    assert_eq!(is_negative, Some(feedback.value.is_negative()));

    let mut heard = Heard::default();
    for number in 0..2 * Heard::MOST {
        let name = feedback.metric.as_str().get(..8);
        let name = format!("{}_{number}", name.unwrap_or("short"));
        let metric: Metric = name.parse().expect("a name with a number is a name");
        let is_heard = heard.hear(metric, feedback.value).is_ok();
        assert_eq!(is_heard, number < Heard::MOST);
        // What is there already has room.
        let first = heard.iter().next().map(|(name, _)| name.parse());
        let first: Metric = first.expect("one was heard").expect("it is a name");
        assert_eq!(heard.hear(first, true.into()), Ok(()));
    }
    assert_eq!(heard.iter().count(), Heard::MOST);
    let written = serde_json::to_vec(&heard).expect("it is written");
    let read: serde_json::Value = serde_json::from_slice(&written).expect("it is JSON");
    assert_eq!(
        read.as_object().map(serde_json::Map::len),
        Some(Heard::MOST)
    );
}

#[cfg(test)]
mod tests;
