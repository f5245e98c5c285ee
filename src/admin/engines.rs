//! `/v1/engines`: the engines as places: whether they are up, where they are, what connections lead there.
//!
//! In: GET. Out: what is known now; nothing is asked of an engine for it. Keys and fields that are set on requests are not shown.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use greylag_filters::rules::engine::Kind;
use serde::Serialize;

use super::problem::Problem;
use super::query::{self, Pairs};
use crate::relay::Shared;
use crate::side::Sides;
use crate::upstream::pool::Use;
use crate::upstream::standing::Probed;
use crate::upstream::{Target, addresses::Addresses};

/// `GET /v1/engines`.
pub async fn list(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let snapshot = sides.shared.store.current();
    let engines = snapshot.rules.each_engine().map(|(id, engine)| Entry {
        name: &engine.name,
        kind: engine.kind,
        tag: &engine.tag,
        place: Place::of(&sides.shared, snapshot.target(id)),
        grpc: snapshot
            .grpc_target(id)
            .map(|target| Place::of(&sides.shared, target)),
    });
    let engines = Engines {
        engines: engines.collect(),
    };
    Ok(Json(engines).into_response())
}

#[derive(Debug, Serialize)]
struct Engines<'a> {
    engines: Vec<Entry<'a>>,
}

#[derive(Debug, Serialize)]
struct Entry<'a> {
    name: &'a str,
    kind: Kind,
    tag: &'a str,
    #[serde(flatten)]
    place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc: Option<Place>,
}

#[derive(Debug, Serialize)]
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

#[derive(Debug, Serialize)]
struct Address {
    address: String,
    // `in_turn`, or `left_out` since it took no connection
    state: &'static str,
}

#[derive(Debug, Serialize)]
struct Connections {
    idle: usize,
    http2: usize,
    streams: usize,
}

#[derive(Debug, Serialize)]
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
