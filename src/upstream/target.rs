//! Where an engine is.
//!
//! In: an engine's host and port. Out: the addresses to try, in order, and how the engine fares. A host that is a name is
//! resolved before it is needed, and again on request; the last good answer is kept.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use greylag_filters::rules::Address;
use greylag_filters::rules::engine::TlsRule;
use http::uri::Scheme;
use tokio::net::{TcpStream, UnixStream};

use super::addresses::Addresses;
use super::standing::Standing;
use crate::events::Events;
use crate::files::Fault;
use crate::socket::{Socket, tune};
use crate::tls;

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Speaks {
    /// HTTP/1.1; to an engine over TLS HTTP/2, if it offers that.
    Http1,
    /// HTTP/2, without asking.
    H2,
}

/// What a pool tells connections by: the target's number and the address.
pub type Key = (u64, SocketAddr);

// Stands for the address of a unix socket, which has none.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A request under way at an engine.
#[derive(Debug)]
pub struct UnderWay(Arc<Target>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An engine, as a place.
#[derive(Debug)]
pub struct Target {
    /// The engine's name in the rules.
    pub name: Arc<str>,
    /// Where it listens, as the rules say.
    pub address: Address,
    /// How it fares. Whoever sends there asks, and tells.
    pub standing: Standing,
    speaks: Speaks,
    tls: Option<tls::Client>,
    // whether HTTP/2 was spoken on the last connection
    shared: AtomicBool,
    under_way: AtomicU64,
    // tells its connections in the pool from those of others
    number: u64,
    addresses: ArcSwap<Addresses>,
    models: ArcSwap<Vec<Box<str>>>,
}

impl Target {
    /// The place of the engine of this name; a literal address needs no resolving. Its ups and downs are told in `events`.
    pub fn new(
        name: Arc<str>,
        address: Address,
        speaks: Speaks,
        tls: &TlsRule,
        events: Arc<Events>,
    ) -> Self {
        const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
        const ONLY_H2: &[&[u8]] = &[b"h2"];
        let literal = match &address.socket {
            Some(_) => Some(NOWHERE),
            None => address
                .host
                .parse::<IpAddr>()
                .ok()
                .map(|ip| SocketAddr::new(ip, address.port)),
        };
        let offers = match speaks {
            Speaks::Http1 => BOTH,
            Speaks::H2 => ONLY_H2,
        };
        Target {
            name,
            tls: address.tls.then(|| tls::Client::new(tls, offers)),
            shared: AtomicBool::new(speaks == Speaks::H2),
            under_way: AtomicU64::new(0),
            number: rand::random(),
            address,
            speaks,
            standing: Standing::told_in(events),
            addresses: ArcSwap::from_pointee(Addresses::of(literal)),
            models: ArcSwap::default(),
        }
    }

    /// Reads what is needed to reach it, so that the first request finds it there.
    ///
    /// # Errors
    /// The fault of its TLS files.
    pub fn prepare(&self) -> Result<(), Fault> {
        match &self.tls {
            Some(tls) => tls.current().map(drop),
            None => Ok(()),
        }
    }

    /// Whether this is that place.
    pub fn is(&self, name: &str, address: &Address, speaks: Speaks, tls: &TlsRule) -> bool {
        *self.name == *name
            && self.address == *address
            && self.speaks == speaks
            && self.tls.as_ref().is_none_or(|client| client.rule() == tls)
    }

    /// Counts a request as under way, unless `most` are; over when what is returned is dropped.
    pub fn begin(self: &Arc<Self>, most: Option<u32>) -> Option<UnderWay> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let begun = UnderWay(self.clone());
        most.is_none_or(|most| before < u64::from(most))
            .then_some(begun)
    }

    /// Requests under way.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    /// What its connections to one of its addresses are kept under.
    pub fn key(&self, address: SocketAddr) -> Key {
        (self.number, address)
    }

    /// Whether its connections carry several requests each, as far as is known.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// What requests to it say that they travel by (RFC 9113 §8.3.1).
    pub fn scheme(&self) -> Scheme {
        match &self.tls {
            None => Scheme::HTTP,
            Some(_) => Scheme::HTTPS,
        }
    }

    /// A new connection to one of its addresses, and what is spoken on it; over TLS with `only_http1` nothing but HTTP/1.1 is
    /// offered.
    ///
    /// # Errors
    /// The system's, or why no hand was shaken.
    pub async fn connect(
        &self,
        address: SocketAddr,
        only_http1: bool,
    ) -> io::Result<(Socket, Speaks)> {
        let (socket, speaks) = self.reach(address, only_http1).await?;
        if !only_http1 {
            self.shared.store(speaks == Speaks::H2, Ordering::Relaxed);
        }
        Ok((socket, speaks))
    }

    async fn reach(&self, address: SocketAddr, only_http1: bool) -> io::Result<(Socket, Speaks)> {
        if let Some(path) = &self.address.socket {
            return Ok((Socket::Unix(UnixStream::connect(path).await?), self.speaks));
        }
        let stream = TcpStream::connect(address).await?;
        tune(&stream)?;
        match &self.tls {
            None => Ok((Socket::Tcp(stream), self.speaks)),
            Some(tls) => tls.shake(stream, &self.address.host, only_http1).await,
        }
    }

    /// The addresses to try; resolves the name if that has not been done.
    ///
    /// # Errors
    /// The name has no address.
    pub async fn addresses(&self) -> io::Result<Arc<Addresses>> {
        let known = self.known();
        if !known.is_empty() {
            return Ok(known);
        }
        self.resolve().await?;
        Ok(self.known())
    }

    /// The addresses that are known now, without waiting for them.
    pub fn known(&self) -> Arc<Addresses> {
        self.addresses.load_full()
    }

    /// Resolves the name anew, by the system; a failure keeps the addresses there were.
    ///
    /// # Errors
    /// The resolver's, or that the name has no address.
    pub async fn resolve(&self) -> io::Result<()> {
        self.resolve_by(async |host, port| {
            let found = tokio::net::lookup_host((host, port)).await?;
            Ok(found.collect())
        })
        .await
    }

    /// Resolves the name anew, by `look_up`, which is not asked about a literal address.
    ///
    /// # Errors
    /// The resolver's, or that the name has no address.
    pub async fn resolve_by(
        &self,
        look_up: impl AsyncFnOnce(&str, u16) -> io::Result<Vec<SocketAddr>>,
    ) -> io::Result<()> {
        let Address { host, port, .. } = &self.address;
        if self.address.socket.is_some() || host.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        let found = look_up(host, *port).await?;
        if found.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the name has no address",
            ));
        }
        let renewed = self.known().renewed(found);
        self.addresses.store(Arc::new(renewed));
        Ok(())
    }

    /// The models that the engine said it serves, last time it was asked.
    pub fn models(&self) -> Arc<Vec<Box<str>>> {
        self.models.load_full()
    }

    /// Notes the models that the engine says it serves.
    pub fn set_models(&self, models: Vec<Box<str>>) {
        self.models.store(Arc::new(models));
    }
}
