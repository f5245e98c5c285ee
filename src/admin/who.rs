//! Who asks.
use super::problem::Problem;
use crate::side::Peer;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use std::sync::Arc;
/// Who asks.
#[derive(Debug, Clone)]
pub struct Who {
    /// name
    pub name: Arc<str>,
    /// peer
    pub peer: String,
}
impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Who, Problem> {
        let peer = parts
            .extensions
            .get::<ConnectInfo<Peer>>()
            .map_or(String::new(), |ConnectInfo(Peer(peer))| peer.to_string());
        Ok(Who {
            name: "loopback".into(),
            peer,
        })
    }
}
