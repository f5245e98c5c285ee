//! `/v1/splits`: who gets which share, and whether callers may choose.
//!
//! In: GET; PUT of weights or of a switch. Out: each split as it is in force, with what it has decided so far; or the version that came
//! of a change, which lies on the base until it is lifted.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use greylag_filters::layers::{Change, Force, Weights};
use greylag_filters::rules::{Name, Ordered};
use greylag_filters::split::{self, Weight};
use schemars::JsonSchema;
use serde::Serialize;

use super::change::{self, Changed, Terms};
use super::operation::Operation;
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs};
use super::step::Step;
use super::who::Who;
use crate::side::Sides;
use crate::snapshot::Snapshot;
use crate::store::Wish;

/// What can be asked of them.
pub fn operations() -> Vec<Operation> {
    const SOME: &[Code] = &[Code::NotFound];
    vec![
        Operation::read::<Splits>("/v1/splits", "All splits", get(list)).tagged(),
        Operation::read::<Split>("/v1/splits/{name}", "One split", get(one))
            .problems(SOME)
            .tagged(),
        Operation::read::<Ordered<Name, Weight>>(
            "/v1/splits/{name}/weights",
            "The weights of a split",
            get(weights),
        )
        .problems(SOME)
        .tagged(),
        Operation::act::<Changed>(
            Method::PUT,
            "/v1/splits/{name}/weights",
            "Moves a split: a weight for each of its engines",
            put(move_split),
        )
        .query(change::OVERLAY_TERMS)
        .takes::<Ordered<Name, Weight>>()
        .problems(change::NAMED_PROBLEMS)
        .tagged(),
        Operation::read::<bool>(
            "/v1/splits/{name}/force",
            "Whether callers may choose an engine of a split",
            get(force),
        )
        .problems(SOME)
        .tagged(),
        Operation::act::<Changed>(
            Method::PUT,
            "/v1/splits/{name}/force",
            "Lets callers choose an engine of a split, or not",
            put(switch),
        )
        .query(change::OVERLAY_TERMS)
        .takes::<bool>()
        .problems(change::NAMED_PROBLEMS)
        .tagged(),
    ]
}

#[derive(Debug, JsonSchema, Serialize)]
struct Splits {
    splits: Vec<Split>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Split {
    name: String,
    /// Its engines, in the order of the rules.
    engines: Vec<Share>,
    /// Who may choose; absent where nobody can.
    #[serde(skip_serializing_if = "Option::is_none")]
    force: Option<Forced>,
    /// The overlays that lie on it.
    overlays: Vec<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Share {
    engine: String,
    /// What it is called upstream and in metrics.
    tag: String,
    weight: u32,
    /// What its weight makes of all, from 0 to 1.
    share: f64,
    /// What it got of all that was decided since these rules were published; absent while nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_share: Option<f64>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Forced {
    header: String,
    on: bool,
}

impl Split {
    fn of(snapshot: &Snapshot, rule: &split::Rule) -> Split {
        let sum: u32 = rule.weights.iter().map(|(_, weight)| weight.get()).sum();
        let decided: BTreeMap<&str, f64> = snapshot
            .effective_shares()
            .into_iter()
            .filter(|(split, _, _)| *split == rule.name.as_str())
            .map(|(_, tag, share)| (tag, share))
            .collect();
        let tag = |name: &Name| {
            let engine = snapshot.rules.engines().iter();
            let mut engine = engine.filter(|engine| *engine.name == *name.as_str());
            engine.next().map_or("", |engine| &*engine.tag)
        };
        let engines = rule.weights.iter().map(|(name, weight)| Share {
            engine: name.as_str().to_owned(),
            tag: tag(name).to_owned(),
            weight: weight.get(),
            // Rules whose weights are all zero do not compile.
            share: f64::from(weight.get()) / f64::from(sum.max(1)),
            effective_share: decided.get(tag(name)).copied(),
        });
        let overlays = snapshot.layers.overlays.iter();
        let overlays = overlays.filter(|one| one.change.split() == Some(&rule.name));
        Split {
            name: rule.name.as_str().to_owned(),
            engines: engines.collect(),
            force: rule.force.as_ref().map(|force| Forced {
                header: force.header.clone(),
                on: force.on,
            }),
            overlays: overlays.map(|one| one.change.id().to_string()).collect(),
        }
    }
}

async fn list(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    let splits = snapshot.rules.written().splits.iter();
    let splits = splits.map(|rule| Split::of(&snapshot, rule)).collect();
    let about = change::about(&sides.shared.store, &snapshot);
    Ok((about, Json(Splits { splits })))
}

async fn one(
    State(sides): State<Sides>,
    Step(name): Step,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    let split = Split::of(&snapshot, find(&snapshot, &name)?);
    Ok((change::about(&sides.shared.store, &snapshot), Json(split)))
}

async fn weights(
    State(sides): State<Sides>,
    Step(name): Step,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    let weights = find(&snapshot, &name)?.weights.clone();
    Ok((change::about(&sides.shared.store, &snapshot), Json(weights)))
}

async fn move_split(
    State(sides): State<Sides>,
    who: Who,
    Step(name): Step,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let terms = Terms::of_overlay(&sides, pairs, &headers)?;
    let weights = change::wanted(&sides, &terms, &headers, body)?;
    let split = find(&sides.shared.store.current(), &name)?.name.clone();
    let until = terms.until;
    let wish = Wish::Overlay(Change::Weights(Weights { split, weights }), until);
    change::make(&sides, &who, terms, wish).await
}

async fn force(
    State(sides): State<Sides>,
    Step(name): Step,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    let on = switchable(find(&snapshot, &name)?)?.on;
    Ok((change::about(&sides.shared.store, &snapshot), Json(on)))
}

async fn switch(
    State(sides): State<Sides>,
    who: Who,
    Step(name): Step,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let terms = Terms::of_overlay(&sides, pairs, &headers)?;
    let on = change::wanted(&sides, &terms, &headers, body)?;
    let snapshot = sides.shared.store.current();
    let rule = find(&snapshot, &name)?;
    switchable(rule)?;
    let split = rule.name.clone();
    let until = terms.until;
    let wish = Wish::Overlay(Change::Force(Force { split, on }), until);
    change::make(&sides, &who, terms, wish).await
}

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a split::Rule, Problem> {
    let splits = &snapshot.rules.written().splits;
    let found = splits.iter().find(|split| split.name.as_str() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = splits.iter().map(|split| split.name.as_str()).collect();
        let (name, names) = (start(name), names.join(", "));
        Problem::new(
            Code::NotFound,
            format!("found {name:?}; the rules have these splits: {names}"),
        )
    })
}

fn switchable(rule: &split::Rule) -> Result<&split::Force, Problem> {
    rule.force.as_ref().ok_or_else(|| {
        let what = format!(
            "split {:?} names no header by which callers could choose, so there is nothing to switch",
            rule.name.as_str()
        );
        Problem::new(Code::NotFound, what)
    })
}
