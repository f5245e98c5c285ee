//! The admin API and the observe listener.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

use crate::listen::Seats;
use crate::relay::Shared;
use crate::telemetry::Levels;

/// What the side listeners look at.
#[derive(Debug, Clone)]
pub struct Sides {
    /// What all exchanges share.
    pub shared: Arc<Shared>,
    /// The seats of connections.
    pub seats: Arc<Seats>,
    /// Whether the listeners accept and no drain has begun.
    pub ready: Arc<AtomicBool>,
}

/// Serves both until polled no more.
pub async fn serve(sides: Sides, _admin: TcpListener, observe: TcpListener) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(sides);
    if let Ok(observe) = tokio::net::TcpListener::from_std(observe) {
        let _ = axum::serve(observe, router).await;
    }
}

async fn metrics(State(sides): State<Sides>) -> String {
    sides.shared.telemetry.page(Levels {
        connections: sides.seats.taken(),
        body_memory: sides.shared.budget.taken(),
        rules_version: sides.shared.store.current().version,
        ..Levels::default()
    })
}

async fn ready(State(sides): State<Sides>) -> StatusCode {
    if sides.ready.load(Ordering::Acquire) {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}
