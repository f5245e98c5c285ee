//! `/v1/overlays`: what lies on the base, and how it is lifted.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use greylag_filters::layers::{Overlay, OverlayId};
use schemars::JsonSchema;
use serde::Serialize;

use super::change::{self, Changed, Terms};
use super::operation::Operation;
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs};
use super::step::Step;
use super::who::Who;
use crate::side::Sides;
use crate::store::Wish;

/// What can be asked of them.
pub fn operations() -> Vec<Operation> {
    vec![
        Operation::read::<Overlays>("/v1/overlays", "What lies on the base", get(list)).tagged(),
        Operation::read::<Shown>("/v1/overlays/{id}", "One overlay", get(one))
            .problems(&[Code::NotFound])
            .tagged(),
        Operation::act::<Changed>(
            Method::DELETE,
            "/v1/overlays/{id}",
            "Lifts an overlay: what lies below is in force again",
            delete(lift),
        )
        .query(change::TERMS)
        .problems(change::NAMED_PROBLEMS)
        .tagged(),
    ]
}

#[derive(Debug, JsonSchema, Serialize)]
struct Overlays {
    overlays: Vec<Shown>,
}

/// An overlay as it is shown.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ShownOverlay")]
pub struct Shown {
    /// What it is called: what it changes and of which, `weights:canary`.
    id: String,
    /// What it does, for people.
    what: String,
    #[serde(flatten)]
    overlay: Overlay,
}

impl Shown {
    /// As it is shown.
    pub fn of(overlay: &Overlay) -> Shown {
        Shown {
            id: overlay.change.id().to_string(),
            what: overlay.change.what(),
            overlay: overlay.clone(),
        }
    }
}

async fn list(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    let overlays = snapshot.layers.overlays.iter().map(Shown::of).collect();
    let about = change::about(&sides.shared.store, &snapshot);
    Ok((about, Json(Overlays { overlays })))
}

async fn one(
    State(sides): State<Sides>,
    Step(id): Step,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let id = OverlayId::read(&id);
    let snapshot = sides.shared.store.current();
    match snapshot.layers.overlay(&id) {
        Some(overlay) => {
            let about = change::about(&sides.shared.store, &snapshot);
            Ok((about, Json(Shown::of(overlay))))
        }
        None => {
            let found = start(id.as_str());
            Err(Problem::new(
                Code::NotFound,
                format!("found {found:?}, and there is no such overlay; /v1/overlays lists them"),
            ))
        }
    }
}

async fn lift(
    State(sides): State<Sides>,
    who: Who,
    Step(id): Step,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let terms = Terms::take(&sides, pairs, &headers)?;
    change::make(&sides, &who, terms, Wish::Lift(OverlayId::read(&id))).await
}
