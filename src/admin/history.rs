//! `/v1/history`: what was in force before, who changed it and why; and how it is put in force again.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use greylag_filters::layers::Diff;
use greylag_filters::rules::Rules;
use schemars::JsonSchema;
use serde::Serialize;

use super::change::{self, Changed, Dropped, Terms};
use super::operation::Operation;
use super::overlays;
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs, Param, ParamKind};
use super::step::Step;
use super::who::Who;
use crate::side::Sides;
use crate::store::history::MOST;
use crate::store::{Entry, Shown, Wish};

const LIMIT: Param = Param {
    name: "limit",
    what: "The most versions that are listed. Default: all that are kept.",
    kind: ParamKind::UpTo(MOST),
};

/// What can be asked of it.
pub fn operations() -> Vec<Operation> {
    vec![
        Operation::read::<Versions<'_>>(
            "/v1/history",
            "The last versions, newest first",
            get(list),
        )
        .query(&[LIMIT]),
        Operation::read::<Whole<'_>>(
            "/v1/history/{version}",
            "One version: what it changed, and what it was made of",
            get(one),
        )
        .problems(&[Code::NotFound]),
        Operation::act::<Changed>(
            Method::POST,
            "/v1/history/{version}/restore",
            "Puts the base and the overlays of a version in force again, as a new version",
            post(restore),
        )
        .query(change::TERMS)
        .problems(change::NAMED_PROBLEMS)
        .tagged(),
    ]
}

#[derive(Debug, JsonSchema, Serialize)]
struct Versions<'a> {
    versions: Vec<Listed<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ListedVersion")]
struct Listed<'a> {
    #[serde(flatten)]
    shown: Shown<'a>,
    /// How many places of the rules in force it changed.
    changes: usize,
}

#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WholeVersion")]
struct Whole<'a> {
    #[serde(flatten)]
    shown: Shown<'a>,
    /// What it changed of the rules in force.
    diff: &'a Diff,
    /// The overlays that it had no place for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<Dropped>,
    /// The base, secrets hidden.
    rules: Rules,
    /// What lay on it.
    overlays: Vec<overlays::Shown>,
}

impl Whole<'_> {
    fn of(entry: &Entry) -> Whole<'_> {
        Whole {
            shown: entry.shown(),
            diff: &entry.diff,
            dropped: entry.dropped.iter().map(Dropped::of).collect(),
            rules: entry.layers.base.hidden(),
            overlays: entry
                .layers
                .overlays
                .iter()
                .map(overlays::Shown::of)
                .collect(),
        }
    }
}

async fn list(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [limit] = query::take(pairs, [&LIMIT])?;
    let limit = LIMIT.up_to(limit, MOST)?.unwrap_or(MOST);
    let entries = sides.shared.store.history();
    let versions = entries.iter().take(limit).map(|entry| Listed {
        shown: entry.shown(),
        changes: entry.diff.changes.len() + entry.diff.more,
    });
    let versions = Versions {
        versions: versions.collect(),
    };
    Ok(Json(versions).into_response())
}

async fn one(
    State(sides): State<Sides>,
    Step(version): Step,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let version = read(&version)?;
    match sides.shared.store.version(version) {
        Some(entry) => Ok(Json(Whole::of(&entry)).into_response()),
        None => Err(Problem::new(
            Code::NotFound,
            format!("version {version} is not among the last ones; /v1/history lists them"),
        )),
    }
}

async fn restore(
    State(sides): State<Sides>,
    who: Who,
    Step(version): Step,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let terms = Terms::take(&sides, pairs, &headers)?;
    change::make(&sides, &who, terms, Wish::Restore(read(&version)?)).await
}

fn read(version: &str) -> Result<u64, Problem> {
    version.parse().map_err(|_| {
        let found = start(version);
        Problem::new(
            Code::NotFound,
            format!("found {found:?}, where a version is a whole number"),
        )
    })
}
