//! Reads a configuration file.
//!
//! In: a path, or a text and its name. Out: a [`Config`] that fits together, or a [`Fault`] with one line for each thing
//! that is wrong. A fault names places, keys and single values; it never shows the lines around them, which may hold
//! secrets.

use std::path::Path;

use greylag_filters::rules;

use super::place::{self, Places};
use super::wording;
use super::{Config, Origin};

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
    /// The file is not YAML, or says something that has no meaning here.
    #[error("{path}:{place}{what}")]
    Malformed {
        /// The file.
        path: String,
        /// `LINE:COLUMN: `, or a space where it is not known.
        place: String,
        /// What was found and what is allowed.
        what: String,
    },
    /// The file says things that do not fit together; all of them.
    #[error("{}", problems.join("\n"))]
    Problems {
        /// One line each: `FILE:LINE:COLUMN: PATH: WHAT`, in the order of their lines.
        problems: Vec<String>,
    },
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// A [`Fault`]; of what does not fit together, all at once.
    pub fn load(path: &Path) -> Result<Config, Fault> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Fault::Unreadable {
            path: name.clone(),
            error,
        })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => {
                let mut config = Config::read(text, &name)?;
                config.origin = Some(Origin::of(&config, path));
                Ok(config)
            }
            Err(fault) => Err(not_text(&bytes, fault, name)),
        }
    }

    /// Reads and checks the text of a file called `name`.
    ///
    /// # Errors
    /// A [`Fault`]; of what does not fit together, all at once.
    pub fn read(text: &str, name: &str) -> Result<Config, Fault> {
        let config: Config = parse(text, name)?;
        let mut problems = config.problems();
        problems.extend(rules::compile(&config.rules).err().unwrap_or_default());
        if problems.is_empty() {
            return Ok(config);
        }
        // Places are only looked for where they are needed: the file is read a second time for them.
        let places = Places::of(text);
        let mut lines: Vec<_> = problems
            .into_iter()
            .map(|problem| (places.find(&problem.path), problem))
            .collect();
        lines.sort_by_key(|(place, _)| *place);
        Err(Fault::Problems {
            problems: lines
                .into_iter()
                .map(|(place, problem)| format!("{name}:{}{problem}", place::prefix(place)))
                .collect(),
        })
    }
}

fn parse(text: &str, name: &str) -> Result<Config, Fault> {
    let malformed = |place, what| Fault::Malformed {
        path: name.to_owned(),
        place: place::prefix(place),
        what,
    };
    // Said before the first document is found to be half a configuration.
    if let Some(line) = second_document(text) {
        return Err(malformed(
            Some((line, 1)),
            wording::SECOND_DOCUMENT.to_owned(),
        ));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(place::of);
        match place.and_then(|(line, _)| tab_in_indentation(text, line)) {
            Some(tab) => malformed(
                Some(tab),
                "found a tab in the indentation; YAML is indented by spaces".to_owned(),
            ),
            None => malformed(place, wording::of(&error, &Places::of(text))),
        }
    })
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

fn tab_in_indentation(text: &str, number: u64) -> Option<(u64, u64)> {
    let line = text
        .lines()
        .nth(usize::try_from(number).ok()?.checked_sub(1)?)?;
    let indentation = line.bytes().take_while(|b| matches!(b, b' ' | b'\t'));
    let column = indentation
        .zip(1..)
        .find_map(|(b, column)| (b == b'\t').then_some(column))?;
    Some((number, column))
}

fn not_text(bytes: &[u8], fault: std::str::Utf8Error, path: String) -> Fault {
    let before = bytes.get(..fault.valid_up_to()).unwrap_or_default();
    let before = String::from_utf8_lossy(before);
    let line = before.matches('\n').count() as u64 + 1;
    let last = before.rsplit_once('\n').map_or(&*before, |(_, last)| last);
    Fault::Malformed {
        path,
        place: place::prefix(Some((line, last.chars().count() as u64 + 1))),
        what: "found bytes that are not UTF-8; a configuration is UTF-8 text".to_owned(),
    }
}
