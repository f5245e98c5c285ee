//! A connection that may not be silent for long.
//!
//! In: an accepted connection, and a seat. Out: its bytes both ways, or an error once nothing has moved for too long and no
//! answer is made. Hands are shaken by whoever reads first. The seat goes with it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

use super::stream::Stream;
use crate::socket::Socket;

/// A connection with a seat, which it gives back when it is dropped.
#[derive(Debug)]
pub struct Seated {
    stream: Stream,
    silence: Pin<Box<Sleep>>,
    patience: Duration,
    // answers that are made
    busy: Arc<AtomicUsize>,
    _seat: OwnedSemaphorePermit,
}

impl Seated {
    pub(super) fn new(stream: Stream, patience: Duration, seat: OwnedSemaphorePermit) -> Seated {
        Seated {
            stream,
            silence: Box::pin(sleep(patience)),
            patience,
            busy: Arc::default(),
            _seat: seat,
        }
    }

    pub(super) fn busy(&self) -> Arc<AtomicUsize> {
        self.busy.clone()
    }

    // What has moved begins the silence anew; what has not must not wait longer than it lasts, unless an answer is made.
    fn heard<T>(
        &mut self,
        moved: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.silence.set(sleep(self.patience));
            return moved;
        }
        while self.silence.as_mut().poll(context).is_ready() {
            if self.busy.load(Ordering::Relaxed) == 0 {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.silence.set(sleep(self.patience));
        }
        Poll::Pending
    }

    // The same call on the connection, once it is open.
    fn on_open<T>(
        &mut self,
        context: &mut Context<'_>,
        call: impl FnOnce(Pin<&mut Socket>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.stream.poll_open(context) {
            Poll::Ready(Ok(socket)) => call(socket, context),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.on_open(context, |socket, context| socket.poll_read(context, into));
        self.heard(read, context)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.on_open(context, |socket, context| socket.poll_write(context, bytes));
        self.heard(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.on_open(context, |socket, context| {
            socket.poll_write_vectored(context, pieces)
        });
        self.heard(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(&self.stream, Stream::Open(socket) if socket.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Open(socket) => Pin::new(socket).poll_flush(context),
            Stream::Shaking(_) | Stream::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Open(socket) => Pin::new(socket).poll_shutdown(context),
            Stream::Shaking(_) | Stream::Failed => Poll::Ready(Ok(())),
        }
    }
}
