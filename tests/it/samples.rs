//! The samples that people copy, and the table of keys: both must say what the types say.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use greylag::config::{Config, Environment};
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
    for (path, _) in samples() {
        Config::load(&path).unwrap_or_else(|fault| panic!("{fault}"));
        names.push(path.file_name().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(
        names,
        ["canary.yaml", "full.yaml", "minimal.yaml", "traced.yaml"]
    );
}

fn samples() -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let samples = paths.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    samples
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn the_schema_is_the_one_that_greylag_prints() {
    let written = std::fs::read_to_string(folder().join("schema.json")).unwrap();
    let printed = serde_json::to_string_pretty(&Config::schema()).unwrap();
    assert!(
        written == format!("{printed}\n"),
        "config/schema.json is not what the types say: greylag schema > config/schema.json"
    );
}

#[test]
fn each_sample_names_the_schema_and_fits_it() {
    let schema = jsonschema::validator_for(&Config::schema()).unwrap();
    for (path, text) in samples() {
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "# yaml-language-server: $schema=schema.json",
            "{}",
            path.display()
        );
        let sample: Value = serde_saphyr::from_str(&text).unwrap();
        if let Err(error) = schema.validate(&sample) {
            panic!("{}: {}: {error}", path.display(), error.instance_path());
        }
    }
}

#[test]
fn the_schema_refuses_what_editors_should_mark() {
    let schema = jsonschema::validator_for(&Config::schema()).unwrap();
    let fits = |text: &str| schema.is_valid(&serde_saphyr::from_str::<Value>(text).unwrap());
    let rules = "rules: { engines: { a: { kind: vllm, url: \"http://a\" } }, default_engine: a }";
    assert!(fits(rules));
    for wrong in [
        "workers: 1".to_owned(),
        "rules: { engines: { a: { kind: vllm } }, default_engine: a }".to_owned(),
        "rules: { engines: { a: { kind: vlm, url: \"http://a\" } }, default_engine: a }".to_owned(),
        format!("worker: 1\n{rules}"),
        format!("workers: many\n{rules}"),
        format!("workers: -1\n{rules}"),
        format!("listen: 5\n{rules}"),
        format!("listen: [{{ protocol: h2c }}]\n{rules}"),
        format!("listen: [{{ address: \"0.0.0.0:1\", protocol: h3 }}]\n{rules}"),
        format!("limits: {{ drain: 30 }}\n{rules}"),
        format!("limits: {{ body: 64 mega }}\n{rules}"),
        format!("telemetry: {{ log: {{ share: 10 }} }}\n{rules}"),
        format!("telemetry: {{ log: {{ format: xml }} }}\n{rules}"),
        format!("telemetry: {{ otlp: {{ headers: x }} }}\n{rules}"),
        "rules:\n  engines: { a: { kind: vllm, url: \"http://a\" } }\n  default_engine: a\n  splits: [{ name: s, weights: { a: 1 }, sticky: [{ heder: x }] }]".to_owned(),
        "rules:\n  engines: { a: { kind: vllm, url: \"http://a\" } }\n  default_engine: a\n  splits: [{ name: s, weights: { a: -1 } }]".to_owned(),
    ] {
        assert!(!fits(&wrong), "{wrong}");
    }
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

// The variables for the keys outside `rules`, with the values of `full.yaml`.
fn variables() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(folder().join("full.yaml")).unwrap();
    let keys = Walk::of(&serde_saphyr::from_str::<Value>(&text).unwrap());
    let is_leaf = |path: &str| {
        let inner = format!("{path}.");
        !path.contains(['[', '*']) && !keys.keys().any(|other| other.starts_with(&inner))
    };
    let static_keys = keys.iter().filter(|(path, _)| !path.starts_with("rules"));
    static_keys
        .filter(|(path, _)| is_leaf(path))
        .map(|(path, key)| {
            let name = format!("GREYLAG_{}", path.to_uppercase().replace('.', "_"));
            (name, key.values[0].to_string())
        })
        .collect()
}

#[test]
fn every_key_outside_the_rules_can_be_set_by_its_variable() {
    let shown = |config: &Config| {
        let mut value = serde_json::to_value(config).unwrap();
        value.as_object_mut().unwrap().remove("rules");
        value
    };
    let minimal = folder().join("minimal.yaml");
    let config = Config::load_with(&minimal, &Environment::of(variables()));
    let config = config.unwrap_or_else(|fault| panic!("{fault}"));
    let full = Config::load(&folder().join("full.yaml")).unwrap();
    assert_eq!(shown(&config), shown(&full));
}

#[test]
fn every_variable_in_the_readme_is_one() {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let is_inside = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let words = readme.split(|letter: char| !is_inside(letter));
    let words: Vec<&str> = words.filter(|word| word.starts_with("GREYLAG_")).collect();
    let known = variables();
    for word in &words {
        assert!(
            word.ends_with('_') || known.contains_key(*word),
            "config/README.md: found {word}, which is no key's variable"
        );
    }
    assert!(words.contains(&"GREYLAG_LIMITS_DRAIN_WAIT"), "{words:?}");
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
