//! Where lines are written.
//!
//! In: whole lines. Out: bytes in a file or on standard output, and how many lines did not get there. A line that was cut off is
//! ended before the next, so that it spoils no other. A file that was moved away is made anew, as those who rotate logs expect.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Where lines are written.
pub(super) struct Sink {
    to: Box<dyn Write + Send>,
    // the file's path, and which file that was
    named: Option<(PathBuf, Place)>,
    // the last line is not whole
    is_torn: bool,
}

type Place = (u64, u64);

impl Sink {
    /// Standard output, without a buffer of its own.
    pub(super) fn stdout() -> io::Result<Sink> {
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Sink::on(Box::new(File::from(stdout))))
    }

    /// The end of a file, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be opened; a pipe that nobody reads is not waited for.
    pub(super) fn file(path: &Path) -> io::Result<Sink> {
        let file = open(path)?;
        let named = Some((path.to_owned(), place(&file)?));
        Ok(Sink {
            named,
            ..Sink::on(Box::new(file))
        })
    }

    pub(super) fn on(to: Box<dyn Write + Send>) -> Sink {
        Sink {
            to,
            named: None,
            is_torn: false,
        }
    }

    /// Writes lines; how many of them were lost.
    pub(super) fn write(&mut self, lines: &[u8]) -> u64 {
        self.follow();
        if self.is_torn && !self.put(b"\n").is_empty() {
            return count(lines);
        }
        let rest = self.put(lines);
        let written = &lines[..lines.len() - rest.len()];
        // The line end that was put before it ends what had been torn.
        self.is_torn = written.last().is_some_and(|byte| *byte != b'\n');
        count(rest)
    }

    // Writes what it can; the rest.
    fn put<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => break,
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        rest
    }

    // Where the path leads to another file, or to none, a new one is written to.
    fn follow(&mut self) {
        let Some((path, was)) = &mut self.named else {
            return;
        };
        let leads_there =
            std::fs::metadata(&*path).is_ok_and(|found| (found.dev(), found.ino()) == *was);
        if leads_there {
            return;
        }
        if let Ok(file) = open(path)
            && let Ok(place) = place(&file)
        {
            *was = place;
            self.to = Box::new(file);
            self.is_torn = false;
        }
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn place(file: &File) -> io::Result<Place> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

// Opening a pipe waits for its reader, which nobody could interrupt; writing to it may wait, since a thread of its own does.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    // Takes so many bytes in all, and what it has taken.
    #[derive(Clone)]
    struct Small(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut small = self.0.lock().unwrap();
            let count = bytes.len().min(small.0);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            small.0 -= count;
            small.1.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_is_cut_off_spoils_no_other_and_is_counted() {
        let small = Small(Arc::new(Mutex::new((6, Vec::new()))));
        let mut sink = Sink::on(Box::new(small.clone()));
        assert_eq!(sink.write(b"one\ntwo\nthree\n"), 2);
        assert_eq!(sink.write(b"four\n"), 1);
        small.0.lock().unwrap().0 = 100;
        assert_eq!(sink.write(b"five\n"), 0);
        assert_eq!(sink.write(b"six\n"), 0);
        let taken = small.0.lock().unwrap().1.clone();
        assert_eq!(String::from_utf8(taken).unwrap(), "one\ntw\nfive\nsix\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_anew() {
        let folder = std::env::temp_dir().join(format!("greylag-sink-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let mut sink = Sink::file(&path).unwrap();
        assert_eq!(sink.write(b"one\n"), 0);
        std::fs::rename(&path, &moved).unwrap();
        assert_eq!(sink.write(b"two\n"), 0);
        assert_eq!(std::fs::read(&moved).unwrap(), b"one\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"two\n");
        // A pipe without a reader is an error, and no wait.
        let pipe = folder.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Sink::file(&pipe).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
