//! Changes of the rules: on which terms they are asked for, what came of them, and until when they are waited for.
//!
//! In: a request that changes something. Out: the version that came of it, with what differs, for people. Nothing is sent twice: who
//! hears no answer is told so, and looks.

use std::time::Duration;

use clap::Args;
use http::HeaderValue;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::failure::Failure;
use super::fleet::{Said, hear};
use super::plain::{self, said};
use crate::cli::api::{Api, Ask};
use crate::cli::period::period;

/// How long between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(200);

/// On which terms the rules are changed.
#[derive(Debug, Clone, Default, Args)]
pub struct Terms {
    /// Why, for those who look at it later
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Only say what would be
    #[arg(long)]
    pub dry_run: bool,
    /// Only if what has this tag is still in force; `status` shows it
    #[arg(long, value_name = "TAG", value_parser = tag)]
    pub if_match: Option<HeaderValue>,
    /// Then wait until every Greylag says that this or a later version is in force, at most so long, such as 30s
    #[arg(long, value_name = "TIMEOUT", value_parser = period, conflicts_with = "dry_run")]
    pub wait: Option<Duration>,
}

/// On which terms something is laid on the rules.
#[derive(Debug, Clone, Default, Args)]
pub struct OverlayTerms {
    #[command(flatten)]
    pub terms: Terms,
    /// Lift it by itself then: a point in time, or how long from now, such as 30m
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
}

impl OverlayTerms {
    /// Whether anything was said.
    pub fn is_any(&self) -> bool {
        let Terms {
            reason,
            dry_run,
            if_match,
            wait,
        } = &self.terms;
        self.until.is_some() || reason.is_some() || *dry_run || if_match.is_some() || wait.is_some()
    }
}

// A tag is quoted, and a shell takes quotes off.
fn tag(text: &str) -> Result<HeaderValue, String> {
    let is_whole = text.starts_with(['"', '*']) || text.starts_with("W/");
    let whole = match is_whole {
        true => text.to_owned(),
        false => format!("\"{text}\""),
    };
    HeaderValue::try_from(whole).map_err(|_| "a tag is ASCII text on one line".to_owned())
}

/// Asks for a change on these terms. Whatever it was, the version before it can be restored, and people are told so.
///
/// # Errors
/// Why it was not made; or that it was made, and not seen in force in time.
pub async fn make(
    api: &Api,
    ask: Ask,
    terms: &Terms,
    until: Option<&str>,
) -> Result<Said, Failure> {
    let ask = ask
        .query("dry_run", terms.dry_run.then_some("true"))
        .query("reason", terms.reason.as_deref())
        .query("until", until)
        .expecting(terms.if_match.as_ref());
    let heard = hear(api, ask).await.map_err(Failure::of_change)?;
    let changed = &heard.value;
    let version = changed.get("version").and_then(Value::as_u64);
    let version = version.ok_or_else(|| Failure::odd(api, "it names no version of the rules"))?;
    let mut text = changes(changed);
    if !terms.dry_run {
        let before = version.saturating_sub(1);
        text.push_str(&format!(
            "\nundo, with the same options: ctl restore {before}"
        ));
    }
    let made = heard.said(text);
    let Some(patience) = terms.wait else {
        return Ok(made);
    };
    // Its hash is not waited for: somebody else may change the rules next.
    match in_force(api, &Wanted::Version(version), patience).await {
        Ok(_) => Ok(made),
        Err(why) => Err(Failure::Unseen {
            name: api.name(),
            made,
            why: Box::new(why),
        }),
    }
}

/// What is waited for.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// These rules.
    Hash(String),
    /// This version, or one after it.
    Version(u64),
}

/// Ends when this is in force.
///
/// # Errors
/// It was not, for so long; or it was refused to look.
pub async fn in_force(api: &Api, wanted: &Wanted, patience: Duration) -> Result<Said, Failure> {
    let mut last = None;
    let look = async {
        loop {
            match hear(api, Ask::get("/v1/status")).await {
                Ok(heard) => {
                    let rules = heard.value.get("rules").unwrap_or(&Value::Null);
                    let version = rules.get("version").and_then(Value::as_u64);
                    let hash = rules.get("hash").and_then(Value::as_str);
                    let (Some(version), Some(hash)) = (version, hash) else {
                        return Err(Failure::odd(
                            api,
                            "it names no version and hash of the rules",
                        ));
                    };
                    let is_it = match wanted {
                        Wanted::Hash(wanted) => hash.eq_ignore_ascii_case(wanted),
                        Wanted::Version(wanted) => version >= *wanted,
                    };
                    let text = format!("version {version} is in force, hash {}", plain::line(hash));
                    if is_it {
                        return Ok(heard.said(text));
                    }
                    last = Some(Failure::Late {
                        name: api.name(),
                        found: text,
                    });
                }
                // Who restarts is away for a while.
                Err(failure) if failure.may_pass() => last = Some(failure),
                Err(failure) => return Err(failure),
            }
            sleep(PAUSE).await;
        }
    };
    match timeout(patience, look).await {
        Ok(done) => done,
        Err(_) => Err(last.unwrap_or_else(|| Failure::Late {
            name: api.name(),
            found: "it did not say in time what is in force".to_owned(),
        })),
    }
}

