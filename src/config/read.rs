//! Reads a configuration file.
//!
//! In: a path, or a text and its name; and the environment. Out: a [`Config`] that fits together, or a [`Fault`] with one line for
//! each thing that is wrong. A fault names places, keys and single values; it never shows the lines around them, which may hold
//! secrets.

use std::path::Path;

use greylag_filters::rules::{self, Problem};

use super::nearest;
use super::survey::{self, Finding};
use super::tree::{self, Origin, Place, Tree};
use super::{Config, Environment, wording};

/// Why a configuration cannot be used; each line of it is a sentence for people.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not YAML.
    #[error("{path}:{place}{what}")]
    Malformed {
        /// The file.
        path: String,
        /// `LINE:COLUMN: `, or a space where it is not known.
        place: String,
        /// What was found and what is allowed.
        what: String,
    },
    /// The file, or the environment, says things that have no meaning here, or that do not fit together; all of them.
    #[error("{}", problems.join("\n"))]
    Problems {
        /// One line each, in the order of their lines: `FILE:LINE:COLUMN: PATH: WHAT`, or `environment: NAME: WHAT`.
        problems: Vec<String>,
    },
}

impl Config {
    /// Reads and checks a file alone, without the environment.
    ///
    /// # Errors
    /// A [`Fault`].
    pub fn load(path: &Path) -> Result<Config, Fault> {
        Config::load_with(path, &Environment::default())
    }

    /// Reads and checks a file and what the environment says instead.
    ///
    /// # Errors
    /// A [`Fault`].
    pub fn load_with(path: &Path, environment: &Environment) -> Result<Config, Fault> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Fault::Unreadable {
            path: name.clone(),
            error,
        })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Config::read_with(text, &name, environment),
            Err(fault) => Err(not_text(&bytes, fault, &name)),
        }
    }

    /// Reads and checks the text of a file called `name` alone, without the environment.
    ///
    /// # Errors
    /// A [`Fault`].
    pub fn read(text: &str, name: &str) -> Result<Config, Fault> {
        Config::read_with(text, name, &Environment::default())
    }

    /// Reads and checks the text of a file called `name`, and what the environment says instead.
    ///
    /// # Errors
    /// A [`Fault`]: all that cannot be read or, once all can, all that does not fit together.
    pub fn read_with(text: &str, name: &str, environment: &Environment) -> Result<Config, Fault> {
        let mut tree = None;
        let config = match (parse(text, name)?, environment.sets_keys()) {
            (Ok(config), false) => config,
            (parsed, _) => {
                let tree = tree.insert(planted(parsed.as_ref().err(), text, name)?);
                overridden(parsed, tree, environment).map_err(|all| listed(name, all))?
            }
        };
        let mut problems = config.problems();
        problems.extend(rules::compile(&config.rules).err().unwrap_or_default());
        if problems.is_empty() {
            return config.with(environment);
        }
        // Places are only looked for where they are needed: the file is read a second time for them.
        let tree = match tree {
            Some(tree) => Some(tree),
            None => Tree::read(text).ok(),
        };
        let finding = |problem: Problem| Finding {
            origin: tree
                .as_ref()
                .map_or(Origin::Nowhere, |tree| tree.find(&problem.path)),
            what: problem.what.clone() + &nearest::engine(&config.rules, &problem),
            path: problem.path,
        };
        Err(listed(name, problems.into_iter().map(finding).collect()))
    }
}

