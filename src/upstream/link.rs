//! A connection to an engine, between requests and under one.
//!
//! In: bytes to send. Out: bytes that came. Whoever reads it sends first what is held, so that a request's head and body
//! leave together. An engine that answers before it has taken the whole request is heard too: the blocked write then
//! fails, and the answer is there to be read; interim answers (1xx) are let by.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use greylag_filters::rules::engine::Pool;
use tokio::io::{AsyncRead, ReadBuf};

use super::target::Key;
use crate::socket::Socket;
use crate::wire::{FULL, Outbox};

/// Bytes that are read at once. They lie on the stack until it is known where they belong.
const READ: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
pub struct Link {
    stream: Socket,
    /// Where it leads.
    pub key: Key,
    /// What may be kept of connections that lead there, as the rules of its last request say.
    pub limits: Pool,
    /// What goes out before the next read.
    pub outbox: Outbox,
    /// What came and has not been looked at: the beginning of an answer, as a rule nothing.
    pub inbox: Vec<u8>,
    /// Bytes that have come, ever.
    pub received: u64,
}

impl Link {
    /// On a new connection.
    pub fn on(stream: Socket, key: Key, limits: Pool) -> Link {
        Link {
            stream,
            key,
            limits,
            outbox: Outbox::default(),
            inbox: Vec::new(),
            received: 0,
        }
    }

    /// The connection alone, and what came and has not been looked at.
    pub fn into_parts(self) -> (Socket, Vec<u8>) {
        (self.stream, self.inbox)
    }

    /// Whether it is still open and silent, as it should be between two requests.
    pub fn is_quiet(&mut self) -> bool {
        self.stream.is_quiet()
    }

    /// Sends what is held and then `piece`; where there is little, it waits for more.
    ///
    /// # Errors
    /// The connection broke, or (`BrokenPipe`) the engine has begun to answer without waiting for the rest.
    pub async fn send(&mut self, mut piece: &[u8]) -> io::Result<()> {
        if self.outbox.left() + piece.len() < FULL {
            self.outbox.end().extend_from_slice(piece);
            return Ok(());
        }
        poll_fn(|cx| {
            let stream = Pin::new(&mut self.stream);
            match self.outbox.poll_send(cx, stream, &mut piece) {
                Poll::Pending if self.poll_heard(cx).is_ready() => {
                    self.outbox.clear();
                    Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
                }
                sent => sent,
            }
        })
        .await
    }

    // Whether the engine has sent its answer, or its end, while it does not take what is written. An interim answer is
    // kept for later: the engine goes on taking the request.
    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        const MOST: usize = 16 << 10;
        while !is_answer(&self.inbox) && self.inbox.len() < MOST {
            if !matches!(ready!(self.poll_more(cx)), Ok(1..)) {
                break;
            }
        }
        Poll::Ready(())
    }

    /// Sends what is held, and adds what comes to the inbox. Ready with the number of bytes, 0 at the end.
    pub fn poll_inbox(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.send_held(cx);
        self.poll_more(cx)
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut inbox = std::mem::take(&mut self.inbox);
        let read = self.poll_read(cx, |bytes| inbox.extend_from_slice(bytes));
        self.inbox = inbox;
        read
    }

    /// Shows the bytes that come next to `see`. Ready with their number, 0 at the end.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        see: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let mut space = [const { MaybeUninit::uninit() }; READ];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let bytes = buffer.filled();
        self.received += bytes.len() as u64;
        see(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    // A peer that does not take our bytes may still send its own, or have sent them before it closed: reading goes on
    // while they are written and when that fails, and tells what there is to tell.
    fn send_held(&mut self, cx: &mut Context<'_>) {
        if !self.outbox.is_empty() {
            let stream = Pin::new(&mut self.stream);
            if let Poll::Ready(Err(_)) = self.outbox.poll_send(cx, stream, &mut &[][..]) {
                self.outbox.clear();
            }
        }
    }
}

// Whether what has been sent goes past interim heads, as far as can be told.
fn is_answer(heard: &[u8]) -> bool {
    // Any minor version, which stands for the question mark.
    const INTERIM: &[u8] = b"HTTP/1.? 1";
    const END: &[u8] = b"\r\n\r\n";
    let mut rest = heard;
    while !rest.is_empty() {
        let is_interim = rest
            .iter()
            .zip(INTERIM)
            .all(|(found, expected)| found == expected || *expected == b'?');
        if !is_interim {
            return true;
        }
        let Some(end) = rest.windows(END.len()).position(|four| four == END) else {
            return false;
        };
        rest = &rest[end + END.len()..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let limits = Pool {
            requests: None,
            idle: 1,
            idle_seconds: 1,
            streams: 1,
        };
        let link = Link::on(Socket::Tcp(near.unwrap()), (0, address), limits);
        (link, far.unwrap().0)
    }

    async fn readable(link: &Link) {
        if let Socket::Tcp(stream) = &link.stream {
            stream.readable().await.unwrap();
        }
    }

    // More than two sockets' buffers hold.
    fn much() -> Vec<u8> {
        vec![b'x'; 64 << 20]
    }

    #[tokio::test]
    async fn what_is_held_leaves_when_it_is_read() {
        let (mut link, mut far) = pair().await;
        link.send(b"head").await.unwrap();
        link.send(b"body").await.unwrap();
        assert_eq!(link.outbox.left(), 8);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(link.poll_inbox(&mut cx).is_pending());
        let mut got = [0; 8];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"headbody");
    }

    #[tokio::test]
    async fn an_early_answer_ends_a_blocked_write_and_can_be_read() {
        let (mut link, mut far) = pair().await;
        far.write_all(b"413").await.unwrap();
        let blocked = link.send(&much()).await;
        assert_eq!(blocked.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(link.inbox, b"413");
    }

    #[tokio::test]
    async fn an_interim_answer_does_not_end_a_blocked_write() {
        const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
        let (mut link, mut far) = pair().await;
        far.write_all(INTERIM).await.unwrap();
        let body = much();
        let mut taken = vec![0; body.len()];
        let (read, sent) = tokio::join!(far.read_exact(&mut taken), link.send(&body));
        sent.unwrap();
        assert_eq!(read.unwrap(), body.len());
    }

    #[tokio::test]
    async fn a_connection_is_quiet_until_something_comes() {
        let (mut link, mut far) = pair().await;
        assert!(link.is_quiet());
        far.write_all(b"x").await.unwrap();
        readable(&link).await;
        assert!(!link.is_quiet());
        let (mut link, far) = pair().await;
        drop(far);
        readable(&link).await;
        assert!(!link.is_quiet());
    }

    #[test]
    fn an_interim_answer_is_told_from_the_last() {
        let check = |heard: &str, expected: bool| {
            assert_eq!(is_answer(heard.as_bytes()), expected, "{heard:?}");
        };
        check("", false);
        check("HTTP/1.1 ", false);
        check("HTTP/1.1 1", false);
        check("HTTP/1.0 103 Early Hints\r\nlink: a", false);
        check("HTTP/1.1 100 Continue\r\n\r\n", false);
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103", false);
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2", true);
        check("HTTP/1.1 413", true);
        check("413", true);
        check("HTTP/2", true);
    }
}
