//! A request over HTTP/1.1, on a connection of its own.
//!
//! In: a connection from the pool or a new one. Out: what [`Call`](super::Call) says.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use greylag_filters::framing::{self, Decoder, Framing, Marked};
use http::Method;
use pingora_http::{RequestHeader, ResponseHeader};

use super::answer;
use super::call::{Broken, gather};
use super::link::Link;
use super::pool::Pool;
use crate::socket::Socket;
use crate::wire;

/// A connection with a request on it. Dropping it closes the connection.
pub struct Call {
    link: Link,
    method: Method,
    request: Marked,
    answer: Body,
    // whether the head says that the connection may carry another request
    keeps: bool,
    // a break that came together with the bytes before it
    failed: Option<Broken>,
    /// Whether the connection came from the pool.
    pub(super) reused: bool,
    // what the engine had sent before this request
    before: u64,
}

// What is left of the answer's body.
#[derive(Debug)]
enum Body {
    // so many bytes
    Length(u64),
    Chunked(Decoder),
    UntilClose,
}

impl Body {
    fn is_done(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(decoder) => decoder.is_done(),
            Body::UntilClose => false,
        }
    }

    // Adds the data of `bytes` to `out`; returns how many of them belong to this answer.
    fn read(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, Broken> {
        match self {
            Body::Length(left) => {
                let here = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= here as u64;
                out.extend_from_slice(&bytes[..here]);
                Ok(here)
            }
            Body::Chunked(decoder) => decoder.decode(bytes, out).map_err(|_| Broken::Garbage),
            Body::UntilClose => {
                out.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }
}

impl Call {
    /// On a connection that carries nothing else.
    pub(super) fn on(link: Link, reused: bool) -> Self {
        Call {
            before: link.received,
            link,
            method: Method::GET,
            request: Marked::new(Framing::None),
            answer: Body::UntilClose,
            keeps: false,
            failed: None,
            reused,
        }
    }

    /// Whether the connection had gone stale in the pool, as far as can be told: nothing has come on it since.
    pub fn is_stale(&self) -> bool {
        self.reused && self.link.received == self.before
    }

    /// Writes the request's head, whose body has this framing. It leaves before the first wait.
    ///
    /// # Errors
    /// [`Broken::Garbage`]: the head cannot be written, which one that was read never is.
    pub fn write_head(&mut self, head: &RequestHeader, framing: Framing) -> Result<(), Broken> {
        self.method = head.method.clone();
        self.request = Marked::new(framing);
        match wire::request_head(head, self.link.outbox.end()) {
            true => Ok(()),
            false => Err(Broken::Garbage),
        }
    }

    /// Writes a piece of the request's body.
    ///
    /// # Errors
    /// The connection broke, or the engine has begun to answer without waiting for the rest.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), Broken> {
        let mark = self.request.mark(piece.len());
        let outbox = self.link.outbox.end();
        outbox.extend_from_slice(mark.before());
        self.link.send(&piece[..mark.take]).await?;
        self.link.outbox.end().extend_from_slice(mark.after);
        Ok(())
    }

    /// Ends the request's body. What has not left does so before the next wait.
    ///
    /// # Errors
    /// The body is shorter than its head says.
    pub fn finish(&mut self) -> Result<(), Broken> {
        let end = self.request.end().map_err(|_| Broken::Closed)?;
        self.link.outbox.end().extend_from_slice(end);
        Ok(())
    }

    /// Reads the answer's next head: interim ones (1xx) come first, the last one is the answer's. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read_head(&mut self) -> Result<Box<ResponseHeader>, Broken> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Box<ResponseHeader>, Broken>> {
        loop {
            if let Some((head, length)) = answer::head(&self.link.inbox)? {
                self.link.inbox.drain(..length);
                if !head.status.is_informational() {
                    self.begin_body(&head)?;
                }
                return Poll::Ready(Ok(head));
            }
            if ready!(self.link.poll_inbox(cx))? == 0 {
                return Poll::Ready(Err(Broken::Closed));
            }
        }
    }

    fn begin_body(&mut self, head: &ResponseHeader) -> Result<(), Broken> {
        let framing = framing::of_answer(head.status, &head.headers, &self.method);
        self.answer = match framing.map_err(|_| Broken::Garbage)? {
            Framing::None => Body::Length(0),
            Framing::Length(length) => Body::Length(length),
            Framing::Chunked => Body::Chunked(Decoder::default()),
            Framing::UntilClose => Body::UntilClose,
        };
        self.keeps = answer::keeps_connection(head);
        Ok(())
    }

    /// Whether the answer says where its end is.
    pub(super) fn is_framed(&self) -> bool {
        !matches!(self.answer, Body::UntilClose)
    }

    /// Adds to `out` the next piece of the answer's body: all that has come, up to a bound. False: it is whole, and `out`
    /// has its end. A break is told after what came before it. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, Broken> {
        poll_fn(|cx| self.poll_body(cx, out)).await
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, Broken>> {
        let mut failed = self.failed.take();
        let more = gather(&mut failed, out, |out| self.poll_piece(cx, out));
        self.failed = failed;
        more
    }

    // True: there may be more.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, Broken>> {
        if !self.link.inbox.is_empty() && !self.answer.is_done() {
            let read = self.answer.read(&self.link.inbox, out);
            // What is past the answer stays, so that the connection is not used again.
            self.link.inbox.drain(..read?);
        }
        if self.answer.is_done() {
            return Poll::Ready(Ok(false));
        }
        let answer = &mut self.answer;
        let mut read = Ok(0);
        let come = ready!(
            self.link
                .poll_read(cx, |bytes| read = answer.read(bytes, out))
        )?;
        let taken = read?;
        if come == 0 {
            return Poll::Ready(match self.answer {
                Body::UntilClose => Ok(false),
                Body::Length(_) | Body::Chunked(_) => Err(Broken::Closed),
            });
        }
        self.keeps &= taken == come;
        Poll::Ready(Ok(!self.answer.is_done()))
    }

    /// The connection as a tunnel, and what the engine has sent already.
    pub fn into_tunnel(self) -> (Socket, Vec<u8>) {
        self.link.into_parts()
    }

    /// Gives the connection back, after a complete answer to a completely written request.
    pub fn release(mut self, pool: &Pool) {
        const SPARE: usize = 2 << 10;
        self.link.inbox.shrink_to(SPARE);
        let is_clean = self.link.inbox.is_empty() && self.link.outbox.is_empty();
        if self.keeps && is_clean && self.answer.is_done() {
            pool.put(self.link);
        }
    }
}
