//! One accepted connection: what is read, waited for and written on it.
//!
//! In: a socket. Out: bytes as they come, writes as they are given, and the news that the client has gone.
//! Never waits for anything without watching the client: its close or reset ends every wait at once. A close of its
//! writing half counts as gone, as in uvicorn.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

/// The client has closed or reset the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

pub(crate) struct Wire {
    stream: TcpStream,
    /// Read and not used yet: the rest of a body, or requests sent ahead.
    pub(crate) inbox: Vec<u8>,
}

/// What a client may send ahead while it waits for its answer; past that its bytes stay in the kernel.
const MOST_AHEAD: usize = 1 << 20;

/// Room for one read.
const READ: usize = 16 << 10;

/// How long a closing connection reads on, so that unread bytes do not turn its FIN into an RST.
const LINGER: Duration = Duration::from_secs(1);

/// How long the kernel gets to send what was written before a reset throws its queue away.
const BEFORE_RESET: Duration = Duration::from_millis(5);

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        // Without it small writes would wait for one another. A socket that refuses it is already closed, which the
        // first read reports.
        let _ = stream.set_nodelay(true);
        Wire {
            stream,
            inbox: Vec::new(),
        }
    }

    /// Waits for at least one more byte in the inbox.
    pub(crate) async fn fill(&mut self) -> Result<(), Gone> {
        loop {
            self.stream.readable().await.map_err(|_| Gone)?;
            self.inbox.reserve(READ);
            match self.stream.try_read_buf(&mut self.inbox) {
                Ok(0) => return Err(Gone),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    /// Waits until the client has gone.
    pub(crate) async fn gone(&mut self) -> Gone {
        gone(&self.stream, &mut self.inbox).await
    }

    /// Waits until `due`.
    pub(crate) async fn until(&mut self, due: Instant) -> Result<(), Gone> {
        // The timer rounds up to whole milliseconds, even for what is due already.
        let due_already = due <= Instant::now();
        tokio::select! {
            biased;
            gone = self.gone() => Err(gone),
            () = yield_now(), if due_already => Ok(()),
            () = sleep_until(due), if !due_already => Ok(()),
        }
    }

    /// Writes all of `bytes`, then lets other tasks run, so that the next write is a segment of its own where the
    /// kernel allows it.
    pub(crate) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::select! {
                        biased;
                        gone = gone(&self.stream, &mut self.inbox) => return Err(gone),
                        ready = self.stream.writable() => ready.map_err(|_| Gone)?,
                    }
                }
                Err(_) => return Err(Gone),
            }
        }
        yield_now().await;
        Ok(())
    }

    /// Ends the connection by FIN. Reads on until the client has closed too, or a second has passed.
    pub(crate) async fn close(mut self) {
        if self.stream.shutdown().await.is_ok() {
            let _ = timeout(LINGER, async {
                while self.fill().await.is_ok() {
                    self.inbox.clear();
                }
            })
            .await;
        }
    }

    /// Ends the connection by RST, after what was written has had a moment to leave.
    pub(crate) async fn reset(mut self) {
        if self.until(Instant::now() + BEFORE_RESET).await.is_ok() {
            // Fails only on a socket that is closed already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// Apart from [`Wire::gone`], so that a write can watch the client too.
async fn gone(stream: &TcpStream, inbox: &mut Vec<u8>) -> Gone {
    loop {
        if inbox.len() >= MOST_AHEAD {
            return std::future::pending().await;
        }
        if stream.readable().await.is_err() {
            return Gone;
        }
        inbox.reserve(READ);
        match stream.try_read_buf(inbox) {
            Ok(0) => return Gone,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Gone,
        }
    }
}
