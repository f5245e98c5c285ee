//! Where a configuration was read, and what it said there that needs a restart.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

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
    // all but the rules
    said: Map<String, Value>,
}

impl Origin {
    pub(super) fn of(
        config: &Config,
        path: &Path,
        stamp: Stamp,
        environment: &Environment,
    ) -> Origin {
        Origin {
            path: path.to_owned(),
            stamp,
            environment: environment.clone(),
            said: beside_rules(config),
        }
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
