//! `/v1/status`: how things stand, at a glance.

use axum::Json;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use axum::routing::get;
use greylag_filters::layers::Latch;
use greylag_filters::units::Moment;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::change;
use super::operation::Operation;
use super::overlays;
use super::problem::Problem;
use super::query::{self, Pairs};
use crate::side::Sides;
use crate::store::{Shown, Source, hex};

/// What can be asked of it.
pub fn operations() -> Vec<Operation> {
    vec![Operation::read::<Status<'_>>("/v1/status", "How things stand", get(status)).tagged()]
}

#[derive(Debug, JsonSchema, Serialize)]
struct Status<'a> {
    /// The version of the program.
    greylag: &'static str,
    /// The number that tells this process from others.
    boot: String,
    /// When the process began.
    started: Moment,
    /// Whether the listeners accept and no drain has begun.
    ready: bool,
    /// Exchanges under way.
    in_flight: u64,
    /// The layers of the rules in force.
    rules: Layers<'a>,
    /// The configuration file, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<File>,
    /// Where what is set through the API outlives the process, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Kept>,
    /// Whether each engine is up.
    engines: Vec<Engine>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Layers<'a> {
    /// The version in force.
    version: u64,
    /// The hash of the rules in force.
    hash: String,
    /// The version's author and reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<Shown<'a>>,
    /// Where the base came from.
    base: Source,
    /// The hash of the base.
    base_hash: String,
    /// What lies on it.
    overlays: Vec<overlays::Shown>,
    /// What gates did and nobody has cleared; there are no gates.
    #[schemars(schema_with = "none")]
    latches: Vec<Latch>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct File {
    path: String,
    /// When it was read last.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_at: Option<Moment>,
    /// What is wrong with it, a line each; empty if it can be used.
    problems: Vec<String>,
    /// The keys beside rules that are other than at the start: they need a restart.
    needs_restart: Vec<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "StateFile")]
struct Kept {
    path: String,
    /// Whether it says what is in force.
    saved: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "EngineState")]
struct Engine {
    name: String,
    state: &'static str,
}

fn none(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 0 })
}

async fn status(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let shared = &sides.shared;
    let snapshot = shared.store.current();
    let entry = shared.store.version(snapshot.version);
    let (written, layers) = (&snapshot.rules, &snapshot.layers);
    let engines = written.each_engine().map(|(id, engine)| Engine {
        name: engine.name.to_string(),
        state: snapshot.target(id).standing.shown().state.label(),
    });
    let status = Status {
        greylag: env!("CARGO_PKG_VERSION"),
        boot: format!("{:x}", shared.origin.boot()),
        started: shared.origin.born(),
        ready: sides.is_ready(),
        in_flight: shared.telemetry.in_flight(),
        rules: Layers {
            version: snapshot.version,
            hash: hex(written.hash()),
            published: entry.as_ref().map(|entry| entry.shown()),
            base: snapshot.source,
            base_hash: hex(layers.base.hash()),
            overlays: layers.overlays.iter().map(overlays::Shown::of).collect(),
            latches: layers.latches.clone(),
        },
        file: sides.file.as_ref().map(|file| {
            let known = file.known();
            File {
                path: file.path().display().to_string(),
                read_at: known.read_at,
                problems: known.problems,
                needs_restart: known.needs_restart,
            }
        }),
        state: shared.store.state_path().map(|path| {
            let why = shared.store.unsaved();
            Kept {
                path: path.display().to_string(),
                saved: why.is_none(),
                why: why.map(|why| why.to_string()),
            }
        }),
        engines: engines.collect(),
    };
    Ok((
        change::about(&shared.store, &snapshot),
        Json(status).into_response(),
    ))
}
