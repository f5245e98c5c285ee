//! `ctl status`: how things stand.
//!
//! In: what the API answers. Out: the same as lines and columns. What an API does not say is not shown, so that one of another version
//! can be asked too.

use serde_json::Value;

use super::engines;
use super::failure::Failure;
use super::fleet::{Heard, Said, hear};
use super::history::told;
use super::overlays;
use super::plain::{self, said};
use super::table::list;
use crate::cli::api::{Api, Ask};

/// Asks how things stand.
///
/// # Errors
/// Why that is not known.
pub async fn status(api: &Api) -> Result<Said, Failure> {
    let heard = hear(api, Ask::get("/v1/status")).await?;
    Ok(heard.said(standing(&heard)))
}

fn standing(heard: &Heard) -> String {
    let Heard { value, answer } = heard;
    let nothing = Value::Null;
    let rules = value.get("rules").unwrap_or(&nothing);
    let mut lines = vec![first_line(value)];
    let mut line = |name: &str, text: String| lines.push(format!("{name:<8} {text}"));
    let tag = answer.header("etag").unwrap_or("-").trim_matches('"');
    let (version, hash) = (said(rules, "version"), said(rules, "hash"));
    line(
        "rules",
        format!("version {version}, hash {hash}, tag {}", plain::line(tag)),
    );
    if let Some(published) = rules.get("published") {
        line("", told(published));
    }
    let base = match rules.get("base").and_then(Value::as_str) {
        Some("pass_through") => {
            "the default engine alone, since the file's rules could not be used".to_owned()
        }
        _ => format!("from {}", said(rules, "base")),
    };
    line("base", format!("{base}, hash {}", said(rules, "base_hash")));
    for (name, text) in file_lines(value.get("file"))
        .into_iter()
        .chain(state_line(value.get("state")))
    {
        line(name, text);
    }
    for latch in list(rules, "latches") {
        line("latch", plain::value(latch));
    }
    let mut text = lines.join("\n");
    for table in [overlays::table(rules), engines::states(value)] {
        let table = table.text_or("");
        if !table.is_empty() {
            text.push_str("\n\n");
            text.push_str(&table);
        }
    }
    text
}

/// The first line of how a Greylag stands.
pub fn first_line(value: &Value) -> String {
    let ready = match value.get("ready") {
        Some(Value::Bool(true)) => "ready",
        _ => "not ready",
    };
    format!(
        "greylag  {}, since {}, {ready}, {} in flight",
        said(value, "greylag"),
        said(value, "started"),
        said(value, "in_flight")
    )
}

fn file_lines(file: Option<&Value>) -> Vec<(&'static str, String)> {
    let Some(file) = file else {
        return Vec::new();
    };
    let (path, problems) = (said(file, "path"), list(file, "problems"));
    let mut lines = vec![match problems.len() {
        0 => ("file", format!("{path}: ok")),
        1 => ("file", format!("{path}: 1 problem")),
        many => ("file", format!("{path}: {many} problems")),
    }];
    lines.extend(problems.iter().map(|problem| ("", plain::value(problem))));
    let restart: Vec<String> = list(file, "needs_restart")
        .iter()
        .map(plain::value)
        .collect();
    if !restart.is_empty() {
        lines.push(("", format!("needs a restart: {}", restart.join(", "))));
    }
    lines
}

fn state_line(state: Option<&Value>) -> Option<(&'static str, String)> {
    let Some(state) = state else {
        let none = "none: what is set through the API is gone when the process ends";
        return Some(("state", none.to_owned()));
    };
    let path = said(state, "path");
    Some(match state.get("saved") {
        Some(Value::Bool(true)) => ("state", format!("{path}: saved")),
        _ => (
            "state",
            format!("{path}: not saved: {}", said(state, "why")),
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_told_with_its_problems_and_a_state_with_why_it_is_not_saved() {
        let file =
            json!({ "path": "/a", "problems": ["x", "\u{1b}"], "needs_restart": ["workers"] });
        let expected = [
            ("file", "/a: 2 problems"),
            ("", "x"),
            ("", "\\u{1b}"),
            ("", "needs a restart: workers"),
        ];
        let lines = file_lines(Some(&file));
        let lines: Vec<(&str, &str)> = lines
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        assert_eq!(lines, expected);
        let state = json!({ "path": "/b", "saved": false, "why": "no space" });
        assert_eq!(
            state_line(Some(&state)).unwrap().1,
            "/b: not saved: no space"
        );
        assert!(state_line(None).unwrap().1.starts_with("none"));
    }
}
