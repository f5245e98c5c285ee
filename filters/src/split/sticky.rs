//! What ties a caller to an engine: the keys that a split hashes.
//!
//! In: an entry of `sticky`, then requests. Out: the hash of the request's key, if the request has that key and it is
//! not empty.

use std::net::IpAddr;

use http::HeaderName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rendezvous;
use crate::matcher::header_name;
use crate::rules::Request;
use crate::rules::problem::{Place, Problems};

/// What ties a caller to an engine.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sticky {
    /// The value of the header of this name; the first one if it is sent several times.
    Header(String),
    /// The value of this top-level field of the JSON body.
    Body(String),
    /// The caller's address. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is the IPv4 address.
    ClientIp,
}

/// Where a sticky key is found.
#[derive(Clone, Debug)]
pub(super) enum Key {
    Header(HeaderName),
    /// The place among the body keys that the rules want.
    Body(usize),
    ClientIp,
}

impl Key {
    /// The compiled key, or none and the problem with it. `wanted` collects the body keys that all rules need.
    pub(super) fn compile(
        key: &Sticky,
        wanted: &mut Vec<Box<str>>,
        place: Place<'_>,
        problems: &mut Problems,
    ) -> Option<Key> {
        match key {
            Sticky::Header(name) => {
                header_name(name, place.key("header"), problems).map(Key::Header)
            }
            Sticky::Body(key) if key.is_empty() => {
                problems.add(
                    place.key("body"),
                    "a field of the body has a name of at least one character; found none",
                );
                None
            }
            Sticky::Body(key) => {
                let known = wanted.iter().position(|other| **other == **key);
                Some(Key::Body(known.unwrap_or_else(|| {
                    wanted.push(key.as_str().into());
                    wanted.len() - 1
                })))
            }
            Sticky::ClientIp => Some(Key::ClientIp),
        }
    }

    /// The hash of this key of the request, if it has one that is not empty.
    pub(super) fn hash(
        &self,
        salt: rendezvous::Salt,
        request: &Request<'_>,
    ) -> Option<rendezvous::Key> {
        let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| salt.key(bytes));
        match self {
            Key::Header(name) => text(request.headers.get(name)?.as_bytes()),
            Key::Body(place) => text(request.body?.keys.get(*place)?.as_ref()?.as_bytes()),
            Key::ClientIp => match request.client?.to_canonical() {
                IpAddr::V4(v4) => text(&v4.octets()),
                IpAddr::V6(v6) => text(&v6.octets()),
            },
        }
    }
}
