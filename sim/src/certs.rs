//! Certificates for tests, made in memory: an authority, and what it vouches for.
//!
//! In: names. Out: certificates and keys, as PEM. Keys come from the operating system's chance, the one thing here that
//! does not follow from a seed. Never for anything but tests: nobody guards these keys.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Why no certificate was made: a name that is none, in practice.
pub use rcgen::Error;

/// A certificate authority.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, as PEM.
    pub certificate: String,
    /// Its private key, as PEM.
    pub key: String,
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// When the system gives no chance to make a key of.
    pub fn new(name: &str) -> Result<Authority, Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        CertifiedIssuer::self_signed(params, KeyPair::generate()?).map(Authority)
    }

    /// Its own certificate, as PEM: what those trust who trust it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a server with these names; a name may be an address. One for the wrong name is one for another.
    ///
    /// # Errors
    /// When a name is none.
    pub fn server(&self, names: &[&str]) -> Result<Certificate, Error> {
        self.sign(server(names)?)
    }

    /// One that was good until the end of 2020.
    ///
    /// # Errors
    /// When a name is none.
    pub fn expired(&self, names: &[&str]) -> Result<Certificate, Error> {
        let mut params = server(names)?;
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 12, 31);
        self.sign(params)
    }

    /// A certificate for a client.
    ///
    /// # Errors
    /// When the name is none.
    pub fn client(&self, name: &str) -> Result<Certificate, Error> {
        let mut params = named(&[name])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Result<Certificate, Error> {
        let key = KeyPair::generate()?;
        Ok(Certificate {
            certificate: params.signed_by(&key, &self.0)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn server(names: &[&str]) -> Result<CertificateParams, Error> {
    let mut params = named(names)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn named(names: &[&str]) -> Result<CertificateParams, Error> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names.clone())?;
    if let Some(first) = names.first() {
        params.distinguished_name.push(DnType::CommonName, first);
    }
    Ok(params)
}
