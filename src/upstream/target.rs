//! Where an engine is.
//!
//! In: an engine's host and port. Out: the addresses to try, in order. A host that is a name is resolved before it is
//! needed, again on request and when none of its addresses answers; the last good answer is kept.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use greylag_filters::rules::Address;
use greylag_filters::rules::engine::Engine;
use pingora_core::protocols::TcpKeepalive;
use pingora_core::upstreams::peer::HttpPeer;

/// An engine, as a place.
#[derive(Debug)]
pub struct Target {
    /// The engine's name in the rules.
    pub name: Arc<str>,
    /// Where it listens, as the rules say.
    pub address: Address,
    peers: ArcSwap<Vec<HttpPeer>>,
    models: ArcSwap<Vec<Box<str>>>,
}

impl Target {
    /// The place of `engine`; a literal address needs no resolving.
    pub fn new(engine: &Engine) -> Self {
        let (host, port) = (&engine.address.host, engine.address.port);
        let literal = host.parse::<IpAddr>().ok();
        let peers = literal.map(|ip| peer(SocketAddr::new(ip, port)));
        Target {
            name: engine.name.clone(),
            address: engine.address.clone(),
            peers: ArcSwap::from_pointee(peers.into_iter().collect()),
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
    pub async fn peers(&self) -> std::io::Result<Arc<Vec<HttpPeer>>> {
        let known = self.peers.load_full();
        if !known.is_empty() {
            return Ok(known);
        }
        self.resolve().await?;
        Ok(self.peers.load_full())
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
        let found: Vec<HttpPeer> = tokio::net::lookup_host((&**host, *port))
            .await?
            .map(peer)
            .collect();
        if found.is_empty() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "the name has no address",
            ));
        }
        self.peers.store(Arc::new(found));
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

fn peer(address: SocketAddr) -> HttpPeer {
    let mut peer = HttpPeer::new(address, false, String::new());
    // Finds an engine's host that vanished without a FIN within about a minute.
    peer.options.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(30),
        interval: Duration::from_secs(10),
        count: 3,
        #[cfg(target_os = "linux")]
        user_timeout: Duration::ZERO,
    });
    peer
}
