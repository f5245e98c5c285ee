//! What is in files of certificates and keys.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Fault;

/// The certificates in a file, at least one.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let wrong = |what: String| Fault(format!("{}: {what}", file.display()));
    let read = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
    let found: Vec<_> = read
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    match found.is_empty() {
        true => Err(wrong("holds no certificate in PEM".into())),
        false => Ok(found),
    }
}

/// The private key in a file.
pub fn key(file: &Path) -> Result<PrivateKeyDer<'static>, Fault> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| {
        Fault(format!(
            "{}: no private key in PEM: {error}",
            file.display()
        ))
    })
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
