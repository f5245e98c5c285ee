//! A connection whose written bytes leave before anything is waited for.
//!
//! In: any of Pingora's streams. Out: the same stream, with a write buffer that joins small writes (a head and the
//! first piece of a body) into one system call and is emptied whenever the connection is read. Since every wait of the
//! relay reads the client and the engine, no byte can stay behind in the buffer while Greylag waits for a later one.
//! An engine that answers before it has taken the whole request is heard too: the blocked write then fails, and the
//! answer is there to be read; interim answers (1xx) are let by. A peer that is only watched, to see it leave, may send ahead in the meantime: its bytes
//! are kept for later, within bounds. Nothing is dropped here.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter, ReadBuf};

/// A stream with a write buffer, see the module's note.
#[derive(Debug)]
pub struct Wire {
    stream: BufWriter<Stream>,
    flush: Flush,
    // true from a write until a flush has emptied the buffer
    dirty: bool,
    // what was read while a write was blocked or the peer was watched, and how much of it has been given out:
    // 0 <= given <= ahead.len()
    ahead: Vec<u8>,
    given: usize,
    // bytes that the peer has sent, as far as they were read
    received: u64,
    lookout: Lookout,
}

/// While it is on, reading a [`Wire`] tells of nothing but the peer's end.
#[derive(Debug, Clone, Default)]
pub struct Lookout(Arc<AtomicBool>);

impl Lookout {
    /// Turns it on or off.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// So many bytes that a watched peer sends ahead are taken in; with more it is watched no longer, and its leaving shows
/// in a write that fails.
const MOST_AHEAD: usize = 16 << 10;

/// When a flush that the HTTP session asks for is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// At once, so that a client's write deadline covers it.
    AtOnce,
    /// At the next read, so that a request's head and body leave together.
    BeforeReading,
}

impl Wire {
    /// Wraps `stream`. The buffer takes writes below 2 KiB; longer ones pass straight through, in order.
    pub fn new(stream: Stream, flush: Flush) -> Self {
        const BUFFER: usize = 2048;
        Wire {
            stream: BufWriter::with_capacity(BUFFER, stream),
            flush,
            dirty: false,
            ahead: Vec::new(),
            given: 0,
            received: 0,
            lookout: Lookout::default(),
        }
    }

    /// What turns reading into watching.
    pub fn lookout(&self) -> Lookout {
        self.lookout.clone()
    }

    /// Bytes that the peer has sent until now, as far as they were read.
    pub fn received(&self) -> u64 {
        self.received
    }

    // The one place that reads the stream.
    fn poll_stream(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(self.stream.get_mut()).poll_read(cx, buf);
        self.received += (buf.filled().len() - before) as u64;
        read
    }

