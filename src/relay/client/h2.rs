//! One stream of a client's HTTP/2 connection.
//!
//! In: a request that `h2` has accepted. Out: what [`Client`](super::Client) says. The connection itself is driven by
//! its own task, which sends what is written here; flow control bounds what a slow client leaves unsent.

use std::future::poll_fn;
use std::net::IpAddr;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use greylag_filters::framing::may_have_body;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use pingora_core::protocols::http::date;
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::time::timeout;

use super::{BODY_PAUSE, Gone, LostBody};
use crate::reply;
use crate::wire::poll_window;

/// A request and its answer.
pub struct Client {
    head: RequestHeader,
    address: Option<IpAddr>,
    reader: Reader,
    writer: Writer,
}

/// The request's body.
pub struct Reader {
    body: RecvStream,
    bytes: u64,
    // whether the end was read, trailers or not
    done: bool,
    left: bool,
}

/// The answer.
pub struct Writer {
    respond: SendResponse<Bytes>,
    // once the head has been written, unless it was all of the answer
    out: Option<SendStream<Bytes>>,
    limit: Duration,
    has_body: bool,
    answered: bool,
    bytes: u64,
    left: bool,
}

impl Client {
    /// A client of a stream that was accepted, who may take nothing for `limit`.
    pub fn new(
        parts: Parts,
        body: RecvStream,
        respond: SendResponse<Bytes>,
        address: Option<IpAddr>,
        limit: Duration,
    ) -> Self {
        let head = head(parts);
        Client {
            address,
            reader: Reader {
                done: body.is_end_stream(),
                body,
                bytes: 0,
                left: false,
            },
            writer: Writer {
                respond,
                out: None,
                limit,
                has_body: head.method != Method::HEAD,
                answered: false,
                bytes: 0,
                left: false,
            },
            head,
        }
    }

    /// Both ways apart, for those who move them at the same time.
    pub fn split(&mut self) -> (&RequestHeader, &mut Reader, &mut Writer) {
        (&self.head, &mut self.reader, &mut self.writer)
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    pub(super) fn head(&self) -> &RequestHeader {
        &self.head
    }

    pub(super) fn is_body_read(&mut self) -> bool {
        self.reader.is_done()
    }

    pub(super) async fn read_body(&mut self) -> Result<Option<Bytes>, LostBody> {
        self.reader.read(BODY_PAUSE).await
    }

    pub(super) async fn gone(&mut self) -> Gone {
        self.writer.gone().await
    }

    /// Whether the client was seen to leave.
    pub fn has_left(&self) -> bool {
        self.reader.left || self.writer.left
    }

    pub(super) async fn gone_early(&mut self) -> Gone {
        poll_fn(|cx| {
            while !self.reader.is_done() {
                match self.reader.poll_read(cx) {
                    Poll::Ready(Ok(Some(_))) => {}
                    Poll::Ready(Ok(None)) | Poll::Pending => break,
                    Poll::Ready(Err(gone)) => return Poll::Ready(gone),
                }
            }
            self.writer.poll_gone(cx)
        })
        .await
    }

    pub(super) fn invite(&mut self) {
        let mut invitation = Response::new(());
        *invitation.status_mut() = StatusCode::CONTINUE;
        // A stream that has been reset is told nothing; the watch tells.
        let _ = self.writer.respond.send_informational(invitation);
    }

    pub(super) fn write_head(&mut self, head: Box<ResponseHeader>, is_all: bool) {
        self.writer.write_head(head, is_all);
    }

    pub(super) async fn write(&mut self, piece: &[u8]) -> Result<(), Gone> {
        self.writer.write(piece).await
    }

    pub(super) fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone> {
        self.writer.finish(trailers)
    }

    pub(super) fn break_off(&mut self) {
        self.writer.break_off();
    }

    pub(super) fn is_answered(&self) -> bool {
        self.writer.answered
    }

    pub(super) fn answer_bytes(&self) -> u64 {
        self.writer.bytes
    }

    pub(super) fn request_bytes(&self) -> u64 {
        self.reader.bytes
    }
}

impl Reader {
    fn is_done(&self) -> bool {
        self.done || self.body.is_end_stream()
    }

    /// The next piece of the body, or nothing at its end. Cancel-safe.
    ///
    /// # Errors
    /// The client is gone, or has sent nothing for `pause`.
    pub async fn read(&mut self, pause: Duration) -> Result<Option<Bytes>, LostBody> {
        match timeout(pause, poll_fn(|cx| self.poll_read(cx))).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(gone)) => Err(LostBody::Gone(gone)),
            Err(_) => Err(LostBody::Refused(reply::body_pause(pause))),
        }
    }

    /// The same without a limit.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Gone> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Gone>> {
        let piece = match ready!(self.body.poll_data(cx)) {
            Some(Ok(piece)) => piece,
            Some(Err(_)) => {
                self.left = true;
                return Poll::Ready(Err(Gone::Left));
            }
            None => {
                self.done = true;
                return Poll::Ready(Ok(None));
            }
        };
        // The window opens by what was taken; the stream may be gone, which the next read tells.
        let _ = self.body.flow_control().release_capacity(piece.len());
        self.bytes += piece.len() as u64;
        Poll::Ready(Ok(Some(piece)))
    }
}

