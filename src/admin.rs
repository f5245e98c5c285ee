//! The admin API: what people and programs ask and change while Greylag runs.
//!
//! In: HTTP requests on a loopback address. Out: JSON, or a problem document. Only what the guard lets through reaches a
//! handler. A GET never changes anything. Exchanges go on untouched, whatever is asked here: the API has a thread of its
//! own.

pub mod audit;
pub mod body;
pub mod change;
pub mod engines;
pub mod events;
pub mod exchanges;
pub mod feedback;
pub mod guard;
pub mod history;
pub mod openapi;
pub mod operation;
pub mod overlays;
pub mod problem;
pub mod query;
pub mod reset;
pub mod rules;
pub mod splits;
pub mod status;
pub mod who;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;

use crate::side::{Peer, Side, Sides};
use guard::Guard;
use operation::Operation;
use problem::{Code, Problem};

/// The longest body of a request to the API, in bytes, where its path says no other.
pub const LONGEST: usize = 1 << 20;

/// Serves until polled no more.
pub async fn serve(sides: Sides, socket: std::net::TcpListener) {
    let side = socket
        .local_addr()
        .and_then(|address| Ok((address, Side::on(socket)?)));
    match side {
        Ok((address, side)) => {
            let service = router(sides, address).into_make_service_with_connect_info::<Peer>();
            let _ = axum::serve(side, service).await;
        }
        Err(error) => {
            tracing::error!(name: "greylag.admin.failed", %error, "the admin API cannot be served")
        }
    }
}

/// The API as it is served on `address`.
pub fn router(sides: Sides, address: SocketAddr) -> Router {
    operation::routes(operations())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(middleware::from_fn_with_state(
            Guard::of(address),
            guard::admit,
        ))
        .layer(middleware::map_response(harden))
        .with_state(sides)
}

/// All that can be asked: each noun is a file, and one line here.
pub fn operations() -> Vec<Operation> {
    [
        status::operations(),
        rules::operations(),
        splits::operations(),
        overlays::operations(),
        history::operations(),
        engines::operations(),
        exchanges::operations(),
        feedback::operations(),
        reset::operations(),
        events::operations(),
        openapi::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

async fn not_found(request: Request) -> Problem {
    let path = problem::start(request.uri().path());
    Problem::new(
        Code::NotFound,
        format!("there is nothing at {path:?}; /openapi.json lists what there is"),
    )
}

async fn method_not_allowed(request: Request) -> Problem {
    let method = problem::start(request.method().as_str());
    Problem::new(
        Code::MethodNotAllowed,
        format!("found method {method:?}; the field Allow says what is allowed here"),
    )
}

// What is asked here is true for now only, and is nothing that a browser should interpret.
async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
