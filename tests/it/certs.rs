//! Certificates for the tests, made anew each time.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority, and a folder of its own for what it signs.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: Folder,
}

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let name = format!("greylag-test-{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    /// The path of a file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate and its key, as files and as text.
#[derive(Clone)]
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub texts: (String, String),
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no name is a bad one");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Authorities are told apart by their names.
        let name = format!("authority {:016x}", rand::random::<u64>());
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("ring makes keys");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("ring signs");
        let folder = Folder::new();
        std::fs::write(folder.0.join("ca.pem"), issuer.pem()).expect("the folder can be written");
        Authority { issuer, folder }
    }

    /// The file of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("it is one");
        roots
    }

    /// Signs a certificate for this name.
    pub fn sign(&self, name: &str) -> Pair {
        self.signed(name, |_| {})
    }

    /// Signs one that has run out.
    pub fn sign_expired(&self, name: &str) -> Pair {
        self.signed(name, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    fn signed(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new(vec![name.into()]).expect("the name is one");
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let key = KeyPair::generate().expect("ring makes keys");
        let cert = params.signed_by(&key, &self.issuer).expect("ring signs");
        let stem = format!("{:016x}", rand::random::<u64>());
        let pair = Pair {
            cert: self.folder.0.join(format!("{stem}.pem")),
            key: self.folder.0.join(format!("{stem}.key")),
            texts: (cert.pem(), key.serialize_pem()),
        };
        pair.write();
        pair
    }

    /// What a client of the tests trusts and shows.
    pub fn client(&self, shown: Option<&Pair>, alpn: &[&str]) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_root_certificates(self.roots());
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(pair.chain(), pair.private())
                .expect("they fit"),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

impl Pair {
    /// Writes its texts to its files.
    pub fn write(&self) {
        for (file, text) in [(&self.cert, &self.texts.0), (&self.key, &self.texts.1)] {
            std::fs::write(file, text).expect("the folder can be written");
        }
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        let read = CertificateDer::pem_slice_iter(self.texts.0.as_bytes());
        read.map(|read| read.expect("it is one")).collect()
    }

    fn private(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.texts.1.as_bytes()).expect("it is one")
    }

    /// What a server of the tests shows, and whose certificates it asks for.
    pub fn server(&self, clients: Option<&Authority>, alpn: &[&str]) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring has them");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => builder.with_client_cert_verifier(
                rustls::server::WebPkiClientVerifier::builder_with_provider(
                    Arc::new(authority.roots()),
                    provider,
                )
                .build()
                .expect("it has a root"),
            ),
        };
        let config = builder.with_single_cert(self.chain(), self.private());
        let mut config = config.expect("they fit");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}