impl Writer {
    /// Ends when the client has left. Cancel-safe.
    pub async fn gone(&mut self) -> Gone {
        poll_fn(|cx| self.poll_gone(cx)).await
    }

    // Ends with a reset of the stream or the end of the connection.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        let reset = match &mut self.out {
            Some(out) => out.poll_reset(cx),
            // An answer that is all head leaves nothing to watch.
            None if self.answered => return Poll::Pending,
            None => self.respond.poll_reset(cx),
        };
        // Whatever the reason, nobody takes the answer.
        let _ = ready!(reset);
        self.left = true;
        Poll::Ready(Gone::Left)
    }

    /// Writes the answer's head; `is_all`: nothing comes after it.
    pub fn write_head(&mut self, mut head: Box<ResponseHeader>, is_all: bool) {
        // The framing is HTTP/2's own.
        for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
            head.remove_header(&name);
        }
        // The value is well formed.
        let _ = head.insert_header(header::DATE, date::get_cached_date());
        let method = if self.has_body {
            Method::GET
        } else {
            Method::HEAD
        };
        let is_all = is_all || !may_have_body(head.status, &method);
        let parts = http::response::Parts::from(*head);
        self.answered = true;
        // A stream that has been reset takes no answer; the watch tells.
        let sent = self
            .respond
            .send_response(Response::from_parts(parts, ()), is_all);
        self.left |= sent.is_err();
        self.out = sent.ok().filter(|_| !is_all);
    }

    /// Writes a piece of the answer's body as the client's window opens.
    ///
    /// # Errors
    /// The client is gone, or its window stayed shut.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), Gone> {
        let mut given = 0;
        while given < piece.len() {
            let before = given;
            let limit = self.limit;
            let opened = poll_fn(|cx| {
                let written = self.poll_write(cx, piece, &mut given);
                // Each step has the limit anew: it is for a client that takes nothing.
                if written.is_pending() && given > before {
                    return Poll::Ready(Ok(()));
                }
                written
            });
            timeout(limit, opened).await.unwrap_or(Err(Gone::Stalled))?;
        }
        Ok(())
    }

    /// Writes some of `piece` from `given` on, which it moves. Where nothing is left it ends only with the client's leaving,
    /// which is told like any other. Has no limit. Cancel-safe.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn give(&mut self, piece: &[u8], given: &mut usize) -> Result<(), Gone> {
        poll_fn(|cx| {
            if *given == piece.len() {
                return self.poll_gone(cx).map(Err);
            }
            let before = *given;
            let written = self.poll_write(cx, piece, given);
            if written.is_pending() && *given > before {
                return Poll::Ready(Ok(()));
            }
            written
        })
        .await
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        piece: &[u8],
        given: &mut usize,
    ) -> Poll<Result<(), Gone>> {
        while *given < piece.len() {
            let Some(out) = &mut self.out else {
                // Of an answer without a body nothing is written.
                *given = piece.len();
                return Poll::Ready(if self.left { Err(Gone::Left) } else { Ok(()) });
            };
            let rest = &piece[*given..];
            let window = ready!(poll_window(out, cx, rest.len()));
            let sent = window.and_then(|taken| {
                let now = Bytes::copy_from_slice(&rest[..taken]);
                out.send_data(now, false).map(|()| taken).map_err(Some)
            });
            let Ok(taken) = sent else {
                self.left = true;
                return Poll::Ready(Err(Gone::Left));
            };
            self.bytes += taken as u64;
            *given += taken;
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the answer well.
    ///
    /// # Errors
    /// The client is gone.
    pub fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        let ended = match trailers {
            Some(trailers) => out.send_trailers(trailers),
            None => out.send_data(Bytes::new(), true),
        };
        ended.map_err(|_| Gone::Left)
    }

    fn break_off(&mut self) {
        match &mut self.out {
            Some(out) => out.send_reset(Reason::INTERNAL_ERROR),
            None => self.respond.send_reset(Reason::INTERNAL_ERROR),
        }
    }
}

// The head as HTTP/1.1 would have it (RFC 9113 §8.3.1, §8.2.3): the authority in `Host`, cookies in one field. A `Host`
// that says something else stays beside the authority, and the request is refused as one with two.
fn head(mut parts: Parts) -> RequestHeader {
    if let Some(authority) = parts.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        let mut said = parts.headers.get_all(header::HOST).iter();
        if said.all(|said| said.as_bytes().eq_ignore_ascii_case(host.as_bytes())) {
            parts.headers.insert(header::HOST, host);
        } else {
            parts.headers.append(header::HOST, host);
        }
    }
    join_cookies(&mut parts.headers);
    RequestHeader::from(parts)
}

fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if cookies.len() < 2 {
        return;
    }
    if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn a_head_looks_like_one_of_http_1() {
        let (parts, ()) = Request::builder()
            .uri("http://models.test:80/v1/models?a=b")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("x-other", "c")
            .body(())
            .unwrap()
            .into_parts();
        let head = head(parts);
        assert_eq!(head.raw_path(), b"/v1/models?a=b");
        assert_eq!(head.headers["host"], "models.test:80");
        assert_eq!(head.headers["cookie"], "a=1; b=2");
        assert_eq!(head.headers.get_all("cookie").iter().count(), 1);
        assert_eq!(head.headers.get_all("host").iter().count(), 1);
    }
}
