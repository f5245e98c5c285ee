//! `/v1/rules`: the base, whole; or with what lies on it.
//!
//! In: GET, or PUT with the rules as JSON. Out: the rules, or the version that came of them. Secrets are hidden; who sends the mark
//! back that stands for one means the one in force. A PUT is checked whole and put in force whole, or changes nothing.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use greylag_filters::rules::Rules;

use super::change::{self, Changed, Terms};
use super::operation::Operation;
use super::problem::Problem;
use super::query::{self, Pairs, Param, ParamKind};
use super::who::Who;
use crate::side::Sides;
use crate::store::Wish;

const IN_FORCE: Param = Param {
    name: "in_force",
    what: "Whether with what lies on the base. Default: `false`, the base alone.",
    kind: ParamKind::Flag,
};

/// What can be asked of them.
pub fn operations() -> Vec<Operation> {
    vec![
        Operation::read::<Rules>("/v1/rules", "The base of the rules", get(read))
            .query(&[IN_FORCE])
            .tagged(),
        Operation::act::<Changed>(Method::PUT, "/v1/rules", "Replaces the base", put(replace))
            .query(change::TERMS)
            .takes::<Rules>()
            .problems(change::PROBLEMS)
            .tagged(),
    ]
}

async fn read(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [in_force] = query::take(pairs, [&IN_FORCE])?;
    let store = &sides.shared.store;
    let snapshot = store.current();
    let rules = match IN_FORCE.flag(in_force, false)? {
        true => snapshot.rules.written(),
        false => &snapshot.layers.base,
    };
    Ok((change::about(store, &snapshot), Json(rules.hidden())))
}

async fn replace(
    State(sides): State<Sides>,
    who: Who,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let terms = Terms::take(&sides, pairs, &headers)?;
    let rules: Rules = change::wanted(&sides, &terms, &headers, body)?;
    change::make(&sides, &who, terms, Wish::Base(Box::new(rules))).await
}
