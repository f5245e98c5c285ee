//! TLS, by rustls with the ring provider.
//!
//! In: files of certificates and keys, in PEM. Out: what listeners and connections to engines shake hands with. The files are
//! looked at whenever a hand is to be shaken, and read anew when they have changed; a set that does not fit together
//! leaves the one before it in use.

mod client;
mod files;
mod server;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

use crate::files::Fault;
pub use client::Client;
pub use server::{Server, Shaken, accept};

/// HTTP/2 over TLS, as ALPN names it.
pub const H2: &[u8] = b"h2";
/// HTTP/1.1 over TLS.
pub const HTTP1: &[u8] = b"http/1.1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
