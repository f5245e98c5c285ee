//! An engine's API key, from a file.
//!
//! In: the file's path. Out: the field that is sent, as of now: the file is looked at whenever a request is sent, and read anew
//! when it has changed. The key is in no message and no debug output.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use greylag_filters::rules::engine::bearer;
use http::HeaderValue;

use crate::files::{self, Fault, Made};

/// A key that is kept in a file.
#[derive(Debug)]
pub struct ApiKey {
    file: PathBuf,
    // the value is marked as sensitive, so that it is not printed
    made: Made<HeaderValue>,
    // whether it was told that there never was a key
    told: AtomicBool,
}

impl ApiKey {
    /// The longest file that is read, in bytes.
    const LONGEST: u64 = 64 << 10;

    /// In this file, which has not been read yet.
    pub fn in_file(file: &Path) -> Self {
        ApiKey {
            file: file.to_owned(),
            made: Made::of([file.to_owned()]),
            told: AtomicBool::new(false),
        }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The value of `authorization`. A file that has changed and no longer holds a key leaves the one before in use.
    ///
    /// # Errors
    /// Why the file never held one.
    pub fn value(&self) -> Result<HeaderValue, Fault> {
        let made = self.made.current(
            || self.read(),
            |fault| tracing::error!(name: "greylag.engine.api_key_unreadable", %fault, "an engine's API key cannot be read: the one before is used on"),
        );
        match made {
            Ok(made) => Ok((*made).clone()),
            Err(fault) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::error!(name: "greylag.engine.api_key_unreadable", %fault, "an engine's API key cannot be read");
                }
                Err(fault)
            }
        }
    }

    fn read(&self) -> Result<HeaderValue, Fault> {
        let wrong = |what: String| Fault(format!("{}: {what}", self.file.display()));
        let content = files::read(&self.file, Self::LONGEST);
        let content = content.map_err(|error| wrong(error.to_string()))?;
        let content = String::from_utf8(content).map_err(|_| wrong("is no UTF-8 text".into()))?;
        bearer(&content).ok_or_else(|| wrong("holds no key that a header can have".into()))
    }
}
