//! What a connection begins with.
//!
//! In: a connection of which nothing has been read. Out: whether HTTP/2 is spoken on it (RFC 9113 §3.4), and a stream that
//! gives back what was read to find out. It is told at the first byte that differs, so that the shortest request of
//! HTTP/1 waits for nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until it can be told; what was read, at least a byte. Not cancel-safe.
///
/// # Errors
/// The connection ended or broke before.
pub async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Vec<u8>> {
    let mut begun = Vec::with_capacity(PREFACE.len());
    while PREFACE.starts_with(&begun) && !is_whole(&begun) {
        let left = (PREFACE.len() - begun.len()) as u64;
        if stream.take(left).read_buf(&mut begun).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(begun)
}

/// Whether HTTP/2's preface was read.
pub fn is_whole(begun: &[u8]) -> bool {
    begun == PREFACE
}

/// A stream of which the beginning has been read, and is given back first.
#[derive(Debug)]
pub struct Rewound<S> {
    begun: io::Cursor<Vec<u8>>,
    stream: S,
}

impl<S> Rewound<S> {
    /// `stream` after `begun`.
    pub fn new(begun: Vec<u8>, stream: S) -> Self {
        Rewound {
            begun: io::Cursor::new(begun),
            stream,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.begun).poll_read(cx, buf) {
            Poll::Ready(Ok(())) if buf.filled().len() == before => {
                Pin::new(&mut self.stream).poll_read(cx, buf)
            }
            read => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn begun(pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut stream = tokio_test(pieces);
        read(&mut stream).await
    }

    // A stream that gives these pieces one by one, then ends.
    fn tokio_test(pieces: &[&[u8]]) -> impl AsyncRead + Unpin {
        let mut all: Box<dyn AsyncRead + Unpin> = Box::new(tokio::io::empty());
        for piece in pieces.iter().rev() {
            all = Box::new(io::Cursor::new(piece.to_vec()).chain(all));
        }
        all
    }

    #[tokio::test]
    async fn it_is_told_at_the_first_byte_that_differs() {
        assert!(is_whole(&begun(&[PREFACE]).await.unwrap()));
        assert!(is_whole(
            &begun(&[&PREFACE[..5], &PREFACE[5..], b"more"])
                .await
                .unwrap()
        ));
        for other in [
            &b"G"[..],
            b"GET / HTTP/1.0\r\n\r\n",
            b"POST",
            b"PRI * HTTP/1.1\r\n\r\n",
        ] {
            let read = begun(&[other]).await.unwrap();
            assert!(!is_whole(&read) && other.starts_with(&read));
        }
        assert!(begun(&[b"PRI * "]).await.is_err());
        assert!(begun(&[]).await.is_err());
    }

    #[tokio::test]
    async fn what_was_read_comes_again() {
        let mut all = Vec::new();
        let mut rewound = Rewound::new(b"abc".to_vec(), io::Cursor::new(b"def".to_vec()));
        rewound.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"abcdef");
    }
}
