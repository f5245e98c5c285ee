//! Where an engine is.
//!
//! In: an engine's host and port. Out: the addresses to try, in order. A host that is a name is resolved before it is
//! needed, again on request and when none of its addresses answers; the last good answer is kept.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use greylag_filters::rules::Address;
use greylag_filters::rules::engine::Engine;

/// An engine, as a place.
#[derive(Debug)]
pub struct Target {
    /// The engine's name in the rules.
    pub name: Arc<str>,
    /// Where it listens, as the rules say.
    pub address: Address,
    addresses: ArcSwap<Vec<SocketAddr>>,
    models: ArcSwap<Vec<Box<str>>>,
}

impl Target {
    /// The place of `engine`; a literal address needs no resolving.
    pub fn new(engine: &Engine) -> Self {
        let (host, port) = (&engine.address.host, engine.address.port);
        let literal = host.parse::<IpAddr>().ok();
        let addresses = literal.map(|ip| SocketAddr::new(ip, port));
        Target {
            name: engine.name.clone(),
            address: engine.address.clone(),
            addresses: ArcSwap::from_pointee(addresses.into_iter().collect()),
            models: ArcSwap::default(),
        }
    }

    /// Whether this is the place of `engine`.
    pub fn serves(&self, engine: &Engine) -> bool {
        self.name == engine.name && self.address == engine.address
    }

    /// The addresses to try, in order; resolves the name if that has not been done.
    ///
    /// # Errors
    /// The name has no address.
    pub async fn addresses(&self) -> std::io::Result<Arc<Vec<SocketAddr>>> {
        let known = self.addresses.load_full();
        if !known.is_empty() {
            return Ok(known);
        }
        self.resolve().await?;
        Ok(self.addresses.load_full())
    }

    /// Resolves the name anew; a failure keeps the addresses there were.
    ///
    /// # Errors
    /// The resolver's, or that the name has no address.
    pub async fn resolve(&self) -> std::io::Result<()> {
        let Address { host, port, .. } = &self.address;
        if host.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        let found: Vec<SocketAddr> = tokio::net::lookup_host((&**host, *port)).await?.collect();
        if found.is_empty() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "the name has no address",
            ));
        }
        self.addresses.store(Arc::new(found));
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