    // Ends with the peer's end; keeps what comes before it.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ahead.len() - self.given >= MOST_AHEAD {
            return Poll::Pending;
        }
        // Nearly always nothing has come, so the wait for it must cost little.
        let mut probe = [0; 1];
        let mut buffer = ReadBuf::new(&mut probe);
        ready!(self.poll_stream(cx, &mut buffer))?;
        self.ahead.drain(..std::mem::take(&mut self.given));
        let mut piece = [0; 1024];
        while !buffer.filled().is_empty() {
            self.ahead.extend_from_slice(buffer.filled());
            if self.ahead.len() >= MOST_AHEAD {
                return Poll::Pending;
            }
            buffer = ReadBuf::new(&mut piece);
            ready!(self.poll_stream(cx, &mut buffer))?;
        }
        Poll::Ready(Ok(()))
    }

    // Whether the peer has sent its answer, or its end, while it does not take what is written. An interim answer (1xx)
    // is kept for later: the peer goes on taking the request.
    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let heard = self.ahead.get(self.given..).unwrap_or_default();
            if is_answer(heard) || heard.len() >= MOST_AHEAD {
                return Poll::Ready(());
            }
            let mut piece = [0; 4096];
            let mut buffer = ReadBuf::new(&mut piece);
            let read = ready!(self.poll_stream(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
            self.ahead.drain(..std::mem::take(&mut self.given));
            self.ahead.extend_from_slice(buffer.filled());
        }
    }

    // What became of a write, or its failure when it is blocked by an engine that has something to say instead.
    fn unless_heard(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_pending()
            && self.flush == Flush::BeforeReading
            && self.poll_heard(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        written
    }

    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.dirty = false;
        }
        flushed
    }

    fn inner(&self) -> &Stream {
        self.stream.get_ref()
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

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A peer that does not take our bytes may still send its own, or have sent them before it closed: reading
        // goes on while the flush is pending and when it fails, and tells what there is to tell.
        if self.dirty {
            let _ = self.poll_empty(cx);
        }
        if self.lookout.is_on() {
            return self.poll_end(cx);
        }
        if let Some(ahead) = self
            .ahead
            .get(self.given..)
            .filter(|ahead| !ahead.is_empty())
        {
            let taken = ahead.len().min(buf.remaining());
            buf.put_slice(&ahead[..taken]);
            self.given += taken;
            return Poll::Ready(Ok(()));
        }
        self.poll_stream(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.dirty = true;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.unless_heard(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.flush {
            Flush::AtOnce if self.dirty => self.poll_empty(cx),
            Flush::AtOnce | Flush::BeforeReading => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.dirty = true;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.unless_heard(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for Wire {
    async fn shutdown(&mut self) {
        // A peer that has gone makes this fail, and there is nobody left to tell.
        let _ = AsyncWriteExt::shutdown(&mut self.stream).await;
    }
}

impl UniqueID for Wire {
    fn id(&self) -> UniqueIDType {
        self.inner().id()
    }
}

impl Ssl for Wire {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner().get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner().selected_alpn_proto()
    }
}

impl GetTimingDigest for Wire {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner().get_timing_digest()
    }
}

impl GetProxyDigest for Wire {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner().get_proxy_digest()
    }
}

impl GetSocketDigest for Wire {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner().get_socket_digest()
    }
}

impl Peek for Wire {}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn pair(flush: Flush) -> (Wire, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(1 << 20);
        let stream: Stream = Box::new(near);
        (Wire::new(stream, flush), far)
    }

    fn taken(far: &mut tokio::io::DuplexStream) -> Vec<u8> {
        let mut got = vec![0; 1 << 16];
        let mut buffer = ReadBuf::new(&mut got);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let _ = Pin::new(far).poll_read(&mut cx, &mut buffer);
        buffer.filled().to_vec()
    }

    #[tokio::test]
    async fn a_lazy_flush_waits_for_the_read_and_no_longer() {
        let (mut wire, mut far) = pair(Flush::BeforeReading);
        wire.write_all(b"head").await.unwrap();
        wire.flush().await.unwrap();
        wire.write_all(b"body").await.unwrap();
        assert_eq!(taken(&mut far), b"");

        let mut probe = [0; 1];
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(
            Pin::new(&mut wire)
                .poll_read(&mut cx, &mut ReadBuf::new(&mut probe))
                .is_pending()
        );
        assert_eq!(taken(&mut far), b"headbody");
    }

    #[tokio::test]
    async fn a_flush_at_once_leaves_at_once() {
        let (mut wire, mut far) = pair(Flush::AtOnce);
        wire.write_all(b"token").await.unwrap();
        wire.flush().await.unwrap();
        assert_eq!(taken(&mut far), b"token");
    }

    #[tokio::test]
    async fn an_early_answer_ends_a_blocked_write_and_can_be_read() {
        let (near, mut far) = tokio::io::duplex(64);
        let stream: Stream = Box::new(near);
        let mut wire = Wire::new(stream, Flush::BeforeReading);
        far.write_all(b"413").await.unwrap();
        let blocked = wire.write_all(&[0; 10_000]).await;
        assert_eq!(blocked.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut answer = [0; 3];
        wire.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"413");
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

    #[tokio::test]
    async fn an_interim_answer_does_not_end_a_blocked_write() {
        const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
        let (near, mut far) = tokio::io::duplex(64);
        let mut wire = Wire::new(Box::new(near), Flush::BeforeReading);
        far.write_all(INTERIM).await.unwrap();
        let writing = async {
            wire.write_all(&[0; 10_000]).await.unwrap();
            let mut interim = vec![0; INTERIM.len()];
            wire.read_exact(&mut interim).await.unwrap();
            assert_eq!(interim, INTERIM);
            Shutdown::shutdown(&mut wire).await;
        };
        let mut taken = vec![0; 10_000];
        let (read, ()) = tokio::join!(far.read_exact(&mut taken), writing);
        assert_eq!(read.unwrap(), 10_000);
    }

    #[tokio::test]
    async fn an_early_answer_ends_a_blocked_write_of_several_pieces_too() {
        let (near, mut far) = tokio::io::duplex(64);
        let stream: Stream = Box::new(near);
        let mut wire = Wire::new(stream, Flush::BeforeReading);
        far.write_all(b"413").await.unwrap();
        let piece = [0; 5_000];
        let blocked = std::future::poll_fn(|cx| {
            loop {
                let pieces = [io::IoSlice::new(&piece), io::IoSlice::new(&piece)];
                match Pin::new(&mut wire).poll_write_vectored(cx, &pieces) {
                    Poll::Ready(Ok(_)) => {}
                    other => return other,
                }
            }
        });
        let kind = blocked.await.unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::BrokenPipe);
        let mut answer = [0; 3];
        wire.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"413");
    }

    #[tokio::test]
    async fn a_watched_peer_may_send_ahead_and_then_leave() {
        let (mut wire, mut far) = pair(Flush::AtOnce);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut probe = [0; 8];
        let mut poll = |wire: &mut Wire| {
            let mut buffer = ReadBuf::new(&mut probe);
            let read = Pin::new(wire).poll_read(&mut cx, &mut buffer);
            read.map(|_| buffer.filled().to_vec())
        };
        wire.lookout().set(true);
        far.write_all(b"GET ").await.unwrap();
        assert_eq!(poll(&mut wire), Poll::Pending);
        far.write_all(b"/ahead").await.unwrap();
        assert_eq!(poll(&mut wire), Poll::Pending);
        wire.lookout().set(false);
        assert_eq!(poll(&mut wire), Poll::Ready(b"GET /ahe".to_vec()));
        wire.lookout().set(true);
        assert_eq!(poll(&mut wire), Poll::Pending);
        drop(far);
        assert_eq!(poll(&mut wire), Poll::Ready(Vec::new()));
        wire.lookout().set(false);
        assert_eq!(poll(&mut wire), Poll::Ready(b"ad".to_vec()));
    }

    #[tokio::test]
    async fn what_a_watched_peer_sends_is_bounded() {
        let (mut wire, mut far) = pair(Flush::AtOnce);
        wire.lookout().set(true);
        far.write_all(&[7; 100_000]).await.unwrap();
        let mut probe = [0; 1];
        for _ in 0..3 {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut buffer = ReadBuf::new(&mut probe);
            assert!(
                Pin::new(&mut wire)
                    .poll_read(&mut cx, &mut buffer)
                    .is_pending()
            );
            assert!(wire.ahead.len() < MOST_AHEAD + 1024);
        }
        wire.lookout().set(false);
        let mut all = vec![0; 100_000];
        wire.read_exact(&mut all).await.unwrap();
        assert!(all.iter().all(|byte| *byte == 7));
    }

    #[tokio::test]
    async fn a_closed_wire_sends_what_it_holds_first() {
        let (mut wire, mut far) = pair(Flush::BeforeReading);
        wire.write_all(b"last").await.unwrap();
        Shutdown::shutdown(&mut wire).await;
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"last");
    }
}
