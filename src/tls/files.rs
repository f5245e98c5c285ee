//! What is in files of certificates and keys.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Fault;
use crate::files;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 4 << 20;

/// The certificates in a file, at least one.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let wrong = |what: String| Fault(format!("{}: {what}", file.display()));
    let text = files::read(file, LONGEST).map_err(|error| wrong(error.to_string()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    match found.is_empty() {
        true => Err(wrong("holds no certificate in PEM".into())),
        false => Ok(found),
    }
}

/// The private key in a file.
pub fn key(file: &Path) -> Result<PrivateKeyDer<'static>, Fault> {
    let wrong = |what: String| Fault(format!("{}: {what}", file.display()));
    let text = files::read(file, LONGEST).map_err(|error| wrong(error.to_string()))?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| wrong(format!("no private key in PEM: {error}")))
}

/// The authorities in a file.
pub fn authorities(file: &Path) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|error| Fault(format!("{}: {error}", file.display())))?;
    }
    Ok(roots)
}
