//! One accepted connection: what is read, waited for and written on it.
//!
//! In: a socket. Out: bytes as they come, writes as they are given, and the news that the client has gone.
//! Never waits for anything without watching the client: its close or reset ends every wait at once. A close of its
//! writing half counts as gone, as in uvicorn.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

use crate::socket::Socket;

/// The client has closed or reset the connection, or its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

pub(crate) struct Wire {
    socket: Socket,
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
    pub(crate) fn new(socket: Socket) -> Wire {
        Wire {
            socket,
            inbox: Vec::new(),
        }
    }

    /// Waits for at least one more byte in the inbox.
    pub(crate) async fn fill(&mut self) -> Result<(), Gone> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.inbox.reserve(READ);
        let read = ready!(pin!(self.socket.read_buf(&mut self.inbox)).poll(cx));
        Poll::Ready(match read {
            Ok(0) | Err(_) => Err(Gone),
            Ok(_) => Ok(()),
        })
    }

    /// Waits until the client has gone.
    pub(crate) async fn gone(&mut self) -> Gone {
        poll_fn(|cx| self.poll_gone(cx)).await
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        while self.inbox.len() < MOST_AHEAD {
            if let Err(gone) = ready!(self.poll_fill(cx)) {
                return Poll::Ready(gone);
            }
        }
        Poll::Pending
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
        poll_fn(|cx| match self.poll_write(&mut bytes, cx) {
            Poll::Pending => self.poll_gone(cx).map(Err),
            Poll::Ready(written) => Poll::Ready(written),
        })
        .await?;
        yield_now().await;
        Ok(())
    }

    fn poll_write(&mut self, bytes: &mut &[u8], cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut socket = Pin::new(&mut self.socket);
        while !bytes.is_empty() {
            let written = ready!(socket.as_mut().poll_write(cx, bytes)).map_err(|_| Gone)?;
            *bytes = bytes.get(written..).unwrap_or_default();
        }
        socket.poll_flush(cx).map_err(|_| Gone)
    }

    /// Ends the connection by FIN. Reads on until the client has closed too, or a second has passed.
    pub(crate) async fn close(mut self) {
        if self.socket.shutdown().await.is_ok() {
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
            self.socket.reset_when_closed();
        }
    }
}
