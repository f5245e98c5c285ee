//! What a decision is made from, and what it says.

use std::net::IpAddr;

use http::{HeaderMap, Method};

use crate::facts::Body;
use crate::route::Route;
use crate::split;
use crate::traffic::Class;

/// What rules look at in a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path without its query.
    pub path: &'a str,
    /// The route of that path.
    pub route: Route,
    /// The headers as the caller sent them.
    pub headers: &'a HeaderMap,
    /// What the body says, if it was read: scanned for the ruleset's own `wanted_body_keys`.
    pub body: Option<&'a Body>,
    /// The caller's address, if there is one (a Unix socket has none).
    pub client: Option<IpAddr>,
    /// Whether the caller's claims are believed: hop, force and traffic class.
    pub trusted: bool,
}

/// An engine of a ruleset: its place in file order. It means nothing to another ruleset.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EngineId(usize);

impl EngineId {
    pub(crate) fn new(index: usize) -> EngineId {
        EngineId(index)
    }

    /// The place in `Ruleset::engines`.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Where an exchange goes, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// The engine.
    pub engine: EngineId,
    /// The split that decided, as an index into the written splits; none if the default engine was taken.
    pub split: Option<usize>,
    /// How the engine was found.
    pub how: How,
    /// Whether the exchange is a test's.
    pub traffic: Class,
    // what chooses another engine of the split, should this one be down; there if `split` is
    pub(super) key: Option<split::Key>,
}

/// How an engine was found.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum How {
    /// Another Greylag has routed it, so it goes to the default engine.
    Hop,
    /// A trusted caller named it.
    Forced,
    /// By the first sticky key that the request had.
    Sticky,
    /// By chance, since the split has no sticky key or the request none of them.
    Draw,
    /// No split matched, or the request is not inference.
    Default,
    /// The engine that was found first was not to be had.
    Fallback,
    /// It belongs to a sequence, which goes on where it was begun.
    Sequence,
}

impl How {
    /// A word for logs and labels.
    pub fn label(self) -> &'static str {
        match self {
            How::Hop => "hop",
            How::Forced => "forced",
            How::Sticky => "sticky",
            How::Draw => "draw",
            How::Default => "default",
            How::Fallback => "fallback",
            How::Sequence => "sequence",
        }
    }
}
