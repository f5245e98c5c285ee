//! The access log: one JSON line an exchange.
//!
//! In: records. Out: lines on standard output or in a file, written by a thread of its own. A sink that blocks never
//! holds up an exchange: lines wait in a bounded buffer, and past that they are dropped and counted.

pub mod fields;
pub mod line;
pub mod said;
mod sink;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use greylag_filters::units::Share;
use parking_lot::{Condvar, Mutex};
use sink::Sink;

use crate::record::{Logged, Record};

/// The most that waits to be written, in bytes.
pub const ROOM: usize = 1 << 20;
/// How long a line may wait before it is written.
const PAUSE: Duration = Duration::from_millis(50);

/// The access log.
#[derive(Debug)]
pub struct Log {
    share: Share,
    shared: Option<Arc<Shared>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Vec<u8>>,
    dropped: AtomicU64,
    ending: AtomicBool,
    end: Condvar,
}

impl Log {
    /// A log that writes nothing.
    pub fn off() -> Self {
        Log {
            share: Share::ALL,
            shared: None,
            writer: Mutex::new(None),
        }
    }

    /// A log on standard output.
    ///
    /// # Errors
    /// Its thread cannot be started.
    pub fn stdout() -> io::Result<Self> {
        Log::to(Sink::stdout()?)
    }

    /// A log at the end of a file, which is made if it is not there.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or the log's thread cannot be started.
    pub fn file(path: &Path) -> io::Result<Self> {
        Log::to(Sink::file(path)?)
    }

    fn to(sink: Sink) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writing = shared.clone();
        let writer = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_all(&writing, sink))?;
        Ok(Log {
            share: Share::ALL,
            shared: Some(shared),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// The same log, of which such a share of the lines that tell of nothing bad is written.
    pub fn with_share(self, share: Share) -> Self {
        Log { share, ..self }
    }

    /// The share of those lines that is written.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Adds the record's line, if it is one of those that are written.
    pub fn line(&self, record: &Record) {
        let Some(shared) = &self.shared else { return };
        if record.logged == Logged::Not {
            return;
        }
        let mut waiting = shared.waiting.lock();
        let before = waiting.len();
        line::write(record, &mut waiting);
        if waiting.len() > ROOM {
            waiting.truncate(before);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many lines were dropped.
    pub fn dropped(&self) -> u64 {
        self.shared
            .as_ref()
            .map_or(0, |shared| shared.dropped.load(Ordering::Relaxed))
    }

    /// Writes what waits and ends the log; for a sink that blocks, it waits no longer than a second.
    pub fn flush(&self) {
        let (Some(shared), Some(writer)) = (&self.shared, self.writer.lock().take()) else {
            return;
        };
        shared.ending.store(true, Ordering::Relaxed);
        shared.end.notify_all();
        for _ in 0..100 {
            if writer.is_finished() {
                let _ = writer.join();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn write_all(shared: &Shared, mut sink: Sink) {
    let mut lines = Vec::new();
    loop {
        let ending = shared.ending.load(Ordering::Relaxed);
        {
            let mut waiting = shared.waiting.lock();
            if waiting.is_empty() && !ending {
                shared.end.wait_for(&mut waiting, PAUSE);
            }
            std::mem::swap(&mut *waiting, &mut lines);
        }
        // A sink that is gone takes no lines any more; exchanges go on.
        if !lines.is_empty() {
            let lost = sink.write(&lines);
            shared.dropped.fetch_add(lost, Ordering::Relaxed);
        }
        lines.clear();
        if ending {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc;

    use super::*;

    // A sink that takes each write only when it is told to.
    struct Blocked(mpsc::Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The test is over when there is nobody left to tell it.
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // A sink that takes nothing.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_that_blocks_holds_nobody_up_and_what_finds_no_room_is_counted() {
        let (release, told) = mpsc::channel();
        let log = Log::to(Sink::on(Box::new(Blocked(told)))).unwrap();
        let record = Record::default();
        // Twice what can wait, and what the writer may have taken before it blocks.
        let mut line = Vec::new();
        line::write(&record, &mut line);
        for _ in 0..3 * ROOM.div_ceil(line.len()) {
            log.line(&record);
        }
        assert!(log.dropped() > 0);
        let waiting = log
            .shared
            .as_ref()
            .map(|shared| shared.waiting.lock().len());
        assert!(
            waiting.is_some_and(|waiting| waiting <= ROOM),
            "{waiting:?}"
        );
        drop(release);
        log.flush();
    }

    #[test]
    fn every_line_that_is_lost_is_counted() {
        let log = Log::to(Sink::on(Box::new(Full))).unwrap();
        for _ in 0..10 {
            log.line(&Record::default());
        }
        log.flush();
        assert_eq!(log.dropped(), 10);
    }
}
