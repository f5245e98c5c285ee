//! TLS at an engine's door.
//!
//! In: a certificate with its key, and whom clients must be vouched for by. Out: the handshake, and what the client said in
//! it. Never a default of the machine: neither its trusted authorities nor its files are looked at.

use std::io;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use crate::certs::Certificate;
use crate::socket::Socket;

/// What an engine shows of itself in a handshake, and what it wants of the client. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

/// Why no TLS can be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No PEM, or none of what is wanted in it.
    #[error("a certificate or key cannot be read: {0}")]
    Pem(#[from] pem::Error),
    /// The certificate and the key do not belong together, or are of no known kind.
    #[error("a certificate or key cannot be used: {0}")]
    Unfit(#[from] rustls::Error),
    /// The authority vouches for nobody.
    #[error("clients cannot be checked: {0}")]
    Clients(#[from] VerifierBuilderError),
}

/// What a client said in a handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// The name it asked for (SNI); none for an address.
    pub server_name: Option<String>,
    /// The protocol agreed on (ALPN).
    pub protocol: Option<String>,
    /// Its certificate, as DER.
    pub client: Option<Vec<u8>>,
}

impl Tls {
    /// Serves with this certificate and asks clients for none.
    ///
    /// # Errors
    /// When the certificate or the key is none, or they do not belong together.
    pub fn new(certificate: &Certificate) -> Result<Tls, TlsError> {
        Tls::with(certificate, None)
    }

    /// Serves with this certificate, and only clients whose own certificate this authority (PEM) has signed.
    ///
    /// # Errors
    /// As for [`Tls::new`], and when the authority is none.
    pub fn asking_clients(certificate: &Certificate, authority: &str) -> Result<Tls, TlsError> {
        Tls::with(certificate, Some(authority))
    }

    fn with(certificate: &Certificate, authority: Option<&str>) -> Result<Tls, TlsError> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let builder = match authority {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes())?;
        Ok(Tls(Arc::new(builder.with_single_cert(chain, key)?)))
    }

    /// Speaks these protocols only (ALPN), the first the client knows; without this call none is agreed on.
    #[must_use]
    pub fn protocols(self, protocols: &[&str]) -> Tls {
        let mut config = ServerConfig::clone(&self.0);
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        Tls(Arc::new(config))
    }

    /// Does the handshake.
    pub(crate) async fn accept(&self, socket: Socket) -> io::Result<(Socket, Handshake)> {
        let stream = TlsAcceptor::from(self.0.clone()).accept(socket).await?;
        let (_, connection) = stream.get_ref();
        let protocol = connection.alpn_protocol();
        let certificates = connection.peer_certificates();
        let handshake = Handshake {
            server_name: connection.server_name().map(str::to_owned),
            protocol: protocol.map(|name| String::from_utf8_lossy(name).into_owned()),
            client: certificates.and_then(|chain| Some(chain.first()?.to_vec())),
        };
        Ok((Socket::Tls(Box::new(stream)), handshake))
    }
}
