//! The observe listener: metrics and health, for scrapers and probes, and what rollouts ask.
//!
//! In: requests from anywhere, without a token. Out: `/metrics`, `/livez`, `/readyz`; what is known of gates; and a drain, if
//! one may be asked for. Nothing of an exchange but figures is shown, and nothing but the drain changes anything. `Host` is
//! looked at for that alone, since probes use addresses of pods.

pub mod drain;
pub mod gates;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{any, get};

use crate::listen::Socketed;
use crate::side::{Connection, Side, Sides};
use crate::stall;
use crate::telemetry::Levels;
use drain::Drain;

/// Connections at a time.
const SEATS: usize = 512;

/// Serves until polled no more.
pub async fn serve(sides: Sides, socket: Socketed, drain: Drain) {
    match Side::on(socket, SEATS) {
        Ok(side) => {
            let router = router(sides, drain);
            let service = router.into_make_service_with_connect_info::<Connection>();
            let _ = axum::serve(side, service).await;
        }
        Err(error) => {
            tracing::error!(name: "greylag.observe.failed", %error, "metrics and health cannot be served")
        }
    }
}

/// The pages.
pub fn router(sides: Sides, drain: Drain) -> Router {
    let drained = any(drain::ask).with_state((sides.clone(), drain));
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/verdict/{gate}", any(gates::unknown))
        .route(
            "/hooks/flagger/{gate}/confirm-traffic-increase",
            any(gates::unknown),
        )
        .route("/hooks/flagger/{gate}/rollback", any(gates::unknown))
        .route("/hooks/argo/{gate}", any(gates::unknown))
        .method_not_allowed_fallback(async || {
            (
                StatusCode::METHOD_NOT_ALLOWED,
                "not allowed; only GET and HEAD are\n",
            )
        })
        .fallback_service(drained)
        .with_state(sides)
}

fn not_found() -> (StatusCode, &'static str) {
    let what = "not found; there are /metrics, /livez, /readyz, /verdict/GATE and /hooks\n";
    (StatusCode::NOT_FOUND, what)
}

async fn metrics(State(sides): State<Sides>) -> impl IntoResponse {
    let levels = Levels {
        connections: sides.seats.taken(),
        body_memory: sides.shared.budget.taken(),
        is_file_usable: sides.file.as_ref().is_none_or(|file| file.is_usable()),
        is_saved: sides.shared.store.unsaved().is_none(),
        throttled: stall::throttled().map_or(0, |throttled| throttled.periods),
        ..Levels::default()
    };
    let snapshot = sides.shared.store.current();
    let page = sides.shared.telemetry.page(levels, &snapshot);
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], page)
}

// Ready is whoever accepts, whatever the engines' health: an engine that is down is no reason to lose the sidecar too.
async fn ready(State(sides): State<Sides>) -> (StatusCode, &'static str) {
    if sides.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    }
}
