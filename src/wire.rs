//! What is on its way to a peer, and how a head looks on the wire.
//!
//! In: heads and pieces of bodies. Out: bytes in a socket, in as few system calls as can be: small pieces gather here and
//! leave together, before anything is waited for; long ones are written from where they are. Whoever waits for a peer
//! polls its outbox, so no byte stays behind, neither here nor in TLS. Nothing is read here.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes};
use greylag_filters::framing::Mark;
use h2::SendStream;
use http::Version;
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::io::AsyncWrite;

/// So many bytes gather before someone waits for them to leave.
pub const FULL: usize = 16 << 10;
/// Pieces from this length on are written from where they are.
pub const LONG: usize = 4 << 10;
// A buffer that has grown past this is given back when it is empty.
const KEPT: usize = 2 << 10;

/// Bytes that wait to be written.
#[derive(Debug, Default)]
pub struct Outbox {
    held: Vec<u8>,
    // 0 <= sent <= held.len(); all of them are cleared together
    sent: usize,
    // whether bytes were taken that TLS may still hold
    unflushed: bool,
}

impl Outbox {
    /// Where to write what is to be sent next.
    pub fn end(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    /// Adds a piece of a body with its marks.
    pub fn put(&mut self, mark: &Mark, piece: &[u8]) {
        self.held.extend_from_slice(mark.before());
        self.held
            .extend_from_slice(piece.get(..mark.take).unwrap_or(piece));
        self.held.extend_from_slice(mark.after);
    }

    /// Bytes that have not been sent.
    pub fn left(&self) -> usize {
        self.held.len() - self.sent
    }

    /// Whether all has been sent, also by what stands between here and the socket.
    pub fn is_empty(&self) -> bool {
        self.left() == 0 && !self.unflushed
    }

    /// Forgets what has not been sent.
    pub fn clear(&mut self) {
        self.held.clear();
        self.sent = 0;
        self.unflushed = false;
    }

    /// Sends what is held, then `rest`, of which it takes off what has gone. Ready when all has.
    pub fn poll_send<W: AsyncWrite>(
        &mut self,
        cx: &mut Context<'_>,
        mut to: Pin<&mut W>,
        rest: &mut &[u8],
    ) -> Poll<io::Result<()>> {
        while self.left() > 0 || !rest.is_empty() {
            let held = self.held.get(self.sent..).unwrap_or_default();
            let wrote = match (held.is_empty(), rest.is_empty()) {
                (false, true) => ready!(to.as_mut().poll_write(cx, held))?,
                (true, _) => ready!(to.as_mut().poll_write(cx, rest))?,
                (false, false) => {
                    let both = [IoSlice::new(held), IoSlice::new(rest)];
                    ready!(to.as_mut().poll_write_vectored(cx, &both))?
                }
            };
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            let of_held = wrote.min(held.len());
            self.sent += of_held;
            *rest = rest.get(wrote - of_held..).unwrap_or_default();
            if self.left() == 0 {
                self.held.clear();
                self.sent = 0;
                self.held.shrink_to(KEPT);
            }
        }
        if self.unflushed {
            ready!(to.as_mut().poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

/// How much of `length` bytes may be sent on an HTTP/2 stream now, at least one.
///
/// # Errors
/// The stream is gone; with the error, where there was one.
pub fn poll_window(
    out: &mut SendStream<Bytes>,
    cx: &mut Context<'_>,
    length: usize,
) -> Poll<Result<usize, Option<h2::Error>>> {
    out.reserve_capacity(length);
    while out.capacity() == 0 {
        match ready!(out.poll_capacity(cx)) {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Poll::Ready(Err(Some(error))),
            None => return Poll::Ready(Err(None)),
        }
    }
    Poll::Ready(Ok(out.capacity().min(length)))
}

/// Writes an answer's head (RFC 9112 §4); names keep the case that they came in.
pub fn answer_head(head: &ResponseHeader, out: &mut Vec<u8>) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(head.status.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(head.get_reason_phrase().unwrap_or_default().as_bytes());
    out.put_slice(b"\r\n");
    head.header_to_h1_wire(out);
    out.put_slice(b"\r\n");
}

/// Writes a request's head (RFC 9112 §3). False, and nothing is written: its target would end the line.
pub fn request_head(head: &RequestHeader, out: &mut Vec<u8>) -> bool {
    debug_assert_eq!(
        head.version,
        Version::HTTP_11,
        "engines are spoken to in HTTP/1.1"
    );
    let target = head.raw_path();
    if target.is_empty()
        || target
            .iter()
            .any(|byte| matches!(byte, 0 | b'\n' | b'\r' | b' '))
    {
        return false;
    }
    out.put_slice(head.method.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(target);
    out.put_slice(b" HTTP/1.1\r\n");
    head.header_to_h1_wire(out);
    out.put_slice(b"\r\n");
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use greylag_filters::framing::{Framing, Marked};
    use std::task::Waker;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn what_is_held_and_what_is_long_leave_in_order_and_whole() {
        let (mut near, mut far) = tokio::io::duplex(7);
        let mut outbox = Outbox::default();
        outbox.put(&Marked::new(Framing::Chunked).mark(3), b"abc");
        let long = [b'x'; 100];
        let send = async {
            let mut rest: &[u8] = &long;
            std::future::poll_fn(|cx| outbox.poll_send(cx, Pin::new(&mut near), &mut rest))
                .await
                .unwrap();
            drop(near);
        };
        let mut got = Vec::new();
        let (read, ()) = tokio::join!(far.read_to_end(&mut got), send);
        read.unwrap();
        assert_eq!(got, [&b"3\r\nabc\r\n"[..], &long].concat());
        assert!(outbox.is_empty());
    }

    #[tokio::test]
    async fn what_a_writer_holds_is_flushed_too() {
        // As TLS does: it takes bytes, and sends them when it can.
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = tokio::io::BufWriter::new(near);
        let mut outbox = Outbox::default();
        outbox.end().extend_from_slice(b"abc");
        std::future::poll_fn(|cx| outbox.poll_send(cx, Pin::new(&mut near), &mut &[][..]))
            .await
            .unwrap();
        assert!(outbox.is_empty());
        let mut got = [0; 3];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"abc");
    }

    #[test]
    fn what_a_writer_cannot_flush_keeps_the_outbox_busy() {
        let (near, _far) = tokio::io::duplex(2);
        let mut near = tokio::io::BufWriter::new(near);
        let mut outbox = Outbox::default();
        outbox.end().extend_from_slice(b"abc");
        let mut cx = Context::from_waker(Waker::noop());
        let sent = outbox.poll_send(&mut cx, Pin::new(&mut near), &mut &[][..]);
        assert!(sent.is_pending());
        assert_eq!((outbox.left(), outbox.is_empty()), (0, false));
    }

    #[test]
    fn what_is_not_taken_stays() {
        let (mut near, _far) = tokio::io::duplex(4);
        let mut outbox = Outbox::default();
        outbox.end().extend_from_slice(b"abcdef");
        let mut cx = Context::from_waker(Waker::noop());
        let sent = outbox.poll_send(&mut cx, Pin::new(&mut near), &mut &[][..]);
        assert!(sent.is_pending());
        assert_eq!(outbox.left(), 2);
    }

    #[test]
    fn heads_look_as_they_came() {
        let mut head = ResponseHeader::build(200, None).unwrap();
        head.append_header("X-Odd-Case", "a b").unwrap();
        let mut out = Vec::new();
        answer_head(&head, &mut out);
        assert_eq!(out, b"HTTP/1.1 200 OK\r\nX-Odd-Case: a b\r\n\r\n");

        let mut head = RequestHeader::build("GET", b"/a?b", None).unwrap();
        head.append_header("hOst", "x").unwrap();
        let mut out = Vec::new();
        assert!(request_head(&head, &mut out));
        assert_eq!(out, b"GET /a?b HTTP/1.1\r\nhOst: x\r\n\r\n");
    }
}
