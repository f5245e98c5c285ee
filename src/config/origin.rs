//! Where a configuration was read, and what it said there that needs a restart.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::{Config, Environment};
use crate::files::Stamp;

/// The file of a configuration, as it was read.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Its path.
    pub path: PathBuf,
    /// Its stamp, as of before it was read.
    pub stamp: Stamp,
    /// What the environment said instead.
    pub environment: Environment,
    // of all that it says
    text: u64,
    // all but the rules
    said: Map<String, Value>,
}

impl Origin {
    pub(super) fn of(
        config: &Config,
        text: &str,
        path: &Path,
        stamp: Stamp,
        environment: &Environment,
    ) -> Origin {
        Origin {
            path: path.to_owned(),
            stamp,
            text: xxh3_64(text.as_bytes()),
            environment: environment.clone(),
            said: beside_rules(config),
        }
    }

    /// What tells its text from others.
    pub fn text(&self) -> String {
        format!("text {:016x}", self.text)
    }

    /// The first keys under which another reading of the file says something else, rules aside.
    pub fn changed(&self, other: &Config) -> Vec<String> {
        let other = beside_rules(other);
        let keys = self.said.keys().chain(other.keys());
        let differs = |key: &&String| self.said.get(*key) != other.get(*key);
        let mut keys: Vec<String> = keys.filter(differs).cloned().collect();
        keys.sort();
        keys.dedup();
        keys
    }
}

fn beside_rules(config: &Config) -> Map<String, Value> {
    let said = serde_json::to_value(config).expect("a configuration has only string keys");
    match said {
        Value::Object(mut said) => {
            said.remove("rules");
            said
        }
        _ => Map::new(),
    }
}