// What serde makes of the text, if it is one document.
fn parse(text: &str, name: &str) -> Result<Result<Config, serde_saphyr::Error>, Fault> {
    // Said before the first document is found to be half a configuration.
    if let Some(line) = second_document(text) {
        let what = wording::SECOND_DOCUMENT.to_owned();
        return Err(malformed(name, Some((line, 1)), what));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    Ok(serde_saphyr::from_str_with_options(text, options))
}

// What a text says that was parsed, with what the environment says instead; or all that cannot be read.
fn overridden(
    parsed: Result<Config, serde_saphyr::Error>,
    tree: &mut Tree,
    environment: &Environment,
) -> Result<Config, Vec<Finding>> {
    let mut findings = environment.override_in(tree);
    match (survey::read(tree), parsed) {
        // Nothing took the place of what could not be read.
        (Ok(_), Err(error)) if !environment.sets_keys() => {
            findings.push(survey::general(&error));
        }
        (Ok(config), _) if findings.is_empty() => return Ok(config),
        (Ok(_), _) => {}
        (Err(more), _) => findings.extend(more),
    }
    Err(findings)
}

// The text as a tree, or why it is none: what stopped the first reader, if that is known.
fn planted(first: Option<&serde_saphyr::Error>, text: &str, name: &str) -> Result<Tree, Fault> {
    if let Some(error @ serde_saphyr::Error::Eof { .. }) = first {
        let place = error.location().map(tree::place);
        return Err(malformed(name, place, survey::general(error).what));
    }
    Tree::read(text).map_err(|error| {
        let error = first.unwrap_or(&error);
        let place = error.location().map(tree::place);
        match place.and_then(|(line, _)| tab_in_indentation(text, line)) {
            Some(tab) => {
                let what = "found a tab in the indentation; YAML is indented by spaces";
                malformed(name, Some(tab), what.to_owned())
            }
            None => malformed(name, place, survey::general(error).what),
        }
    })
}

fn malformed(name: &str, place: Option<Place>, what: String) -> Fault {
    Fault::Malformed {
        path: name.to_owned(),
        place: prefix(place),
        what,
    }
}

// `LINE:COLUMN: ` as it follows `FILE:`; a space where the place is not known.
fn prefix(place: Option<Place>) -> String {
    match place {
        Some((line, column)) => format!("{line}:{column}: "),
        None => " ".to_owned(),
    }
}

// In the order of their lines, with the environment's at the end.
fn listed(name: &str, mut findings: Vec<Finding>) -> Fault {
    findings.sort_by(|a, b| a.origin.cmp(&b.origin));
    Fault::Problems {
        problems: findings.iter().map(|finding| line(name, finding)).collect(),
    }
}

fn line(name: &str, finding: &Finding) -> String {
    let Finding { origin, path, what } = finding;
    let about = match path.as_str() {
        "" => String::new(),
        path => format!("{path}: "),
    };
    match origin {
        Origin::Nowhere => format!("{name}: {about}{what}"),
        Origin::File(place) => format!("{name}:{}{about}{what}", prefix(Some(*place))),
        // The variable's name says the key.
        Origin::Variable(variable) if *super::environment::name(path) == **variable => {
            format!("environment: {variable}: {what}")
        }
        Origin::Variable(variable) => format!("environment: {variable}: {about}{what}"),
    }
}

// The line of a `---` that has something before it. At the beginning of a line it is a marker wherever it stands.
fn second_document(text: &str) -> Option<u64> {
    let mut is_begun = false;
    for (number, line) in (1..).zip(text.lines()) {
        let is_marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if is_marker && is_begun {
            return Some(number);
        }
        let is_aside =
            line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with('%');
        is_begun = is_begun || is_marker || !is_aside;
    }
    None
}

fn tab_in_indentation(text: &str, number: u64) -> Option<Place> {
    let line = text
        .lines()
        .nth(usize::try_from(number).ok()?.checked_sub(1)?)?;
    let indentation = line.bytes().take_while(|b| matches!(b, b' ' | b'\t'));
    let column = indentation
        .zip(1..)
        .find_map(|(b, column)| (b == b'\t').then_some(column))?;
    Some((number, column))
}

fn not_text(bytes: &[u8], fault: std::str::Utf8Error, name: &str) -> Fault {
    let before = bytes.get(..fault.valid_up_to()).unwrap_or_default();
    let before = String::from_utf8_lossy(before);
    let line = before.matches('\n').count() as u64 + 1;
    let last = before.rsplit_once('\n').map_or(&*before, |(_, last)| last);
    let place = (line, last.chars().count() as u64 + 1);
    let what = "found bytes that are not UTF-8; a configuration is UTF-8 text";
    malformed(name, Some(place), what.to_owned())
}
