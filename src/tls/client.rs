//! TLS to an engine.

use std::io;
use std::sync::Arc;

use greylag_filters::rules::engine::TlsRule;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::files::{authorities, certificates, key};
use super::{Fault, provider};
use crate::files::Made;
use crate::socket::Socket;
use crate::upstream::Speaks;

/// What hands are shaken with.
#[derive(Debug)]
pub struct Client {
    rule: TlsRule,
    alpn: &'static [&'static [u8]],
    made: Made<ClientConfig>,
}

impl Client {
    /// As the rule says; these protocols are offered, the first one rather.
    pub fn new(rule: &TlsRule, alpn: &'static [&'static [u8]]) -> Self {
        let files = [&rule.ca, &rule.cert, &rule.key];
        Client {
            rule: rule.clone(),
            alpn,
            made: Made::of(files.into_iter().flatten().cloned()),
        }
    }

    /// The rule it was made of.
    pub fn rule(&self) -> &TlsRule {
        &self.rule
    }

    // The name that is asked for, and that the certificate must be for. It is never empty: that would check nothing.
    fn name(&self, host: &str) -> Result<ServerName<'static>, Fault> {
        let name = self.rule.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| Fault(format!("{name:?} is no name that a certificate can be for")))
    }

    /// What the next hand is shaken with.
    ///
    /// # Errors
    /// The fault of the files, when nothing was ever made of them.
    pub fn current(&self) -> Result<Arc<ClientConfig>, Fault> {
        self.made.current(
            || self.make(),
            |fault| tracing::error!(name: "greylag.engine.tls_files_wrong", %fault, "an engine's TLS files are wrong: the ones before are used on"),
        )
    }

    /// Shakes hands with an engine at this host, offering HTTP/1.1 alone if so asked; what is spoken then.
    ///
    /// # Errors
    /// Why not, in rustls's words.
    pub async fn shake(
        &self,
        stream: TcpStream,
        host: &str,
        only_http1: bool,
    ) -> io::Result<(Socket, Speaks)> {
        let wrong = |fault: Fault| io::Error::other(format!("TLS: {fault}"));
        let name = self.name(host).map_err(wrong)?;
        let mut config = self.current().map_err(wrong)?;
        if only_http1 {
            Arc::make_mut(&mut config).alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        let shaken = TlsConnector::from(config).connect(name, stream).await;
        let stream = shaken.map_err(|error| io::Error::other(format!("TLS: {error}")))?;
        let speaks = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Speaks::H2,
            _ => Speaks::Http1,
        };
        Ok((Socket::Tls(Box::new(stream.into())), speaks))
    }

    fn make(&self) -> Result<ClientConfig, Fault> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault(error.to_string()))?;
        let builder = if self.rule.insecure {
            let anyone = Arc::new(Anyone(provider));
            builder.dangerous().with_custom_certificate_verifier(anyone)
        } else {
            builder.with_root_certificates(match &self.rule.ca {
                Some(file) => authorities(file)?,
                None => system_authorities()?,
            })
        };
        let mut config = match (&self.rule.cert, &self.rule.key) {
            (Some(cert), Some(file)) => builder
                .with_client_auth_cert(certificates(cert)?, key(file)?)
                .map_err(|error| Fault(format!("{}: {error}", cert.display())))?,
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }
}

fn system_authorities() -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    match taken {
        0 => Err(Fault(
            "the system trusts no authority: name one with `tls.ca`".into(),
        )),
        _ => Ok(roots),
    }
}

// Takes any certificate, for `insecure: true`; that who shows it has its key is still checked.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
