//! The one GET that acts: a drain, asked for by the `preStop` hook of the engine's container.
//!
//! In: a GET of the path that `observe.drain` names, by an address; never by a page, nor by a name that is not allowed. Out: from
//! the first one on the pod is not ready and answers close their connections, as after SIGTERM; the answer comes once
//! nothing is under way. Nothing undoes it, and nothing is refused or cut by it: who still comes is served.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use greylag_filters::meter::Offset;
use serde::Serialize;

use crate::admin::site::{Literals, Site};
use crate::config::{Admin, Observe};
use crate::relay::Shared;
use crate::side::{Connection, Sides};

/// The drain that can be asked for, if any.
#[derive(Debug, Clone)]
pub struct Drain(Option<Arc<Inner>>);

// One who has asked and has no answer yet.
struct Asking(Arc<Inner>);

impl Asking {
    fn of(drain: &Arc<Inner>) -> Asking {
        drain.asking.fetch_add(1, Ordering::Relaxed);
        Asking(drain.clone())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Inner {
    path: String,
    site: Site,
    // when it was asked for first
    began: OnceLock<Offset>,
    asking: AtomicUsize,
}

impl Drain {
    /// As the configuration says.
    pub fn new(observe: &Observe, admin: &Admin) -> Drain {
        let inner = |path: &String| Inner {
            path: path.clone(),
            site: Site {
                literals: Literals::Any,
                names: admin.hosts(),
                is_tls: false,
            },
            began: OnceLock::new(),
            asking: AtomicUsize::new(0),
        };
        Drain(observe.drain.as_ref().map(inner).map(Arc::new))
    }

    /// Whether somebody has asked and has no answer yet.
    pub fn is_awaited(&self) -> bool {
        let asking = |inner: &Arc<Inner>| inner.asking.load(Ordering::Relaxed) > 0;
        self.0.as_ref().is_some_and(asking)
    }
}

// What was waited for.
#[derive(Debug, Serialize)]
struct Drained {
    /// Exchanges that are still under way.
    in_flight: u64,
    /// For how long this request has waited, in seconds.
    waited: f64,
}

/// Drains, if this is the path for it; else there is nothing.
pub async fn ask(
    State((sides, drain)): State<(Sides, Drain)>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
) -> Response {
    let Some(drain) = drain.0.filter(|drain| drain.path == request.uri().path()) else {
        return super::not_found().into_response();
    };
    if request.method() != Method::GET {
        let allowed = [(header::ALLOW, "GET")];
        let what = "not allowed; only GET is, since it acts\n";
        return (StatusCode::METHOD_NOT_ALLOWED, allowed, what).into_response();
    }
    if let Err(problem) = drain.site.check_no_page(request.uri(), request.headers()) {
        return problem.into_response();
    }
    drop(request);
    // However long it takes, the connection is not idle.
    let _busy = connection.busy();
    let _asking = Asking::of(&drain);
    let shared = &sides.shared;
    let asked = shared.origin.now();
    let began = *drain.began.get_or_init(|| {
        tracing::info!(name: "greylag.drain.asked", peer = %connection.peer, "a drain was asked for: this process is not ready from now on, and goes on serving");
        asked
    });
    shared.draining.store(true, Ordering::Release);
    let limit = shared.limits.drain.get();
    tokio::time::sleep_until(shared.origin.at(began + shared.limits.drain_wait.get())).await;
    let in_flight = quiet(shared, shared.origin.now() + limit).await;
    let waited = shared.origin.now().saturating_sub(asked).as_secs_f64();
    let status = if in_flight == 0 {
        tracing::info!(name: "greylag.drain.done", waited, "nothing is under way: whoever asked for the drain is told so");
        StatusCode::OK
    } else {
        tracing::warn!(name: "greylag.drain.late", in_flight, waited, "limits.drain has passed and exchanges are under way: whoever asked for the drain is told so");
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, axum::Json(Drained { in_flight, waited })).into_response()
}

// How many exchanges are under way: none, or those that are left when the time has come.
async fn quiet(shared: &Shared, end: Offset) -> u64 {
    const STEP: Duration = Duration::from_millis(10);
    loop {
        let in_flight = shared.telemetry.in_flight();
        if in_flight == 0 || shared.origin.now() >= end {
            return in_flight;
        }
        tokio::time::sleep(STEP).await;
    }
}
