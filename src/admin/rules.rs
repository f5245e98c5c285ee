//! `/v1/rules`: the base, whole.
//!
//! In: GET, or PUT with the rules as JSON. Out: the rules in force, or the version that came of them. Secrets are hidden; who
//! sends the mark back that stands for one means the one in force. A PUT is checked whole and put in force whole, or
//! changes nothing. Each change is logged with who made it and what became of it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use greylag_filters::rules::{self, Rules};
use serde::Serialize;

use super::audit::{Note, Trial};
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs};
use super::{LONGEST, body};
use crate::side::Sides;
use crate::snapshot::{EntityTags, Refused, Snapshot};

/// `GET /v1/rules`.
pub async fn read(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    Ok((
        about(&sides, &snapshot),
        Json(snapshot.rules.written().hidden()).into_response(),
    ))
}

/// What a PUT came to.
#[derive(Debug, Serialize)]
struct Published {
    /// The version in force; of a dry run, the version that it would be.
    version: u64,
    /// The hash of the rules that were sent.
    hash: String,
    /// Whether they only were compiled.
    dry_run: bool,
}

/// `PUT /v1/rules`.
pub async fn replace(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let dry_run = is_dry_run(pairs)?;
    body::is_json(&headers)?;
    let expected = if_match(&headers);
    let body = body.map_err(|rejection| body::unreadable(rejection, LONGEST))?;
    let rules: Rules =
        body::parse(&body, |body| serde_json::from_slice(body)).inspect_err(|_| {
            tried(&sides, dry_run, "invalid");
        })?;
    let in_force = sides.shared.store.current();
    let rules = rules.revealed(in_force.rules.written());
    if dry_run {
        let tried = try_out(&sides, &rules, expected.as_ref())?;
        return Ok((Extension(Trial), tried).into_response());
    }
    match sides.shared.store.publish(&rules, expected.as_ref()) {
        Ok(snapshot) => {
            sides.shared.telemetry.models.learn(&snapshot);
            tried(&sides, dry_run, "ok");
            let (hash, version) = (hex(snapshot.rules.hash()), snapshot.version);
            Ok((
                about(&sides, &snapshot),
                Extension(Note {
                    version: Some(version),
                    reason: None,
                }),
                Json(Published {
                    version,
                    hash,
                    dry_run,
                }),
            )
                .into_response())
        }
        Err(Refused::Conflict { current }) => {
            tried(&sides, dry_run, "conflict");
            Err(conflict(&current))
        }
        Err(Refused::Problems(problems)) => {
            tried(&sides, dry_run, "invalid");
            Err(invalid(problems))
        }
    }
}

type Answer = ([(&'static str, String); 3], Json<Published>);

// What a publication would say, and nothing is published.
fn try_out(sides: &Sides, rules: &Rules, expected: Option<&EntityTags>) -> Result<Answer, Problem> {
    let tried = sides.shared.store.try_out(rules).map_err(invalid)?;
    let current = sides.shared.store.current();
    let tag = sides.shared.store.entity_tag(&current);
    if expected.is_some_and(|expected| !expected.allow(&tag)) {
        return Err(conflict(&tag));
    }
    let published = Published {
        version: tried.version,
        hash: hex(tried.rules.hash()),
        dry_run: true,
    };
    Ok((about(sides, &current), Json(published)))
}

// The rules in force, as fields of the head.
fn about(sides: &Sides, snapshot: &Arc<Snapshot>) -> [(&'static str, String); 3] {
    [
        ("etag", sides.shared.store.entity_tag(snapshot)),
        ("x-greylag-rules-version", snapshot.version.to_string()),
        ("x-greylag-rules-hash", hex(snapshot.rules.hash())),
    ]
}

fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

fn tried(sides: &Sides, dry_run: bool, result: &'static str) {
    if !dry_run {
        sides.shared.telemetry.metrics.reloaded(result);
    }
}

fn is_dry_run(pairs: Pairs) -> Result<bool, Problem> {
    let [dry_run] = query::take(pairs, ["dry_run"])?;
    match dry_run.as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let found = start(other);
            Err(query::bad(format!(
                "dry_run: found {found:?}, allowed are true and false"
            )))
        }
    }
}

// Several fields are one list (RFC 9110 §5.3).
fn if_match(headers: &HeaderMap) -> Option<EntityTags> {
    let values = headers.get_all(header::IF_MATCH).iter();
    let values: Vec<&str> = values
        .map(|value| value.to_str().unwrap_or_default())
        .collect();
    (!values.is_empty()).then(|| EntityTags::parse(&values.join(",")))
}

fn conflict(current: &str) -> Problem {
    let what = format!(
        "If-Match does not name the rules in force, which are {current}; read them again and edit those"
    );
    Problem::new(Code::Conflict, what)
}

fn invalid(problems: Vec<rules::Problem>) -> Problem {
    let found = match problems.len() {
        1 => "there is 1 problem".to_owned(),
        many => format!("there are {many} problems"),
    };
    Problem::new(Code::InvalidRules, format!("{found}; nothing was changed")).with(problems)
}
