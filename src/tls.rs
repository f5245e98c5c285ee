//! TLS, by rustls with the ring provider.
//!
//! In: files of certificates and keys, in PEM. Out: what listeners and connections to engines shake hands with. The files are
//! looked at whenever a hand is to be shaken, and read anew when they have changed; a set that does not fit together
//! leaves the one before it in use.

mod client;
mod files;
mod server;

use std::fmt;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

pub use client::Client;
pub use files::Made;
pub use server::{Server, Shaken, accept};

/// What was wrong with a file, or with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    /// What is wrong, and with which file.
    pub fn of(what: String) -> Self {
        Fault(what)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
