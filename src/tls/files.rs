//! Files of certificates and keys, and whether they have changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Fault;

/// What was made of files, for as long as they stay as they are.
#[derive(Debug)]
pub struct Made<T> {
    files: Vec<PathBuf>,
    last: Mutex<Last<T>>,
}

#[derive(Debug)]
struct Last<T> {
    stamps: Vec<Stamp>,
    made: Option<Arc<T>>,
}

// What changes when a file does: its time to the nanosecond, its place, its size.
type Stamp = Option<(i64, i64, u64, u64)>;

impl<T> Made<T> {
    /// Of these files, not read yet.
    pub fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Made {
            files: files.into_iter().collect(),
            last: Mutex::new(Last {
                stamps: Vec::new(),
                made: None,
            }),
        }
    }

    /// What they make now. When they have changed and no longer fit together, `told` hears why, once, and what there was
    /// is used on.
    ///
    /// # Errors
    /// The fault, when nothing was ever made of them.
    pub fn current(
        &self,
        make: impl FnOnce() -> Result<T, Fault>,
        told: impl FnOnce(&Fault),
    ) -> Result<Arc<T>, Fault> {
        let stamps: Vec<Stamp> = self.files.iter().map(|file| stamp(file)).collect();
        let mut last = self.last.lock();
        if let (Some(made), true) = (&last.made, last.stamps == stamps) {
            return Ok(made.clone());
        }
        match (make(), &last.made) {
            (Ok(made), _) => {
                let made = Arc::new(made);
                *last = Last {
                    stamps,
                    made: Some(made.clone()),
                };
                Ok(made)
            }
            (Err(fault), Some(before)) => {
                told(&fault);
                let before = before.clone();
                last.stamps = stamps;
                Ok(before)
            }
            (Err(fault), None) => Err(fault),
        }
    }
}

fn stamp(file: &Path) -> Stamp {
    let found = fs::metadata(file).ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.ino(), found.size()))
}

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
