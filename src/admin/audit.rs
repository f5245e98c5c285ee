//! Writes down who changed what, and who was turned away.
//!
//! In: requests and their answers, and what a handler notes. Out: an event for each request that could change something, and
//! for each that the guard refused; of one peer's refusals so many a minute. Feedback is left out: it may be as much
//! as exchanges. No body, no query and no token is ever written.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use greylag_filters::tries::Tries;
use parking_lot::Mutex;

use super::guard::Turned;
use super::problem::{Code, Problem, start};
use super::who::Who;
use crate::side::{Connection, Sides};

/// What a handler notes of a change, in the extensions of its answer.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// The version of the rules that came of it.
    pub version: Option<u64>,
    /// Why, as its author says.
    pub reason: Option<String>,
}

/// Marks the answer to a request that has only tried what would be, in its extensions: it is not written. What a query says is not
/// enough for that, since only the handler knows whether it minded it.
#[derive(Debug, Clone, Copy)]
pub struct Trial;

/// Where refusals are counted, so that none who is refused can fill the log.
#[derive(Debug, Clone)]
pub struct Audit {
    sides: Sides,
    lines: Arc<Mutex<Tries>>,
}

impl Audit {
    /// One that has written nothing.
    pub fn new(sides: Sides) -> Audit {
        Audit {
            sides,
            lines: Arc::default(),
        }
    }

    // Whether one more line of a peer that the guard turned away is written.
    fn has_room(&self, connection: &Connection) -> bool {
        let (peer, now) = (connection.peer.counted(), self.sides.shared.origin.now());
        let mut lines = self.lines.lock();
        let has_room = lines.wait(peer, now).is_none();
        if has_room {
            lines.failed(peer, now);
        }
        has_room
    }
}

/// Lets a request through, and writes what became of it.
pub async fn write(
    State(audit): State<Audit>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
    next: Next,
) -> Response {
    let asked = Asked::of(&request);
    if !asked.changes {
        let response = next.run(request).await;
        return audit.told(&asked, &connection, response);
    }
    // It goes on, and is told of, though its caller leaves.
    let work = async move {
        let response = next.run(request).await;
        audit.told(&asked, &connection, response)
    };
    match tokio::spawn(work).await {
        Ok(response) => response,
        Err(_) => Problem::new(Code::Internal, "the request was not finished").into_response(),
    }
}

impl Audit {
    fn told(&self, asked: &Asked, connection: &Connection, response: Response) -> Response {
        let is_turned = response.extensions().get::<Turned>().is_some();
        let is_trial = response.extensions().get::<Trial>().is_some();
        if is_turned {
            if self.has_room(connection) {
                asked.refused(connection, &response);
            }
        } else if asked.changes && !response.status().is_success() {
            asked.refused(connection, &response);
        } else if asked.changes && !is_trial {
            asked.changed(connection, &response);
        }
        response
    }
}

// So much of a request as is written.
struct Asked {
    method: Method,
    path: String,
    changes: bool,
}

impl Asked {
    fn of(request: &Request) -> Asked {
        let (method, path) = (request.method(), request.uri().path());
        let looks = [Method::GET, Method::HEAD].contains(method);
        Asked {
            method: method.clone(),
            path: start(path).to_owned(),
            changes: !looks && path != super::FEEDBACK,
        }
    }

    fn changed(&self, connection: &Connection, response: &Response) {
        let told = Told::of(response);
        tracing::info!(
            name: "greylag.admin.changed",
            author = told.author,
            role = told.role,
            peer = %connection.peer,
            method = start(self.method.as_str()),
            path = self.path,
            status = response.status().as_u16(),
            version = told.note.version,
            reason = told.note.reason.as_deref().map(start),
            "a change through the admin API"
        );
    }

    fn refused(&self, connection: &Connection, response: &Response) {
        let told = Told::of(response);
        tracing::warn!(
            name: "greylag.admin.refused",
            author = told.author,
            role = told.role,
            peer = %connection.peer,
            method = start(self.method.as_str()),
            path = self.path,
            status = response.status().as_u16(),
            code = told.code,
            reason = told.note.reason.as_deref().map(start),
            "a request to the admin API was refused"
        );
    }
}

// What an answer says of itself.
struct Told {
    author: Option<String>,
    role: Option<&'static str>,
    code: Option<&'static str>,
    note: Note,
}

impl Told {
    fn of(response: &Response) -> Told {
        let extensions = response.extensions();
        let who = extensions.get::<Who>();
        Told {
            author: who.map(|who| who.name.to_string()),
            role: who.map(|who| who.role.label()),
            code: extensions.get::<Code>().map(|code| code.name()),
            note: extensions.get::<Note>().cloned().unwrap_or_default(),
        }
    }
}
