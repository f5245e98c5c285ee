//! `/v1/reset`: all that disturbs exchanges goes off, at once.
//!
//! In: POST. Out: what was turned off. Whether callers may choose an engine disturbs nobody, so it stays as it is.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::Method;
use axum::response::IntoResponse;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;

use super::audit::Note;
use super::change::WHY;
use super::operation::Operation;
use super::problem::Problem;
use super::query::{self, Pairs};
use super::who::Who;
use crate::side::Sides;
use crate::switch::Turned;

/// What can be asked of it.
pub fn operations() -> Vec<Operation> {
    vec![
        Operation::act::<Reset>(
            Method::POST,
            "/v1/reset",
            "Turns all faults and mirrors off",
            post(reset),
        )
        .query(&[WHY]),
    ]
}

#[derive(Debug, JsonSchema, Serialize)]
struct Reset {
    /// What was on, and is off.
    off: Vec<Turned>,
}

async fn reset(
    State(sides): State<Sides>,
    who: Who,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [reason] = query::take(pairs, [&WHY])?;
    let off = sides.shared.store.reset();
    let note = Note {
        version: None,
        reason,
    };
    tracing::info!(name: "greylag.rules.reset", author = &*who.name, off = off.len(), "all faults and mirrors are off");
    Ok((axum::Extension(note), Json(Reset { off })))
}
