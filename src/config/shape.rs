//! What the types say of a configuration's keys, by its JSON Schema.
//!
//! In: a path of keys. Out: which keys a map there must have, whether what stands there is a secret; all single keys; and the schema
//! itself, for editors. It comes from the types alone, so nothing here names a key.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Config;
use super::tree::Step;

impl Config {
    /// The JSON Schema of a configuration file, in draft 7: what editors of YAML know best.
    pub fn schema() -> Value {
        let settings = SchemaSettings::draft07();
        settings
            .into_generator()
            .into_root_schema_for::<Config>()
            .to_value()
    }
}

/// The schema of a configuration.
pub(super) struct Shape(Value);

impl Shape {
    /// That of the types.
    pub(super) fn of_types() -> Shape {
        Shape(schemars::schema_for!(Config).to_value())
    }

    /// The keys that a map at this place cannot do without.
    pub(super) fn required(&self, steps: &[&Step]) -> Vec<String> {
        let map = self.at(steps).map(|schema| self.resolved(schema));
        let keys = map.and_then(|map| map.get("required")?.as_array());
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        keys.map(str::to_owned).collect()
    }

    /// Whether a value at this place is a secret, or a map or list of them.
    pub(super) fn is_secret(&self, steps: &[&Step]) -> bool {
        let Some(schema) = self.at(steps) else {
            return false;
        };
        let entries = self.resolved(schema).get("additionalProperties");
        is_secret(schema) || entries.is_some_and(is_secret)
    }

    /// The keys, each from the top, whose values are not maps of known keys; none of those under `without`.
    pub(super) fn leaves(&self, without: &str) -> Vec<Vec<String>> {
        let mut leaves = Vec::new();
        let mut way = Vec::new();
        self.gather(&self.0, without, &mut way, &mut leaves);
        leaves
    }

    fn gather(
        &self,
        schema: &Value,
        without: &str,
        way: &mut Vec<String>,
        leaves: &mut Vec<Vec<String>>,
    ) {
        let properties = self.resolved(schema).get("properties");
        let Some(properties) = properties.and_then(Value::as_object) else {
            return leaves.push(way.clone());
        };
        for (key, schema) in properties.iter().filter(|(key, _)| *key != without) {
            way.push(key.clone());
            self.gather(schema, without, way, leaves);
            way.pop();
        }
    }

    fn at(&self, steps: &[&Step]) -> Option<&Value> {
        let mut schema = &self.0;
        for step in steps {
            schema = self.within(schema, step)?;
        }
        Some(schema)
    }

    fn within<'a>(&'a self, schema: &'a Value, step: &Step) -> Option<&'a Value> {
        let schema = self.resolved(schema);
        let direct = match step {
            Step::Root => Some(schema),
            Step::Index(_) => schema.get("items"),
            Step::Key(key) => {
                let property = schema.get("properties").and_then(|all| all.get(key));
                let rest = schema.get("additionalProperties");
                property.or_else(|| rest.filter(|rest| rest.is_object()))
            }
        };
        direct.or_else(|| {
            let mut others = alternatives(schema);
            others.find_map(|schema| self.within(schema, step))
        })
    }

    // What a reference leads to, and an alternative to nothing.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema.get("$ref").and_then(Value::as_str);
        let definition = name.and_then(|name| self.0.pointer(name.strip_prefix('#')?));
        if let Some(definition) = definition {
            return self.resolved(definition);
        }
        let is_null = |schema: &&Value| schema.get("type").is_some_and(|kind| kind == "null");
        let mut others = alternatives(schema).filter(|schema| !is_null(schema));
        match (others.next(), others.next()) {
            (Some(only), None) => self.resolved(only),
            (Some(_), Some(_)) | (None, _) => schema,
        }
    }
}

fn is_secret(schema: &Value) -> bool {
    schema
        .get("$ref")
        .is_some_and(|name| name == "#/$defs/Secret")
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["anyOf", "oneOf"].into_iter();
    let lists = lists.filter_map(|word| schema.get(word)?.as_array());
    lists.flatten()
}

#[cfg(test)]
mod tests {
    use super::{Shape, Step};

    // `*`: a free name; a number: an entry of a list.
    fn steps(path: &str) -> Vec<Step> {
        let parts = path.split('.').filter(|part| !part.is_empty());
        let step = |part: &str| match part.parse() {
            Ok(index) => Step::Index(index),
            Err(_) => Step::Key(part.to_owned()),
        };
        parts.map(step).collect()
    }

    #[test]
    fn a_map_says_which_keys_it_needs() {
        let shape = Shape::of_types();
        let check = |path: &str, expected: &[&str]| {
            let steps = steps(path);
            let steps: Vec<&Step> = steps.iter().collect();
            assert_eq!(shape.required(&steps), expected, "{path}");
        };
        check("", &["rules"]);
        check("listen.0", &["address"]);
        check("listen.0.tls", &["cert", "key"]);
        check("rules", &["engines", "default_engine"]);
        check("rules.engines.*", &["kind", "url"]);
        check("rules.splits.3.force", &["header"]);
        check("limits", &[]);
        check("nowhere", &[]);
    }

    #[test]
    fn a_secret_is_known_as_one() {
        let shape = Shape::of_types();
        let check = |path: &str, expected: bool| {
            let steps = steps(path);
            let steps: Vec<&Step> = steps.iter().collect();
            assert_eq!(shape.is_secret(&steps), expected, "{path}");
        };
        check("telemetry.otlp.headers", true);
        check("telemetry.otlp.headers.x-token", true);
        check("rules.engines.a.headers.x", true);
        check("rules.splits.0.match.headers.x", false);
        check("telemetry.otlp.endpoint", false);
    }
}
