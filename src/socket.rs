//! A connection, whatever carries it: TCP, a unix socket, or TLS over TCP.
//!
//! In: a connected socket. Out: bytes both ways, and two halves for those who read and write apart. Nothing is buffered
//! here.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio_rustls::TlsStream;

/// A connection.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// What reads a connection.
#[derive(Debug)]
pub enum ReadHalf {
    /// Of TCP.
    Tcp(tcp::OwnedReadHalf),
    /// Of a unix socket.
    Unix(unix::OwnedReadHalf),
    /// Of TLS.
    Tls(tokio::io::ReadHalf<Box<TlsStream<TcpStream>>>),
}

/// What writes a connection.
#[derive(Debug)]
pub enum WriteHalf {
    /// Of TCP.
    Tcp(tcp::OwnedWriteHalf),
    /// Of a unix socket.
    Unix(unix::OwnedWriteHalf),
    /// Of TLS.
    Tls(tokio::io::WriteHalf<Box<TlsStream<TcpStream>>>),
}

/// Sets what every TCP connection of Greylag has: no delay, and keep-alive probes that find a peer's host that vanished
/// without a FIN within about a minute.
///
/// # Errors
/// The system's.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

impl Socket {
    /// The peer's address; a unix socket's has none.
    pub fn peer(&self) -> Option<IpAddr> {
        let stream = match self {
            Socket::Tcp(stream) => stream,
            Socket::Tls(stream) => stream.get_ref().0,
            Socket::Unix(_) => return None,
        };
        Some(stream.peer_addr().ok()?.ip().to_canonical())
    }

    /// Whether it is still open and silent. With TLS what was read from the system and not given out counts too.
    pub fn is_quiet(&mut self) -> bool {
        let mut probe = [MaybeUninit::uninit(); 1];
        let peeked = match &*self {
            Socket::Tcp(stream) => SockRef::from(stream).peek(&mut probe),
            Socket::Tls(stream) => SockRef::from(stream.get_ref().0).peek(&mut probe),
            Socket::Unix(stream) => SockRef::from(stream).peek(&mut probe),
        };
        let is_silent = peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        let Socket::Tls(stream) = self else {
            return is_silent;
        };
        let mut held = [0; 1];
        let mut cx = Context::from_waker(Waker::noop());
        let read = Pin::new(stream).poll_read(&mut cx, &mut ReadBuf::new(&mut held));
        is_silent && read.is_pending()
    }

    /// Both halves; the connection ends with the last of them.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Socket::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            Socket::Unix(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Unix(read), WriteHalf::Unix(write))
            }
            Socket::Tls(stream) => {
                let (read, write) = tokio::io::split(stream);
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
        }
    }
}

impl WriteHalf {
    /// Ready when there may be something to read, or the end: as far as the system has said, and with TLS always, since
    /// bytes may have been read from the system already.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            WriteHalf::Tcp(half) => half.as_ref().poll_read_ready(cx).map(drop),
            WriteHalf::Unix(half) => half.as_ref().poll_read_ready(cx).map(drop),
            WriteHalf::Tls(_) => Poll::Ready(()),
        }
    }
}

// The same call on whatever carries the bytes.
macro_rules! each {
    ($kind:ident, $this:expr, $stream:ident => $call:expr) => {
        match $this.get_mut() {
            $kind::Tcp($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            $kind::Unix($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            $kind::Tls($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
        }
    };
}

macro_rules! reads {
    ($kind:ident) => {
        impl AsyncRead for $kind {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                each!($kind, self, stream => stream.poll_read(cx, buf))
            }
        }
    };
}

macro_rules! writes {
    ($kind:ident) => {
        impl AsyncWrite for $kind {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                each!($kind, self, stream => stream.poll_write(cx, bytes))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!($kind, self, stream => stream.poll_flush(cx))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!($kind, self, stream => stream.poll_shutdown(cx))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                each!($kind, self, stream => stream.poll_write_vectored(cx, parts))
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $kind::Tcp(stream) => stream.is_write_vectored(),
                    $kind::Unix(stream) => stream.is_write_vectored(),
                    $kind::Tls(stream) => stream.is_write_vectored(),
                }
            }
        }
    };
}

reads!(Socket);
reads!(ReadHalf);
writes!(Socket);
writes!(WriteHalf);
