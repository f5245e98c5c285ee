//! The admin API: what people and programs ask and change while Greylag runs.
//!
//! In: HTTP requests, on a loopback address if nothing else is said. Out: JSON, or a problem document. Only what the guard lets
//! through reaches a handler, and what changes something is written down. A GET never changes anything. Exchanges go on untouched, whatever is asked here: the API has a thread of its
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
pub mod site;
pub mod splits;
pub mod status;
pub mod step;
pub mod tokens;
pub mod who;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;

use crate::listen::Socketed;
use crate::side::{Connection, Side, Sides};
use audit::Audit;
use guard::Guard;
use operation::Operation;
use problem::{Code, Problem};

/// The longest body of a request to the API, in bytes, where its path says no other.
pub const LONGEST: usize = 1 << 20;
/// The path of feedback, which is for callers.
pub const FEEDBACK: &str = "/v1/feedback";
/// Connections at a time: a thousand may look on, and people still get in.
const SEATS: usize = 2048;

/// Serves until polled no more.
pub async fn serve(sides: Sides, socket: Socketed, guard: Guard) {
    match Side::on(socket, SEATS) {
        Ok(side) => {
            let router = router(sides, guard);
            let service = router.into_make_service_with_connect_info::<Connection>();
            let _ = axum::serve(side, service).await;
        }
        Err(error) => {
            tracing::error!(name: "greylag.admin.failed", %error, "the admin API cannot be served")
        }
    }
}

/// The API behind this guard.
pub fn router(sides: Sides, guard: Guard) -> Router {
    operation::routes(operations())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(middleware::from_fn_with_state(
            (guard, sides.clone()),
            guard::admit,
        ))
        .layer(middleware::from_fn_with_state(
            Audit::new(sides.clone()),
            audit::write,
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
