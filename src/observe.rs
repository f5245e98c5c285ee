//! The observe listener: metrics and health, for scrapers and probes.
//!
//! In: GET, from anywhere, without a token. Out: `/metrics`, `/livez`, `/readyz`, and nothing else. Nothing of an
//! exchange but figures is shown, and nothing can be changed. `Host` is not looked at, since probes use addresses of pods.

use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::side::{Side, Sides};
use crate::stall;
use crate::telemetry::Levels;

/// Serves until polled no more.
pub async fn serve(sides: Sides, socket: std::net::TcpListener) {
    match Side::on(socket) {
        Ok(side) => {
            let _ = axum::serve(side, router(sides)).await;
        }
        Err(error) => {
            tracing::error!(name: "greylag.observe.failed", %error, "metrics and health cannot be served")
        }
    }
}

/// The pages.
pub fn router(sides: Sides) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "not found; there are /metrics, /livez and /readyz\n",
            )
        })
        .method_not_allowed_fallback(async || {
            (
                StatusCode::METHOD_NOT_ALLOWED,
                "not allowed; only GET and HEAD are\n",
            )
        })
        .with_state(sides)
}

async fn metrics(State(sides): State<Sides>) -> impl IntoResponse {
    let levels = Levels {
        connections: sides.seats.taken(),
        body_memory: sides.shared.budget.taken(),
        throttled: stall::throttled().map_or(0, |throttled| throttled.periods),
        ..Levels::default()
    };
    let snapshot = sides.shared.store.current();
    let page = sides.shared.telemetry.page(levels, &snapshot);
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], page)
}

// Ready is whoever accepts, whatever the engines' health: an engine that is down is no reason to lose the sidecar too.
async fn ready(State(sides): State<Sides>) -> (StatusCode, &'static str) {
    if sides.ready.load(Ordering::Acquire) {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    }
}
