//! Values of rules that nobody may read back.
//!
//! In: text. Out: the same text to engines, and a mark to everybody else. Who sends rules back with the mark in them means what
//! is in force at that place, so that rules can be read, edited and replaced without their secrets ever leaving.

use std::fmt;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::engine::Rule as Engine;
use super::{Literal, Rules};

/// What stands in a secret's place wherever rules are shown.
pub const HIDDEN: &str = "<hidden>";

/// A text that is not shown. It is printed as [`HIDDEN`]; serialised it is itself, so what is serialised for others must be
/// [`Rules::hidden`].
#[derive(Clone, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
#[schemars(description = "A text that is not shown; in quotes where it looks like a number.")]
pub struct Secret(String);

// By hand, so that no message repeats what was found.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        let wrong = || D::Error::custom("a text is needed here, in quotes");
        match Literal::deserialize(from).map_err(|_| wrong())?.into_text() {
            Some(text) => Ok(Secret(text)),
            None => Err(wrong()),
        }
    }
}

impl Secret {
    /// The text itself, for whom it is meant alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.0 == HIDDEN
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Rules {
    /// The same rules with [`HIDDEN`] for each secret.
    pub fn hidden(&self) -> Rules {
        let mut rules = self.clone();
        for (_, engine) in rules.engines.iter_mut() {
            for (_, secret) in engine.headers.iter_mut() {
                *secret = Secret(HIDDEN.into());
            }
        }
        rules
    }

    /// The same rules with each secret that is [`HIDDEN`] as `in_force` has it, at the same engine and field. One that is
    /// not there stays as it is, and does not compile; so does one whose engine is said to be elsewhere, since who cannot
    /// read a secret must not have it sent to themselves.
    pub fn revealed(mut self, in_force: &Rules) -> Rules {
        for (name, engine) in self.engines.iter_mut() {
            let same_place =
                |before: &&Engine| before.url == engine.url && before.grpc == engine.grpc;
            let Some(before) = in_force.engines.at(name).filter(same_place) else {
                continue;
            };
            for (field, secret) in engine.headers.iter_mut() {
                if let Some(known) = before.headers.at(field).filter(|_| secret.is_hidden()) {
                    *secret = known.clone();
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::compile;

    fn rules(engine: &str, value: &str) -> Rules {
        serde_json::from_value(serde_json::json!({
            "engines": { engine: {
                "kind": "vllm", "url": "http://a", "headers": { "x-token": value }
            } },
            "default_engine": engine,
        }))
        .unwrap()
    }

    #[test]
    fn rules_are_shown_without_secrets_and_can_be_sent_back() {
        let secret = rules("a", "s3cret");
        let shown = serde_json::to_string(&secret.hidden()).unwrap();
        assert!(!shown.contains("s3cret") && shown.contains(HIDDEN));
        let back: Rules = serde_json::from_str(&shown).unwrap();
        assert_eq!(back.revealed(&secret), secret);
        assert_eq!(rules("a", "new").revealed(&secret), rules("a", "new"));
    }

    #[test]
    fn a_mark_that_hides_nothing_does_not_compile() {
        let back = rules("b", HIDDEN).revealed(&rules("a", "s3cret"));
        let problems = compile(&back).unwrap_err();
        assert_eq!(problems[0].path, "rules.engines.b.headers.x-token");
    }

    #[test]
    fn what_is_no_text_is_not_repeated() {
        for found in ["52617", "true", "[\"s3cret\"]", "null"] {
            let fault = serde_json::from_str::<Secret>(found)
                .unwrap_err()
                .to_string();
            assert!(fault.starts_with("a text is needed here"), "{fault}");
        }
    }

    #[test]
    fn a_secret_does_not_go_to_another_place() {
        let secret = rules("a", "s3cret");
        for (key, place) in [("url", "http://b"), ("grpc", "http://a:81")] {
            let mut moved = serde_json::to_value(secret.hidden()).unwrap();
            moved["engines"]["a"][key] = place.into();
            let moved: Rules = serde_json::from_value(moved).unwrap();
            assert!(compile(&moved.revealed(&secret)).is_err(), "{place}");
        }
    }

    #[test]
    fn a_secret_is_in_no_debug_output() {
        let rules = rules("a", "s3cret");
        assert!(!format!("{rules:?}").contains("s3cret"));
        assert!(!format!("{:?}", compile(&rules).unwrap()).contains("s3cret"));
    }
}
