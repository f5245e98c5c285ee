//! `greylag check FILE`: whether a configuration can be used.
//!
//! In: a file. Out: one line about it, or one line for each thing that is wrong. Nothing is bound and nothing is asked.

use std::path::Path;

use crate::config::Config;
use greylag_filters::rules::compile;

use super::{Exit, complain, print};

/// Checks a file.
pub(super) fn check(file: &Path) -> Result<(), Exit> {
    let config = load(file)?;
    let rules = &config.rules;
    let hash = compile(rules).map(|ruleset| ruleset.hash());
    let hash = hash.map_err(|_| Exit::Config)?;
    print(&format!(
        "{}: ok ({}, {}, rules {hash:016x})",
        file.display(),
        counted(rules.engines.len(), "engine"),
        counted(rules.splits.len(), "split"),
    ))
}

/// Loads a file, or says what is wrong with it.
pub(super) fn load(file: &Path) -> Result<Config, Exit> {
    Config::load(file).map_err(|fault| {
        complain(&fault);
        Exit::Config
    })
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
