//! Decides who may ask the API, and for what.
//!
//! In: a request's head, and who is at the other end. Out: the request with a [`Who`], or a problem: 403 for other sites, 401
//! without a token that is in force, 403 for a role that is too low, and 429 for who has guessed too often, whose token
//! is not looked at. Nothing of a token is ever told.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use greylag_filters::meter::Offset;
use greylag_filters::tokens::Role;
use greylag_filters::tries::{self, Tries};
use parking_lot::Mutex;

use super::problem::{Code, Problem};
use super::site::{Literals, Site};
use super::tokens::TokenFile;
use super::who::Who;
use crate::config::{Admin, Place};
use crate::side::{Connection, Peer, Sides};

/// What stands before the API.
#[derive(Debug, Clone)]
pub struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    site: Site,
    tokens: Option<TokenFile>,
    tries: Mutex<Tries>,
}

/// Marks the answer to a request that the guard has turned away.
#[derive(Debug, Clone, Copy)]
pub struct Turned;

// Why, and what the answer says beside it.
struct Refused {
    problem: Problem,
    beside: Beside,
}

enum Beside {
    Nothing,
    // how to ask
    Challenge,
    // in how many seconds to ask again
    RetryAfter(u64),
    // whose token it was
    Token(Box<Who>),
}

impl Guard {
    /// As the configuration says; the file of tokens is read.
    ///
    /// # Errors
    /// What is wrong with that file.
    pub fn new(rule: &Admin) -> io::Result<Guard> {
        let literals = match &rule.address {
            Place::Unix(_) => Literals::Unasked,
            Place::Ip(_) if rule.is_off_loopback() => Literals::Any,
            Place::Ip(_) => Literals::Loopback,
        };
        let file = rule.token_file.as_deref().map(TokenFile::new);
        Ok(Guard(Arc::new(Inner {
            site: Site {
                literals,
                names: rule.hosts(),
                is_tls: rule.tls.is_some(),
            },
            tokens: file.transpose()?,
            tries: Mutex::default(),
        })))
    }

    fn admitted(&self, request: &Request, peer: Peer, now: Offset) -> Result<Who, Refused> {
        let (inner, headers) = (&self.0, request.headers());
        inner.site.check(request.uri(), headers)?;
        let Some(tokens) = &inner.tokens else {
            return Ok(Who::connected(peer));
        };
        if let Some(left) = inner.tries.lock().wait(peer.counted(), now) {
            return Err(Refused::early(left));
        }
        let said = token(headers)?;
        let tokens = tokens.current();
        let Some(known) = tokens.as_ref().and_then(|tokens| tokens.find(said)) else {
            inner.tries.lock().failed(peer.counted(), now);
            return Err(Refused::unknown(
                Code::TokenWrong,
                "found a token that is not in force; allowed are those of admin.token_file",
            ));
        };
        let who = Who {
            name: known.name.as_str().into(),
            role: known.role,
            peer,
        };
        let needed = needed(request.method(), request.uri().path());
        match who.role >= needed {
            true => Ok(who),
            false => Err(Refused::low(who, needed)),
        }
    }
}

// Who judges an answer is a caller, who should not have what changes rules.
fn needed(method: &Method, path: &str) -> Role {
    match *method {
        Method::GET | Method::HEAD => Role::Read,
        Method::POST if path == super::FEEDBACK => Role::Read,
        _ => Role::Write,
    }
}

// What is said after `Bearer`, as RFC 6750 has it.
fn token(headers: &HeaderMap) -> Result<&[u8], Refused> {
    let missing = |found: &str| {
        let what = format!("found {found}; needed is one field \"Authorization: Bearer TOKEN\"");
        Refused::unknown(Code::TokenMissing, &what)
    };
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.as_bytes(),
        (None, _) => return Err(missing("no field Authorization")),
        (Some(_), Some(_)) => return Err(missing("several fields Authorization")),
    };
    let scheme = value.get(..7).unwrap_or_default();
    match value.get(7..) {
        Some(token) if scheme.eq_ignore_ascii_case(b"bearer ") => Ok(token.trim_ascii()),
        _ => Err(missing("another scheme")),
    }
}

impl Refused {
    fn unknown(code: Code, what: &str) -> Refused {
        Refused {
            problem: Problem::new(code, what),
            beside: Beside::Challenge,
        }
    }

    fn early(left: Duration) -> Refused {
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let (most, window) = (tries::ALLOWED, tries::WINDOW.as_secs());
        let what = format!(
            "found {most} wrong tokens from here within {window} s, allowed are fewer; tokens are looked at again in {seconds} s"
        );
        Refused {
            problem: Problem::new(Code::TooManyTries, what),
            beside: Beside::RetryAfter(seconds),
        }
    }

    fn low(who: Who, needed: Role) -> Refused {
        let (found, needed) = (who.role.label(), needed.label());
        let what = format!("found a token of the role {found}, needed is {needed}");
        Refused {
            problem: Problem::new(Code::RoleTooLow, what),
            beside: Beside::Token(who.into()),
        }
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused {
            problem,
            beside: Beside::Nothing,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.problem.into_response();
        response.extensions_mut().insert(Turned);
        match self.beside {
            Beside::Nothing => {}
            Beside::Challenge => {
                let asked = HeaderValue::from_static("Bearer realm=\"greylag\"");
                let headers = response.headers_mut();
                headers.insert(header::WWW_AUTHENTICATE, asked);
            }
            Beside::RetryAfter(seconds) => {
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
            Beside::Token(who) => {
                response.extensions_mut().insert(*who);
            }
        }
        response
    }
}

impl Peer {
    /// As whom its failures are counted.
    pub fn counted(self) -> tries::Peer {
        match self {
            Peer::Ip(address) => tries::Peer::at(address.ip()),
            Peer::Unix { user } => tries::Peer::User(user),
        }
    }
}

/// Lets a request through, or answers it.
pub async fn admit(
    State((guard, sides)): State<(Guard, Sides)>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    mut request: Request,
    next: Next,
) -> Response {
    let now = sides.shared.origin.now();
    match guard.admitted(&request, connection.peer, now) {
        Ok(who) => {
            request.extensions_mut().insert(who.clone());
            let mut response = next.run(request).await;
            response.extensions_mut().insert(who);
            response
        }
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
mod tests;
