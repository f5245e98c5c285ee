//! Lines to standard error that nobody waits for.
//!
//! In: lines, from any thread. Out: the same, by a thread of its own. A reader that is slow, full or gone costs lines, which are
//! counted, and holds up nobody: a worker that told of an engine would else stop with its log.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// So many lines wait.
const ROOM: usize = 1024;
/// How long the last lines are waited for.
const LAST: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Clone)]
pub(super) struct Lines {
    to: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

enum Line {
    Text(Vec<u8>),
    // all before it are written
    Done(SyncSender<()>),
}

impl Lines {
    /// To standard error.
    pub(super) fn start() -> Lines {
        Lines::to(io::stderr())
    }

    fn to(sink: impl Write + Send + 'static) -> Lines {
        let (to, from) = sync_channel(ROOM);
        let lost = Arc::new(AtomicU64::new(0));
        let held = lost.clone();
        // Without it lines are lost, and counted.
        let _ = std::thread::Builder::new()
            .name("events".into())
            .spawn(move || write(&from, sink, &held));
        Lines { to, lost }
    }

    /// Waits until what was said is written, but not for long.
    pub(super) fn finish(&self) {
        let (done, is_done) = sync_channel(1);
        if self.to.try_send(Line::Done(done)).is_ok() {
            let _ = is_done.recv_timeout(LAST);
        }
    }
}

fn write(from: &Receiver<Line>, mut sink: impl Write, lost: &AtomicU64) {
    for line in from {
        match line {
            Line::Text(text) => {
                let missing = lost.swap(0, Ordering::Relaxed);
                if missing > 0 {
                    // Whether that can be written shows with the line itself.
                    let _ = writeln!(
                        sink,
                        "{missing} lines were not written: standard error took none"
                    );
                }
                if sink.write_all(&text).and_then(|()| sink.flush()).is_err() {
                    lost.fetch_add(missing + 1, Ordering::Relaxed);
                }
            }
            Line::Done(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

// Each event is written at once, as a whole.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.to.try_send(Line::Text(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    // Fails so often, and keeps what it takes then.
    struct Failing {
        fails: usize,
        taken: Arc<Mutex<String>>,
    }

    impl Write for Failing {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.fails > 0 {
                self.fails -= 1;
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let mut taken = self.taken.lock().unwrap();
            taken.push_str(std::str::from_utf8(line).unwrap());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_could_not_be_written_are_told_of() {
        let taken = Arc::new(Mutex::new(String::new()));
        let sink = Failing {
            fails: 1,
            taken: taken.clone(),
        };
        let mut log = Lines::to(sink);
        log.write_all(b"one\n").unwrap();
        log.finish();
        log.write_all(b"two\n").unwrap();
        log.finish();
        let expected = "1 lines were not written: standard error took none\ntwo\n";
        assert_eq!(*taken.lock().unwrap(), expected);
    }

    #[test]
    fn nobody_waits_for_a_reader_that_takes_nothing() {
        struct Never;
        impl Write for Never {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                loop {
                    std::thread::park();
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut log = Lines::to(Never);
        for _ in 0..ROOM + 10 {
            log.write_all(b"line\n").unwrap();
        }
        // One is being written, or not taken yet, and so many wait.
        assert!((9..=10).contains(&log.lost.load(Ordering::Relaxed)));
        log.finish();
    }
}
