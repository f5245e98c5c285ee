//! What every source file keeps to.

use super::none;
use super::tree::{Text, text, texts};

/// Past so many lines a file holds more than one idea.
const LONGEST: usize = 500;
/// Names that say nothing of what is in a module.
const EMPTY_NAMES: [&str; 8] = [
    "util", "utils", "common", "helper", "helpers", "misc", "manager", "mod",
];
/// The files of the root package that may read a clock: the exchange's own, and the demo's, which is a client.
const CLOCKS: [&str; 2] = ["src/exchange.rs", "src/cli/demo.rs"];

#[test]
fn every_source_file_keeps_the_house_rules() {
    let found: Vec<String> = ["src", "filters", "sim", "tests", "benches", "fuzz"]
        .iter()
        .filter(|folder| super::tree::exists(folder))
        .flat_map(|folder| texts(folder, &[".rs"]))
        .flat_map(|file| breaches(&file))
        .collect();
    none(&found);
}

#[test]
fn no_module_is_named_after_nothing() {
    let found: Vec<String> = texts("", &[".rs"])
        .iter()
        .filter(|file| {
            let parts = file.path.trim_end_matches(".rs").split('/');
            parts.into_iter().any(|part| EMPTY_NAMES.contains(&part))
        })
        .map(|file| {
            format!(
                "{}: found a name that says nothing, not allowed are {EMPTY_NAMES:?}",
                file.path
            )
        })
        .collect();
    none(&found);
}

#[test]
fn the_pure_packages_forbid_unsafe_code() {
    for file in ["filters/src/lib.rs", "sim/src/lib.rs"] {
        assert!(text(file).contains("#![forbid(unsafe_code)]"), "{file}");
    }
}

#[test]
fn each_breach_is_found() {
    let check = |path: &str, text: &str, expected: usize| {
        let file = Text {
            path: path.into(),
            text: text.into(),
        };
        let found = breaches(&file);
        assert_eq!(found.len(), expected, "{path} {text:?}: {found:?}");
    };
    check("src/a.rs", "//! A note.\nfn a() {}\n", 0);
    check("src/a.rs", "fn a() {}\n", 1);
    check("src/a/tests.rs", "use super::*;\n", 0);
    check("tests/it/a.rs", "use super::*;\n", 0);
    check(
        "src/a.rs",
        &format!("//! A note.\n{}", "\n".repeat(LONGEST)),
        1,
    );
    check(
        "src/a.rs",
        concat!("//! A note.\n#[al", "low(dead_code)]\n"),
        1,
    );
    check(
        "src/a.rs",
        concat!("//! A note.\n#![al", "low(dead_code)]\n"),
        1,
    );
    check(
        "src/a.rs",
        concat!("//! A note.\n#[cfg_attr(test, al", "low(dead_code))]\n"),
        1,
    );
    check("src/a.rs", "//! A note.\nif tags.allow(tag) {}\n", 0);
    check("src/a.rs", concat!("//! A note.\n#[ig", "nore]\n"), 1);
    check(
        "src/a.rs",
        concat!("//! A note.\nfn a() { to", "do!() }\n"),
        1,
    );
    check("src/a.rs", concat!("//! A note.\n// FIX", "ME\n"), 1);
    check("src/a.rs", "//! A note.\nlet a = Instant::now();\n", 1);
    check(
        "src/a.rs",
        "//! A note.\n#[cfg(test)]\nlet a = Instant::now();\n",
        0,
    );
    check(
        "src/exchange.rs",
        "//! A note.\nlet a = Instant::now();\n",
        0,
    );
    check("sim/src/a.rs", "//! A note.\nlet a = Instant::now();\n", 0);
}

fn breaches(file: &Text) -> Vec<String> {
    let Text { path, text } = file;
    let mut found = Vec::new();
    let mut breach = |what: String| found.push(format!("{path}: {what}"));
    let is_product = ["src/", "filters/src/", "sim/src/"]
        .iter()
        .any(|folder| path.starts_with(folder));
    if is_product && !path.ends_with("/tests.rs") && !text.starts_with("//! ") {
        breach("found no `//!` note at the top, which says what comes in, what goes out, what never happens".into());
    }
    let lines = text.lines().count();
    if lines > LONGEST {
        breach(format!("found {lines} lines, allowed are {LONGEST}"));
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = forbidden(line) {
            breach(format!("line {}: found `{word}`", number + 1));
        }
    }
    if path.starts_with("src/") && !CLOCKS.contains(&path.as_str()) {
        let served = text.split("#[cfg(test)]").next().unwrap_or_default();
        for clock in ["Instant::now", "SystemTime::now"] {
            if served.contains(clock) {
                breach(format!(
                    "found `{clock}`, only {CLOCKS:?} may read the clock"
                ));
            }
        }
    }
    found
}

// Written in halves, so that this file may stand before its own judge.
fn forbidden(line: &str) -> Option<&'static str> {
    const ALLOW: &str = concat!("al", "low(");
    const WORDS: [&str; 5] = [
        concat!("#[ig", "nore"),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    let line = line.trim_start();
    if line.starts_with("#[") || line.starts_with("#![") {
        let lints = line.replace(concat!("dis", "al", "low("), "");
        if lints.contains(ALLOW) {
            return Some(ALLOW);
        }
    }
    WORDS.into_iter().find(|word| line.contains(word))
}
