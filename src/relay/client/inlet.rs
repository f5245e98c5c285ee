//! The reading half of a client's connection, as Pingora's HTTP/1 session reads it.
//!
//! In: a socket's reading half. Out: its bytes, or, while it is on the lookout, only the news of the client's end: what
//! comes before that is kept for later, within bounds. The session writes nothing: answers leave by
//! [`Client`](super::Client)'s own outbox.

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
    TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::socket::ReadHalf;

/// So many bytes that a watched client sends ahead are taken in; with more it is watched no longer, and its leaving shows
/// in a write that fails.
const MOST_AHEAD: usize = 16 << 10;

/// A reading half, see the module's note.
#[derive(Debug)]
pub struct Inlet {
    // none in a session whose connection has become a tunnel
    half: Option<ReadHalf>,
    // what was read while the client was watched, and how much of it has been given out: 0 <= given <= ahead.len()
    ahead: Vec<u8>,
    given: usize,
    lookout: Lookout,
}

/// While it is on, reading an [`Inlet`] tells of nothing but the client's end.
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

impl Inlet {
    /// Wraps a reading half of which `ahead` has been read, and what turns reading it into watching.
    pub fn new(half: ReadHalf, ahead: Vec<u8>) -> (Self, Lookout) {
        let lookout = Lookout::default();
        let inlet = Inlet {
            half: Some(half),
            ahead,
            given: 0,
            lookout: lookout.clone(),
        };
        (inlet, lookout)
    }

    /// What has ended already.
    pub fn ended() -> Self {
        Inlet {
            half: None,
            ahead: Vec::new(),
            given: 0,
            lookout: Lookout::default(),
        }
    }

    fn poll_half(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.half {
            Some(half) => Pin::new(half).poll_read(cx, buf),
            None => Poll::Ready(Ok(())),
        }
    }

    // Ends with the client's end; keeps what comes before it.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut piece = [0; 1024];
        loop {
            if self.ahead.len() - self.given >= MOST_AHEAD {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut piece);
            ready!(self.poll_half(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.ahead.drain(..std::mem::take(&mut self.given));
            self.ahead.extend_from_slice(buffer.filled());
        }
    }
}

impl AsyncRead for Inlet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.lookout.is_on() {
            return self.poll_end(cx);
        }
        let ahead = self.ahead.get(self.given..).unwrap_or_default();
        if ahead.is_empty() {
            return self.poll_half(cx, buf);
        }
        let taken = ahead.len().min(buf.remaining());
        buf.put_slice(&ahead[..taken]);
        self.given += taken;
        Poll::Ready(Ok(()))
    }
}

// Nothing is written by way of the session.
impl AsyncWrite for Inlet {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[async_trait]
impl Shutdown for Inlet {
    async fn shutdown(&mut self) {}
}

impl UniqueID for Inlet {
    fn id(&self) -> UniqueIDType {
        0
    }
}

impl Ssl for Inlet {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        None
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        None
    }
}

impl GetTimingDigest for Inlet {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Inlet {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Inlet {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

impl Peek for Inlet {}
