//! Files that may change while they are used: what was made of them, and whether it still holds.
//!
//! In: paths, and how something is made of what is in them. Out: what is made of them now, or the last that could be made.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
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

/// What changes when a file does: its times to the nanosecond, its place, its size; none where it is not there.
pub type Stamp = Option<([(i64, i64); 2], u64, u64)>;

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

/// What is in a file of at most so many bytes. Whatever is no plain file is refused: opening a pipe would wait for whoever fills it.
///
/// # Errors
/// The system's; or it is none, or longer.
pub fn read(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut options = fs::File::options();
    // Of a pipe nothing is waited for then.
    let opened = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let opened = opened.open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other("found something else than a plain file"));
    }
    let mut content = Vec::new();
    opened.take(most + 1).read_to_end(&mut content)?;
    match content.len() as u64 > most {
        true => Err(io::Error::other(format!("found more than {most} bytes"))),
        false => Ok(content),
    }
}

/// The stamp of a file, links followed.
pub fn stamp(file: &Path) -> Stamp {
    let found = fs::metadata(file).ok()?;
    let times = [
        (found.mtime(), found.mtime_nsec()),
        (found.ctime(), found.ctime_nsec()),
    ];
    Some((times, found.ino(), found.size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_plain_file_is_read_and_no_more_than_allowed() {
        let directory = std::env::temp_dir().join(format!("greylag-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let (plain, pipe) = (directory.join("plain"), directory.join("pipe"));
        fs::write(&plain, "12345").unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&plain, 5).unwrap(), b"12345");
        let wrong = |file: &Path, most| read(file, most).unwrap_err().to_string();
        assert_eq!(wrong(&plain, 4), "found more than 4 bytes");
        for other in [&pipe, &directory, Path::new("/dev/zero")] {
            let fault = wrong(other, 100);
            assert!(
                fault.contains("plain file") || fault.contains("directory"),
                "{fault}"
            );
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
