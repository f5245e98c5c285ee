//! A JSON value as it stands in rules, to be written into requests.
//!
//! In: any YAML or JSON value. Out: its JSON text. A number that JSON cannot hold (`.nan`, `.inf`) is
//! refused, where a plain conversion would turn it into `null` in silence.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Any JSON value.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Literal(Value);

impl Literal {
    /// The text, if it is one.
    pub(super) fn into_text(self) -> Option<String> {
        match self.0 {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value as JSON text without spaces.
    pub fn json(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }
}

impl From<Value> for Literal {
    fn from(value: Value) -> Literal {
        Literal(value)
    }
}

impl<'de> Deserialize<'de> for Literal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Literal, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Literal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Literal, E> {
        Ok(Literal(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Literal, E> {
        Ok(Literal(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Literal, E> {
        Ok(Literal(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Literal, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(Literal(number.into())),
            None => Err(E::custom(format_args!("JSON has no number {value}"))),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Literal, E> {
        Ok(Literal(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Literal, E> {
        Ok(Literal(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Literal, E> {
        Ok(Literal(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Literal, D::Error> {
        Literal::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Literal, A::Error> {
        let mut values = Vec::new();
        while let Some(Literal(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Literal(values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Literal, A::Error> {
        let mut values = Map::new();
        while let Some((key, Literal(value))) = map.next_entry::<String, Literal>()? {
            if values.insert(key, value).is_some() {
                return Err(A::Error::custom("a key of this map is written twice"));
            }
        }
        Ok(Literal(values.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, F64Deserializer};

    use super::Literal;

    #[test]
    fn any_json_value_is_kept() {
        for json in [
            "null",
            "true",
            "-1",
            "18446744073709551615",
            "0.1",
            "\"a\\n\"",
            "[1,[]]",
            "{\"a\":{\"b\":null}}",
        ] {
            let literal: Literal = serde_json::from_str(json).unwrap();
            assert_eq!(literal.json(), json.as_bytes());
        }
        assert!(serde_json::from_str::<Literal>("{\"a\":1,\"a\":2}").is_err());
    }

    #[test]
    fn a_number_that_json_lacks_is_refused() {
        use serde::Deserialize;
        let from: F64Deserializer<Error> = f64::NAN.into_deserializer();
        assert_eq!(
            Literal::deserialize(from).unwrap_err().to_string(),
            "JSON has no number NaN"
        );
    }
}