// What a change came to.
fn changes(changed: &Value) -> String {
    let (version, hash) = (said(changed, "version"), said(changed, "hash"));
    let is_dry = changed.get("dry_run") == Some(&Value::Bool(true));
    let mut lines = vec![match is_dry {
        true => format!("nothing was changed; it would be version {version}, hash {hash}"),
        false => format!("version {version} is in force, hash {hash}"),
    }];
    lines.extend(differences(changed.get("diff")));
    lines.extend(dropped(changed.get("dropped")));
    if changed.get("saved") == Some(&Value::Bool(false)) {
        lines.push(
            "it is not in the state file, and is gone when the process ends; `status` says why"
                .into(),
        );
    }
    lines.join("\n")
}

/// A line for each place that differs.
pub fn differences(diff: Option<&Value>) -> Vec<String> {
    let get = |key: &str| diff.and_then(|diff| diff.get(key));
    let changes = get("changes").and_then(Value::as_array);
    let mut lines: Vec<String> = changes.into_iter().flatten().map(difference).collect();
    let more = get("more").and_then(Value::as_u64).unwrap_or_default();
    if more > 0 {
        lines.push(format!("  and {more} places more"));
    }
    if get("reordered") == Some(&Value::Bool(true)) {
        lines.push("  the order is another".to_owned());
    }
    if lines.is_empty() {
        lines.push("  what is in force does not differ".to_owned());
    }
    lines
}

fn difference(change: &Value) -> String {
    let path = said(change, "path");
    let side = |key: &str| change.get(key).map(|value| plain::json(&value.to_string()));
    match (side("before"), side("after")) {
        (Some(before), Some(after)) => format!("  {path}: {before} -> {after}"),
        (None, Some(after)) => format!("  {path}: {after} is new"),
        (Some(before), None) => format!("  {path}: {before} is gone"),
        (None, None) => format!("  {path}"),
    }
}

/// A line for each overlay that had no place any more.
pub fn dropped(dropped: Option<&Value>) -> Vec<String> {
    let dropped = dropped.and_then(Value::as_array).into_iter().flatten();
    dropped
        .map(|one| {
            let id = said(one, "id");
            let why = one.get("why").and_then(Value::as_array);
            let why: Vec<String> = why.into_iter().flatten().map(plain::value).collect();
            format!("  overlay {id} is gone: {}", why.join("; "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_change_came_to_is_told() {
        let changed = json!({
            "version": 3, "hash": "ab", "dry_run": false, "saved": false,
            "diff": { "changes": [
                { "path": "rules.a", "before": 90, "after": 50 },
                { "path": "rules.b", "after": { "x": "\u{1b}" } },
                { "path": "rules.c", "before": "d" },
            ], "more": 2, "reordered": true },
            "dropped": [{ "id": "weights:a", "why": ["no split", "no engine"] }],
        });
        let expected = "version 3 is in force, hash ab\n  rules.a: 90 -> 50\n  rules.b: {\"x\":\"\\u001b\"} is new\n  \
            rules.c: \"d\" is gone\n  and 2 places more\n  the order is another\n  \
            overlay weights:a is gone: no split; no engine\n\
            it is not in the state file, and is gone when the process ends; `status` says why";
        assert_eq!(changes(&changed), expected);
        let dry = json!({ "version": 3, "hash": "ab", "dry_run": true, "diff": { "changes": [] } });
        let expected = "nothing was changed; it would be version 3, hash ab\n  what is in force does not differ";
        assert_eq!(changes(&dry), expected);
    }

    #[test]
    fn a_tag_needs_no_quotes() {
        for (text, expected) in [
            ("1f-2", "\"1f-2\""),
            ("\"1f-2\"", "\"1f-2\""),
            ("*", "*"),
            ("W/\"a\"", "W/\"a\""),
        ] {
            assert_eq!(tag(text).unwrap(), expected);
        }
        assert!(tag("a\nb").is_err());
    }
}
