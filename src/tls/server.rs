//! TLS on a listener.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::files::{authorities, certificates, key};
use super::{Fault, provider};
use crate::config::ListenerTls;
use crate::files::Made;
use crate::socket::Socket;
use crate::upstream::Speaks;

/// What a listener shakes hands with.
#[derive(Debug)]
pub struct Server {
    rule: ListenerTls,
    alpn: &'static [&'static [u8]],
    made: Made<ServerConfig>,
}

impl Server {
    /// With these files, which are read; of these protocols the client has the choice.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(rule: &ListenerTls, alpn: &'static [&'static [u8]]) -> Result<Self, Fault> {
        let files = [Some(&rule.cert), Some(&rule.key), rule.client_ca.as_ref()];
        let server = Server {
            rule: rule.clone(),
            alpn,
            made: Made::of(files.into_iter().flatten().cloned()),
        };
        server.current()?;
        Ok(server)
    }

    /// What the next hand is shaken with.
    ///
    /// # Errors
    /// What is wrong with the files, when they have never been right.
    pub fn current(&self) -> Result<Arc<ServerConfig>, Fault> {
        self.made.current(
            || self.make(),
            |fault| tracing::error!(name: "greylag.listener.tls_files_wrong", %fault, "a listener's TLS files are wrong: the ones before are used on"),
        )
    }

    fn make(&self) -> Result<ServerConfig, Fault> {
        let wrong =
            |error: &dyn std::fmt::Display| Fault(format!("{}: {error}", self.rule.cert.display()));
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?;
        let builder = match &self.rule.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let roots = Arc::new(authorities(file)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = verifier
                    .build()
                    .map_err(|error| Fault(format!("{}: {error}", file.display())))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (certificates, key) = (certificates(&self.rule.cert)?, key(&self.rule.key)?);
        let mut config = builder
            .with_single_cert(certificates, key)
            .map_err(|error| wrong(&error))?;
        config.alpn_protocols = self.alpn.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }
}

/// Why no hand was shaken.
#[derive(Debug)]
pub enum Shaken {
    /// The client does not speak TLS; what it says can still be read.
    Plain(TcpStream),
    /// It failed; why, in rustls's words.
    Failed(String),
}

/// Shakes hands with a client; what is spoken then. Not cancel-safe.
///
/// # Errors
/// Why not.
pub async fn accept(stream: TcpStream, tls: &Server) -> Result<(Socket, Speaks), Shaken> {
    // A record of TLS that holds a handshake begins so (RFC 8446 §5.1).
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) if first[0] != HANDSHAKE => return Err(Shaken::Plain(stream)),
        Ok(_) => {}
        Err(error) => return Err(Shaken::Failed(error.to_string())),
    }
    let config = tls
        .current()
        .map_err(|fault| Shaken::Failed(fault.to_string()))?;
    let accepted = TlsAcceptor::from(config).accept(stream).await;
    let stream = accepted.map_err(|error| Shaken::Failed(error.to_string()))?;
    let speaks = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Speaks::H2,
        _ => Speaks::Http1,
    };
    Ok((Socket::Tls(Box::new(stream.into())), speaks))
}
