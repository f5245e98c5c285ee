//! The samples that people copy, and the table of keys: both must say what the types say.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use greylag::config::Config;
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config")
}

// A key of the schema, by its path: `*` for a free name, `[]` for an entry of a list.
#[derive(Debug, Default)]
struct Key {
    description: String,
    is_required: bool,
    default: Option<Value>,
    // the values that it has in `full.yaml`
    values: Vec<Value>,
}

struct Walk {
    defs: Value,
    keys: BTreeMap<String, Key>,
}

impl Walk {
    fn of(values: &Value) -> BTreeMap<String, Key> {
        let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
        let mut walk = Walk {
            defs: schema["$defs"].clone(),
            keys: BTreeMap::new(),
        };
        walk.enter(&schema, "", &[values]);
        walk.keys
    }

    fn enter(&mut self, schema: &Value, path: &str, values: &[&Value]) {
        if let Some(name) = schema["$ref"]
            .as_str()
            .and_then(|to| to.strip_prefix("#/$defs/"))
        {
            let schema = self.defs[name].clone();
            return self.enter(&schema, path, values);
        }
        for alternatives in [&schema["anyOf"], &schema["oneOf"]] {
            for schema in alternatives.as_array().into_iter().flatten() {
                self.enter(schema, path, values);
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let values: Vec<&Value> = values.iter().filter_map(|value| value.get(name)).collect();
            // An alternative with a value is described as a whole.
            let description = property["description"]
                .as_str()
                .or(schema["description"].as_str());
            let required = schema["required"].as_array();
            let key = Key {
                description: description.unwrap_or_default().to_owned(),
                is_required: required.is_some_and(|all| all.iter().any(|one| one == name)),
                default: property
                    .get("default")
                    .filter(|default| !default.is_null())
                    .cloned(),
                values: values.iter().map(|value| (*value).clone()).collect(),
            };
            self.keys.insert(path.clone(), key);
            self.enter(property, &path, &values);
        }
        if schema["additionalProperties"].is_object() {
            let values: Vec<&Value> = values
                .iter()
                .filter_map(|value| value.as_object())
                .flat_map(|map| map.values())
                .collect();
            self.enter(
                &schema["additionalProperties"],
                &format!("{path}.*"),
                &values,
            );
        }
        if schema["items"].is_object() {
            let values: Vec<&Value> = values
                .iter()
                .filter_map(|value| value.as_array())
                .flatten()
                .collect();
            self.enter(&schema["items"], &format!("{path}[]"), &values);
        }
    }
}

// The keys, with their values as `full.yaml` has them and as Greylag would write them.
fn keys() -> BTreeMap<String, Key> {
    let full = Config::load(&folder().join("full.yaml")).unwrap();
    Walk::of(&serde_json::to_value(&full).unwrap())
}

#[test]
fn every_sample_can_be_used() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            Config::load(&path).unwrap_or_else(|fault| panic!("{fault}"));
            names.push(path.file_name().unwrap().to_owned());
        }
    }
    names.sort();
    assert_eq!(
        names,
        ["canary.yaml", "full.yaml", "minimal.yaml", "traced.yaml"]
    );
}

#[test]
fn full_yaml_shows_every_key_with_its_default() {
    // `greylag` would write a default that the file leaves out, so the file itself must have it too.
    let text = std::fs::read_to_string(folder().join("full.yaml")).unwrap();
    let written = Walk::of(&serde_saphyr::from_str::<Value>(&text).unwrap());
    for (path, key) in keys() {
        assert!(
            !written[&path].values.is_empty(),
            "{path} is not in full.yaml"
        );
        if let Some(default) = key.default.filter(|default| !default.is_object()) {
            // A list may show more than its default has.
            let shows = |value: &Value| match (value.as_array(), default.as_array()) {
                (Some(all), Some(first)) => all.starts_with(first),
                _ => *value == default,
            };
            assert!(
                key.values.iter().any(shows),
                "{path} is {:?}, its default is {default}",
                key.values
            );
        }
    }
}

#[test]
fn every_key_has_its_row_in_the_readme() {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let rows: Vec<&str> = readme
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let expected: Vec<String> = keys().iter().map(|(path, key)| row(path, key)).collect();
    assert!(
        rows == expected,
        "the table of config/README.md must be:\n\n{}\n",
        expected.join("\n")
    );
}

fn row(path: &str, key: &Key) -> String {
    let default = match &key.default {
        _ if key.is_required => "required".to_owned(),
        None | Some(Value::Object(_)) => String::new(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(other) => format!("`{other}`"),
    };
    let description = key.description.replace('\n', " ").replace('|', "\\|");
    format!("| `{path}` | {default} | {description} |")
}
