//! Who asks.
//!
//! In: the peer of a connection, a request's head, and whom this process trusts. Out: whose request it is, whether what it
//! says of itself is believed, and how many Greylags it has passed. What others say is nobody's word: it is neither used
//! nor passed on.

use std::net::IpAddr;

use greylag_filters::rules::{Ruleset, Tag};
use greylag_filters::{forwarded, hops, identity};
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use super::stop::Stop;
use crate::config::Forwarded;
use crate::reply::Reason;

/// Who sent a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller {
    /// The address that the request comes from: the peer's, or the one that a trusted peer names.
    pub client: Option<IpAddr>,
    /// The address of whoever sent it to this process: a client, or a proxy.
    peer: Option<IpAddr>,
    /// Whether the peer is trusted. One whose address is not known is a stranger.
    pub is_trusted: bool,
    // how many Greylags have passed it on, as far as that is believed
    hops: u8,
}

/// Whether an address is in one of the ranges.
pub fn is_in(ranges: &[IpNet], address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}

impl Caller {
    /// Who `peer` is, by its word if it is in the `trusted` ranges.
    pub fn of(peer: Option<IpAddr>, headers: &HeaderMap, trusted: &[IpNet]) -> Caller {
        let stranger = Caller {
            client: peer,
            peer,
            ..Caller::default()
        };
        match peer {
            Some(address) if is_in(trusted, address) => Caller {
                client: Some(forwarded::client(headers, address, |address| {
                    is_in(trusted, address)
                })),
                is_trusted: true,
                hops: hops::passed(headers),
                ..stranger
            },
            _ => stranger,
        }
    }

    /// Refuses what has passed too many Greylags.
    ///
    /// # Errors
    /// The refusal.
    pub fn admit(&self) -> Result<(), Stop> {
        if hops::may_go_on(self.hops) {
            return Ok(());
        }
        Err(Stop::refuse(
            Reason::LoopDetected,
            format!(
                "the request has passed {} Greylags, and at most {} may be in a row: does an engine's `url` lead back here?",
                self.hops,
                hops::MOST
            ),
        ))
    }

    /// What the next Greylag is told: how many have passed the request on, with this one.
    pub fn next_hop(&self) -> u8 {
        self.hops.saturating_add(1)
    }

    /// The tag that the caller gives the exchange, if it is believed.
    pub fn tag(&self, headers: &HeaderMap) -> Option<Tag> {
        identity::said(headers).filter(|_| self.is_trusted)
    }

    /// The fields of the head that are this caller's word and not believed.
    pub fn claims(&self, rules: &Ruleset, headers: &HeaderMap) -> Vec<HeaderName> {
        if self.is_trusted {
            return Vec::new();
        }
        let mut claims = rules.claims(headers);
        claims.extend(
            forwarded::FIELDS
                .into_iter()
                .filter(|name| headers.contains_key(name)),
        );
        claims
    }

    /// The field that tells the engine of the peer, and its value; none if it is told nothing more than it is already.
    pub fn forwarded(&self, how: Forwarded, headers: &HeaderMap) -> Option<(HeaderName, Vec<u8>)> {
        let peer = self.peer?;
        match (how, self.is_trusted) {
            (Forwarded::Keep, _) => None,
            (Forwarded::Append, true) => Some(forwarded::with_peer(headers, peer)),
            (Forwarded::Append, false) => Some(forwarded::with_peer(&HeaderMap::new(), peer)),
        }
    }
}
