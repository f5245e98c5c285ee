//! What a connection of an engine runs on.
//!
//! In: an accepted connection. Out: its bytes, whatever it is made of. Never frames or waits for anything.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Socket>>),
}

impl Socket {
    /// Makes the end of the connection an RST instead of a FIN. Only TCP knows the difference.
    pub(crate) fn reset_when_closed(&self) {
        match self {
            // Fails only on a socket that is closed already.
            Socket::Tcp(stream) => drop(stream.set_zero_linger()),
            Socket::Unix(_) => {}
            Socket::Tls(stream) => stream.get_ref().0.reset_when_closed(),
        }
    }

    fn pinned(self: Pin<&mut Self>) -> Pin<&mut dyn Both> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream),
            Socket::Unix(stream) => Pin::new(stream),
            Socket::Tls(stream) => Pin::new(stream),
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Socket {
        // Without it small writes would wait for one another. A socket that refuses it is already closed, which the
        // first read reports.
        let _ = stream.set_nodelay(true);
        Socket::Tcp(stream)
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pinned().poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pinned().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_shutdown(cx)
    }
}
