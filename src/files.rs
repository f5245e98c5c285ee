//! Files that may change while they are used: what was made of them, and whether it still holds.
//!
//! In: paths, and how something is made of what is in them. Out: what is made of them now, or the last that could be made.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// What was wrong with a file, or with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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

/// What changes when a file does: its time to the nanosecond, its place, its size; none where it is not there.
pub type Stamp = Option<(i64, i64, u64, u64)>;

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

/// The stamp of a file, links followed.
pub fn stamp(file: &Path) -> Stamp {
    let found = fs::metadata(file).ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.ino(), found.size()))
}
