//! Reads a configuration file.
//!
//! In: a path, or a text and its name; and the environment. Out: a [`Config`] that fits together, or a [`Fault`] with one line for
//! each thing that is wrong. A fault names places, keys and single values; it never shows the lines around them, which may hold
//! secrets.

use std::path::Path;

use greylag_filters::rules::{self, Problem, Rules};

use super::nearest;
use super::survey::{self, Finding, Survey};
use super::tree::{self, Origin as From, Place, Tree};
use super::{Config, Environment, OnBadRules, Origin, wording};
use crate::files::{self, Stamp, stamp};

/// The longest file that is read, in bytes.
const LONGEST: u64 = 16 << 20;

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
        // Before it is read: a later change shows as another stamp.
        let stamp = stamp(path);
        let text = text_of(path)?;
        let config = Config::read_with(&text, &path.display().to_string(), environment)?;
        Ok(config.of_file(&text, path, stamp, environment))
    }

    /// The same for a process that begins with it. Rules that cannot be used leave the default engine alone, where `on_bad_rules`
    /// says so; what is wrong with them is then in `bad_rules`.
    ///
    /// # Errors
    /// A [`Fault`].
    pub fn begin_with(path: &Path, environment: &Environment) -> Result<Config, Fault> {
        let stamp = stamp(path);
        let text = text_of(path)?;
        match attempt(&text, &path.display().to_string(), environment) {
            Ok(config) => Ok(config.of_file(&text, path, stamp, environment)),
            Err((fault, None)) => Err(fault),
            Err((fault, Some(config))) => {
                let config = config.with(environment)?;
                match (config.on_bad_rules, config.rules.pass_through()) {
                    (OnBadRules::PassThrough, Some(rules)) => {
                        let bad_rules = fault.to_string().lines().map(str::to_owned).collect();
                        let config = Config {
                            rules,
                            bad_rules,
                            ..config
                        };
                        Ok(config.of_file(&text, path, stamp, environment))
                    }
                    (OnBadRules::Exit | OnBadRules::PassThrough, _) => Err(fault),
                }
            }
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
        attempt(text, name, environment).map_err(|(fault, _)| fault)
    }

    fn of_file(
        mut self,
        text: &str,
        path: &Path,
        stamp: Stamp,
        environment: &Environment,
    ) -> Config {
        self.origin = Some(Origin::of(&self, text, path, stamp, environment));
        self
    }
}

// What is wrong, and what else could be read where that is the rules alone.
pub(super) type Failed = (Fault, Option<Box<Config>>);

fn attempt(text: &str, name: &str, environment: &Environment) -> Result<Config, Failed> {
    let whole = |fault: Fault| (fault, None);
    let mut tree = None;
    let config = match (parse(text, name).map_err(whole)?, environment.sets_keys()) {
        (Ok(config), false) => config,
        (parsed, _) => {
            let planted = planted(parsed.as_ref().err(), text, name).map_err(whole)?;
            let tree = tree.insert(planted);
            overridden(parsed, tree, environment).map_err(|survey| survey.failed(name))?
        }
    };
    let mut problems = config.problems();
    problems.extend(rules::compile(&config.rules).err().unwrap_or_default());
    if problems.is_empty() {
        return config.with(environment).map_err(whole);
    }
    // Places are only looked for where they are needed: the file is read a second time for them.
    let tree = match tree {
        Some(tree) => Some(tree),
        None => Tree::read(text).ok(),
    };
    let finding = |problem: Problem| Finding {
        origin: tree
            .as_ref()
            .map_or(From::Nowhere, |tree| tree.find(&problem.path)),
        what: problem.what.clone() + &nearest::engine(&config.rules, &problem),
        path: problem.path,
    };
    let survey = Survey {
        findings: problems.into_iter().map(finding).collect(),
        rest: Some(Box::new(config)),
    };
    Err(survey.failed(name))
}

impl Survey {
    pub(super) fn failed(self, name: &str) -> Failed {
        let rest = self.rest.filter(|rest| {
            let of_rules = |finding: &Finding| is_of_other_rules(finding, &rest.rules);
            self.findings.iter().all(of_rules)
        });
        (listed(name, self.findings), rest)
    }
}

// Whether it is about the rules, and not about the engine that is served whatever else they say.
fn is_of_other_rules(finding: &Finding, rules: &Rules) -> bool {
    let path = &*finding.path;
    let default = rules.default_engine.as_str();
    let default = format!("rules.engines{}", rules::Step(default));
    let rest = path.strip_prefix(&*default);
    let is_defaults = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    (path == "rules" || path.starts_with("rules.")) && !is_defaults
}

pub(super) fn text_of(path: &Path) -> Result<String, Fault> {
    let name = path.display().to_string();
    let bytes = files::read(path, LONGEST).map_err(|error| Fault::Unreadable {
        path: name.clone(),
        error,
    })?;
    String::from_utf8(bytes).map_err(|fault| not_text(fault.as_bytes(), fault.utf8_error(), &name))
}

// What serde makes of the text, if it is one document.
pub(super) fn parse(text: &str, name: &str) -> Result<Result<Config, serde_saphyr::Error>, Fault> {
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
) -> Result<Config, Survey> {
    let mut findings = environment.override_in(tree);
    let mut rest = None;
    match (survey::read(tree), parsed) {
        // Nothing took the place of what could not be read.
        (Ok(_), Err(error)) if !environment.sets_keys() => {
            findings.push(survey::general(&error));
        }
        (Ok(config), _) if findings.is_empty() => return Ok(config),
        (Ok(_), _) => {}
        (Err(more), _) => {
            findings.extend(more.findings);
            rest = more.rest;
        }
    }
    Err(Survey { findings, rest })
}

// The text as a tree, or why it is none: what stopped the first reader, if that is known.
pub(super) fn planted(
    first: Option<&serde_saphyr::Error>,
    text: &str,
    name: &str,
) -> Result<Tree, Fault> {
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

pub(super) fn malformed(name: &str, place: Option<Place>, what: String) -> Fault {
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
        From::Nowhere => format!("{name}: {about}{what}"),
        From::File(place) => format!("{name}:{}{about}{what}", prefix(Some(*place))),
        // The variable's name says the key.
        From::Variable(variable) if *super::environment::name(path) == **variable => {
            format!("environment: {variable}: {what}")
        }
        From::Variable(variable) => format!("environment: {variable}: {about}{what}"),
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
