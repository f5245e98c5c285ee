//! Who asks, once the guard has let the request through.
//!
//! In: a token's name and role, or a peer that needs none. Out: a value that handlers take as an argument and name as the
//! author of what they change. It never holds the token.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use greylag_filters::tokens::Role;

use super::problem::{Code, Problem};
use crate::side::Peer;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Who {
    /// The token's name; without tokens `loopback`, or `uid:N` over a unix socket.
    pub name: Box<str>,
    /// What is allowed.
    pub role: Role,
    /// Where the request came from.
    pub peer: Peer,
}

impl Who {
    /// Whoever can connect, where no token is asked for.
    pub fn connected(peer: Peer) -> Who {
        let name = match peer {
            Peer::Ip(_) => "loopback".into(),
            Peer::Unix { user } => format!("uid:{user}").into(),
        };
        Who {
            name,
            role: Role::Write,
            peer,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Problem;

    // The guard stands before every handler, so it is always there.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Who, Problem> {
        let who = parts.extensions.get::<Who>().cloned();
        who.ok_or_else(|| Problem::new(Code::Internal, "nobody is known to ask"))
    }
}
