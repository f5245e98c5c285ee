//! A line of the access log, and the schema of all lines.
//!
//! In: a record. Out: one JSON object on a line, flat, with the fields that say something. Nothing of a prompt or an answer is
//! in any field.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::fields::FIELDS;
use crate::record::Record;

/// Appends the record's line.
pub fn write(record: &Record, out: &mut Vec<u8>) {
    let before = out.len();
    // Writing to a vector does not fail; if serialising ever did, half a line must not stay.
    match serde_json::to_writer(&mut *out, &Line(record)) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(before),
    }
}

struct Line<'a>(&'a Record);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        for field in FIELDS {
            if let Some(said) = (field.of)(self.0) {
                line.serialize_entry(field.name, &said)?;
            }
        }
        line.end()
    }
}

/// The JSON Schema of a line.
pub fn schema() -> Value {
    let nothing = Record::default();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in FIELDS {
        let mut schema = field.kind.schema();
        schema["description"] = field.meaning.into();
        properties.insert(field.name.into(), schema);
        // What even a record of nothing says is always said.
        if (field.of)(&nothing).is_some() && !MAYBE.contains(&field.name) {
            required.push(field.name);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of Greylag's access log",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// What a record of nothing says only since it is a failure.
const MAYBE: &[&str] = &["error.code", "grade", "root_cause", "greylag.reason"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_field_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), FIELDS.len());
    }

    #[test]
    fn a_line_is_one_line_and_has_what_is_always_there() {
        let mut line = Vec::new();
        write(&Record::default(), &mut line);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let value: Value = serde_json::from_slice(&line).unwrap();
        for name in schema()["required"].as_array().unwrap() {
            assert!(value.get(name.as_str().unwrap()).is_some(), "{name}");
        }
        assert_eq!(value["severity_text"], "FATAL");
        assert_eq!(value["error.code"], "greylag.internal.fault");
    }
}
