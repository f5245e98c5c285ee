//! `/v1/engines`: the engines as places: whether they are up, where they are, what connections lead there.
//!
//! In: GET. Out: what is known now; nothing is asked of an engine for it. Keys and fields that are set on requests are not shown.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use axum::routing::get;
use greylag_filters::rules::engine::Kind;
use schemars::JsonSchema;
use serde::Serialize;

use super::operation::Operation;
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs};
use super::step::Step;
use crate::relay::Shared;
use crate::side::Sides;
use crate::snapshot::Snapshot;
use crate::upstream::pool::Use;
use crate::upstream::standing::Probed;
use crate::upstream::{Target, addresses::Addresses};

/// What can be asked of them.
pub fn operations() -> Vec<Operation> {
    vec![
        Operation::read::<Engines<'_>>("/v1/engines", "All engines, as places", get(list)),
        Operation::read::<Entry<'_>>("/v1/engines/{name}", "One engine", get(one))
            .problems(&[Code::NotFound]),
    ]
}

async fn list(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    let engines = entries(&sides.shared, &snapshot).collect();
    Ok(Json(Engines { engines }).into_response())
}

async fn one(
    State(sides): State<Sides>,
    Step(name): Step,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    match entries(&sides.shared, &snapshot).find(|engine| engine.name == name) {
        Some(engine) => Ok(Json(engine).into_response()),
        None => {
            let names = snapshot.rules.engines().iter();
            let names: Vec<&str> = names.map(|engine| &*engine.name).collect();
            let (name, names) = (start(&name), names.join(", "));
            let what = format!("found {name:?}; the rules have these engines: {names}");
            Err(Problem::new(Code::NotFound, what))
        }
    }
}

fn entries<'a>(shared: &'a Shared, snapshot: &'a Snapshot) -> impl Iterator<Item = Entry<'a>> {
    snapshot.rules.each_engine().map(|(id, engine)| Entry {
        name: &engine.name,
        kind: engine.kind,
        tag: &engine.tag,
        place: Place::of(shared, snapshot.target(id)),
        grpc: snapshot
            .grpc_target(id)
            .map(|target| Place::of(shared, target)),
    })
}

#[derive(Debug, JsonSchema, Serialize)]
struct Engines<'a> {
    engines: Vec<Entry<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Engine")]
struct Entry<'a> {
    name: &'a str,
    kind: Kind,
    tag: &'a str,
    #[serde(flatten)]
    place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc: Option<Place>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Place {
    url: String,
    state: &'static str,
    // what the last failure was, unless all is well
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    // seconds ago
    since: f64,
    addresses: Vec<Address>,
    // requests under way, of all workers
    requests: u64,
    pool: Connections,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<Probe>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Address {
    address: String,
    // `in_turn`, or `left_out` since it took no connection
    state: &'static str,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Connections {
    idle: usize,
    http2: usize,
    streams: usize,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Probe {
    result: String,
    milliseconds: f64,
    // seconds ago
    when: f64,
}

impl Place {
    fn of(shared: &Shared, target: &Target) -> Place {
        let now = shared.origin.now();
        let shown = target.standing.shown();
        let known = target.known();
        let pool = usage(shared, target, &known, now);
        Place {
            url: target.address.to_string(),
            state: shown.state.label(),
            reason: shown.reason,
            since: ago(now, shown.since),
            addresses: addresses(target, &known, now),
            requests: target.under_way(),
            pool: Connections {
                idle: pool.idle,
                http2: pool.connections,
                streams: pool.streams,
            },
            probe: shown.probe.map(|probed| Probe::of(probed, now)),
        }
    }
}

impl Probe {
    fn of(probed: Probed, now: Duration) -> Probe {
        Probe {
            result: probed.result,
            milliseconds: probed.took.as_secs_f64() * 1000.0,
            when: ago(now, probed.at),
        }
    }
}

fn ago(now: Duration, then: Duration) -> f64 {
    now.saturating_sub(then).as_secs_f64()
}

fn usage(shared: &Shared, target: &Target, known: &Addresses, now: Duration) -> Use {
    let each = known.each(now);
    let each = each.map(|(address, _)| shared.pools.usage(target.key(address)));
    each.fold(Use::default(), |sum, of_one| sum + of_one)
}

fn addresses(target: &Target, known: &Addresses, now: Duration) -> Vec<Address> {
    let each = known.each(now).map(|(address, is_out)| Address {
        address: match target.address.socket {
            // It has no other address.
            Some(_) => target.address.to_string(),
            None => address.to_string(),
        },
        state: if is_out { "left_out" } else { "in_turn" },
    });
    each.collect()
}
