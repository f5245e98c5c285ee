//! The writing half of a client's HTTP/1 connection.
//!
//! In: what an [`Outbox`] holds. Out: its bytes to the client, or that the client is lost: it is gone, or takes nothing for
//! too long.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Sleep, sleep, timeout};

use super::Gone;
use crate::socket::WriteHalf;
use crate::wire::Outbox;

/// The writing half of a connection.
pub(super) struct Out {
    /// The socket's.
    pub half: WriteHalf,
    /// What leaves before the next wait.
    pub outbox: Outbox,
    limit: Duration,
    // runs while the client takes nothing
    stall: Option<Pin<Box<Sleep>>>,
}

impl Out {
    /// Of this socket, whose client may take nothing for `limit`.
    pub fn new(half: WriteHalf, limit: Duration) -> Self {
        Out {
            half,
            outbox: Outbox::default(),
            limit,
            stall: None,
        }
    }

    /// Ready when all has been sent, what is held and then `rest`, or when the client is lost. The deadline is for a client
    /// that takes nothing, not for one that takes much slowly.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, rest: &mut &[u8]) -> Poll<Result<(), Gone>> {
        loop {
            let left = self.outbox.left() + rest.len();
            if left == 0 && self.outbox.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let sent = self.outbox.poll_send(cx, Pin::new(&mut self.half), rest);
            if self.outbox.left() + rest.len() < left {
                self.stall = None;
            }
            match sent {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.outbox.clear();
                    return Poll::Ready(Err(Gone::Left));
                }
                Poll::Pending => {
                    let limit = self.limit;
                    let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(limit)));
                    ready!(stall.as_mut().poll(cx));
                    self.outbox.clear();
                    return Poll::Ready(Err(Gone::Stalled));
                }
            }
        }
    }

    /// Sends what is held and then `rest`.
    ///
    /// # Errors
    /// The client is lost.
    pub async fn send(&mut self, mut rest: &[u8]) -> Result<(), Gone> {
        poll_fn(|cx| self.poll_send(cx, &mut rest)).await
    }

    /// Sends the end. TLS says goodbye first, and who takes nothing is waited for no longer than otherwise.
    pub async fn end(&mut self) {
        let _ = timeout(self.limit, self.half.shutdown()).await;
    }

    /// Whether there is something to read, or its end, as far as the system has said.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.half.poll_readable(cx)
    }
}
