//! `ctl rules`: the rules, whole.
//!
//! In: a file of YAML or JSON: the rules themselves, or a whole configuration, of which the rules are taken. Out: what became of them, or
//! everything in it that cannot be read, as `greylag check` says it. Whether they fit together is said by the Greylag that has them.

use std::io::Read as _;
use std::path::Path;

use greylag_filters::rules::Rules;

use super::change::{self, Terms};
use super::failure::Failure;
use super::fleet::{Said, hear};
use super::plain;
use crate::cli::api::{Api, Ask};
use crate::cli::{Exit, complain};
use crate::config::Config;

/// The longest file that is read, in bytes: as long as what the API takes.
const LONGEST: usize = crate::admin::LONGEST;

/// Asks for the rules; with what lies on the base, if `in_force`.
///
/// # Errors
/// Why there are none.
pub async fn get(api: &Api, in_force: bool) -> Result<Said, Failure> {
    let ask = Ask::get("/v1/rules").query("in_force", in_force.then_some("true"));
    let heard = hear(api, ask).await?;
    let text = yaml(&heard.answer.text());
    Ok(heard.said(text))
}

/// Replaces the base by these rules.
///
/// # Errors
/// Why it was not replaced.
pub async fn put(api: &Api, json: &str, terms: &Terms) -> Result<Said, Failure> {
    let ask = Ask::put("/v1/rules", json.to_owned());
    change::make(api, ask, terms, None).await
}

/// Rules in JSON as YAML, in the order in which they are written; of a Greylag whose rules have keys that are not known here, as JSON.
pub fn yaml(json: &str) -> String {
    let rules: Option<Rules> = serde_json::from_str(json).ok();
    let yaml = rules.and_then(|rules| serde_saphyr::to_string(&rules).ok());
    match yaml {
        Some(yaml) if plain::is_plain(&yaml) => yaml.trim_end().to_owned(),
        Some(_) | None => plain::json(json.trim_end()),
    }
}

/// The rules in a file, as JSON; `-` is standard input.
///
/// # Errors
/// How the command ends, once what is wrong with the file was said.
pub fn read(file: &Path) -> Result<String, Exit> {
    let is_stdin = file == Path::new("-");
    let name = match is_stdin {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let unreadable = |error: std::io::Error| {
        complain(&format_args!("{name}: {error}"));
        Exit::System
    };
    let mut bytes = Vec::new();
    match is_stdin {
        true => std::io::stdin()
            .take(LONGEST as u64 + 1)
            .read_to_end(&mut bytes),
        false => {
            let opened = std::fs::File::open(file).map_err(unreadable)?;
            opened.take(LONGEST as u64 + 1).read_to_end(&mut bytes)
        }
    }
    .map_err(unreadable)?;
    let wrong = |what: &dyn std::fmt::Display| {
        complain(what);
        Exit::Input
    };
    if bytes.len() > LONGEST {
        return Err(wrong(&format_args!(
            "{name}: found more than {LONGEST} bytes, which the API does not take"
        )));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| {
        wrong(&format_args!(
            "{name}: found bytes that are not UTF-8; rules are UTF-8 text"
        ))
    })?;
    let rules = Config::read_rules(&text, &name).map_err(|fault| wrong(&fault))?;
    Ok(json(&rules))
}

/// Rules as they are sent.
pub fn json(rules: &Rules) -> String {
    serde_json::to_string(rules).expect("rules have text for keys, so they can be written")
}
