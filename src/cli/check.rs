//! `greylag check FILE`: whether a configuration can be used.
//!
//! In: a file, and the environment, as `greylag run` would read them. Out: one line about it, or one line for each thing that is wrong.
//! Nothing is bound and nothing is asked.

use std::path::Path;

use crate::config::{Config, Environment};
use greylag_filters::rules::compile;

use super::{Exit, complain, print};

/// Checks a file.
pub(super) fn check(file: &Path) -> Result<(), Exit> {
    let environment = Environment::of_process();
    let config = Config::load_with(file, &environment).map_err(|fault| {
        complain(&fault);
        Exit::Config
    })?;
    let rules = &config.rules;
    let hash = compile(rules).map(|ruleset| ruleset.hash());
    let hash = hash.map_err(|_| Exit::Config)?;
    // A file that is fine alone need not be elsewhere, where they are not set.
    let variables: Vec<&str> = environment.names().collect();
    let with = match variables.as_slice() {
        [] => String::new(),
        names => format!(", with {}", names.join(", ")),
    };
    print(&format!(
        "{}: ok ({}, {}, rules {hash:016x}{with})",
        file.display(),
        counted(rules.engines.len(), "engine"),
        counted(rules.splits.len(), "split"),
    ))
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
