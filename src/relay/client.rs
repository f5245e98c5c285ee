//! The client's side of an exchange.
//!
//! In: Pingora's HTTP/1 session over a [`Wire`]. Out: the request's head and body, and the news that the client has
//! left or takes nothing. Every write has a deadline, and a client is never waited for without one.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header;
use pingora_core::protocols::http::v1::server::HttpSession;
use pingora_core::protocols::{Shutdown, Stream};
use pingora_core::{Error, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::head;
use crate::reply::{Reason, Refusal};
use crate::wire::{Flush, Lookout, Wire};

/// How long a client may take to send a request's head, and how long a connection may be idle between two requests.
const HEAD: Duration = Duration::from_secs(60);
/// The longest pause within a request's body.
pub const BODY_PAUSE: Duration = Duration::from_secs(60);
/// How long, and how many bytes of it, an unread body is drained after an early answer, so that the client can read
/// the answer before the connection's reset reaches it (RFC 9112 §9.6).
const LINGER: (Duration, usize) = (Duration::from_secs(2), 16 << 20);

/// As much of an answer as one write deadline is for, in bytes.
const PART: usize = 16 << 10;

/// A client's connection, with the request on it.
pub struct Client {
    session: HttpSession,
    write_limit: Duration,
    closing: bool,
    // whether the connection has carried a request before
    reused: bool,
    // what makes its stream tell of the client's leaving alone
    lookout: Lookout,
    // whether a head has been read, without which Pingora's session must not be asked about it
    headed: bool,
    refused: bool,
}

/// How a client was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It closed or reset its connection.
    Left,
    /// It took nothing for `limits.write`.
    Stalled,
}

/// What came instead of a request's head.
#[derive(Debug)]
pub enum NoHead {
    /// The connection ended, or nothing came in time: there is nobody to answer.
    Silence,
    /// Something came that is no request.
    Refused(Refusal),
}

impl Client {
    /// A client on a fresh connection.
    pub fn new(stream: Stream, write_limit: Duration) -> Self {
        let wire = Wire::new(stream, Flush::AtOnce);
        let lookout = wire.lookout();
        Client::on(Box::new(wire), lookout, write_limit)
    }

    fn on(stream: Stream, lookout: Lookout, write_limit: Duration) -> Self {
        lookout.set(false);
        let mut session = HttpSession::new(stream);
        // Bytes that follow a request are the next one, not the end of this one.
        session.set_pipelining_enabled(true);
        // Waits are bounded here, by tokio's timers.
        session.set_read_timeout(None);
        session.set_server_keepalive(Some(0));
        Client {
            session,
            write_limit,
            closing: false,
            reused: false,
            lookout,
            headed: false,
            refused: false,
        }
    }

    /// Whether the connection has carried a request before.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// The client's address, where it is known.
    pub fn address(&self) -> Option<IpAddr> {
        let address = self.session.client_addr()?.as_inet()?.ip();
        Some(address.to_canonical())
    }

    /// Reads the next request's head. Cancel-safe as long as the client is then dropped.
    ///
    /// # Errors
    /// [`NoHead`], after which the connection is of no further use.
    pub async fn read_head(&mut self) -> Result<(), NoHead> {
        match timeout(HEAD, self.session.read_request()).await {
            Ok(Ok(Some(_))) => {
                head::to_origin_form(self.session.req_header_mut());
                // Pingora reads the first `Connection` alone, and takes `keep-alive` over `close`.
                self.headed = true;
                self.closing |= head::names(self.head(), "close");
                Ok(())
            }
            Ok(Ok(None)) | Err(_) => Err(NoHead::Silence),
            Ok(Err(error)) => Err(no_head(&error)),
        }
    }

    /// The request's head.
    pub fn head(&self) -> &RequestHeader {
        self.session.req_header()
    }

    /// Whether there is no body, or none left to read.
    pub fn is_body_read(&mut self) -> bool {
        self.session.is_body_done()
    }

    /// Sends `100 Continue` to a client that waits for it.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn invite_body(&mut self) -> Result<(), Gone> {
        let invitation = ResponseHeader::build(100, Some(0)).expect("100 is a status");
        self.write_head(Box::new(invitation)).await
    }

    /// The next piece of the request's body, or nothing at its end. Cancel-safe.
    ///
    /// # Errors
    /// The client is gone, pauses too long, or sends no well-formed body.
    pub async fn read_body(&mut self) -> Result<Option<Bytes>, LostBody> {
        match timeout(BODY_PAUSE, self.session.read_body_bytes()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                // Where the next request would begin is not known.
                self.closing = true;
                Err(lost_body(&error))
            }
            Err(_) => Err(LostBody::Refused(Refusal::new(
                Reason::RequestTimeout,
                format!(
                    "nothing of the request's body came for {}",
                    humantime::format_duration(BODY_PAUSE)
                ),
            ))),
        }
    }

    /// Ends when the client has left. To be called only when the body is read: it would eat a byte of it.
    pub async fn gone(&mut self) -> Gone {
        debug_assert!(self.session.is_body_done(), "the body is read first");
        // Whatever else a client sends is kept for the next request. Pingora, which would keep it too, would not look for
        // the client's end after it.
        self.lookout.set(true);
        let _ = self.session.read_body_or_idle(true).await;
        Gone::Left
    }

    /// Ends when the client has left, whether or not its request's body is read. What is left of the body is read and
    /// dropped: it has been answered, and a client that only sends could not read the answer. Cancel-safe.
    pub async fn gone_early(&mut self) -> Gone {
        while !self.session.is_body_done() {
            match self.session.read_body_bytes().await {
                Ok(_) => {}
                Err(error) => match lost_body(&error) {
                    LostBody::Gone(gone) => return gone,
                    // It cannot be told any more where it ends; its leaving shows in a write that fails.
                    LostBody::Refused(_) => return std::future::pending().await,
                },
            }
        }
        self.gone().await
    }

    /// Writes the answer's head, or an interim one.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn write_head(&mut self, head: Box<ResponseHeader>) -> Result<(), Gone> {
        if self.closing || self.ends_with_connection(&head) {
            self.session.set_server_keepalive(None);
        }
        let goes_on = head.status.is_informational() && self.session.will_keepalive();
        let write = self.session.write_response_header(head);
        let written = settle(timeout(self.write_limit, write).await);
        // Pingora ends the connection after any head that it writes before the request's body has come, but an interim
        // head is no answer.
        if goes_on {
            self.session.set_server_keepalive(Some(0));
        }
        written
    }

    // Pingora finds this out only after it has written `Connection: keep-alive`.
    fn ends_with_connection(&self, head: &ResponseHeader) -> bool {
        let framed = head.headers.contains_key(header::CONTENT_LENGTH)
            || head.headers.contains_key(header::TRANSFER_ENCODING);
        !framed && self.headed && head::may_have_body(head.status, &self.head().method)
    }

    /// Writes a piece of the answer's body; it leaves at once, or before the next wait if the answer has a length.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), Gone> {
        // The deadline is for a client that takes nothing, not for one that takes much slowly. Of nothing there is no part,
        // so no empty chunk ends a chunked body.
        for part in piece.chunks(PART) {
            let write = self.session.write_body(part);
            settle(timeout(self.write_limit, write).await)?;
        }
        Ok(())
    }

    /// Ends the answer well.
    ///
    /// # Errors
    /// The client is gone, or the answer is shorter than its head says.
    pub async fn finish(&mut self) -> Result<(), Gone> {
        let finish = self.session.finish_body();
        settle(timeout(self.write_limit, finish).await)
    }

    /// Ends an answer that cannot be finished: what was written leaves, then the connection ends without the answer's end.
    pub async fn break_off(&mut self) {
        let _ = timeout(self.write_limit, self.session.shutdown()).await;
    }

    /// Whether an answer's head has been written; interim ones do not count.
    pub fn is_answered(&self) -> bool {
        self.session
            .response_written()
            .is_some_and(|head| !head.status.is_informational())
    }

    /// Bytes of the answer's body that were written.
    pub fn answer_bytes(&self) -> u64 {
        self.session.body_bytes_sent() as u64
    }

    /// Bytes of the request's body that were read.
    pub fn request_bytes(&self) -> u64 {
        self.session.body_bytes_read() as u64
    }

    /// Closes the connection after this answer.
    pub fn close_after(&mut self) {
        self.closing = true;
    }

    /// Answers in Greylag's own name.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse(&mut self, refusal: &Refusal) -> Result<(), Gone> {
        self.refused = true;
        let (head, body) = refusal.answer();
        self.write_head(head).await?;
        // To a HEAD Pingora writes no body, whatever it is given.
        self.write(&body).await?;
        self.finish().await
    }

    /// The connection's next request, if there may be one; to be called after a whole answer.
    pub async fn next(mut self) -> Option<Client> {
        let is_body_done = self.session.is_body_done();
        if !is_body_done || !self.session.will_keepalive() {
            // What follows a request that was refused may be unread too.
            if is_body_done && !self.refused {
                self.session.shutdown().await;
            } else {
                self.linger().await;
            }
            return None;
        }
        let (lookout, write_limit) = (self.lookout, self.write_limit);
        let (stream, ahead) = self.session.reuse().await.ok()??.into_parts();
        let mut client = Client::on(stream, lookout, write_limit);
        client.reused = true;
        if let Some(ahead) = ahead {
            client.session.set_pipelined_prefix(ahead);
        }
        Some(client)
    }

    /// Sends the end, then drains what the client still sends, for a bounded while. It is not looked into: it may be
    /// anything, the rest of a head that was none included.
    pub async fn linger(self) {
        self.lookout.set(false);
        let mut stream = self.session.into_inner();
        Shutdown::shutdown(&mut *stream).await;
        let (pause, mut left) = LINGER;
        let drain = async {
            let mut piece = vec![0; 8 << 10];
            while let Ok(read @ 1..) = stream.read(&mut piece).await {
                match left.checked_sub(read) {
                    Some(rest) => left = rest,
                    None => break,
                }
            }
        };
        let _ = timeout(pause, drain).await;
    }
}

/// What came instead of a piece of the request's body.
#[derive(Debug)]
pub enum LostBody {
    /// The client is gone.
    Gone(Gone),
    /// It sent something that is no body, or nothing.
    Refused(Refusal),
}

fn settle<T>(
    written: Result<pingora_core::Result<T>, tokio::time::error::Elapsed>,
) -> Result<(), Gone> {
    match written {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(Gone::Left),
        Err(_) => Err(Gone::Stalled),
    }
}

fn no_head(error: &Error) -> NoHead {
    match error.etype() {
        ErrorType::ReadError | ErrorType::ConnectionClosed | ErrorType::ReadTimedout => {
            NoHead::Silence
        }
        _ => {
            let (reason, message) = if is_too_large(error) {
                (
                    Reason::HeadTooLarge,
                    "the request's head is longer than 1 MiB, has more than 256 fields or a target over 64 KiB",
                )
            } else {
                (
                    Reason::BadRequest,
                    "what came is not an HTTP/1 request, or one whose framing is ambiguous",
                )
            };
            NoHead::Refused(Refusal::new(reason, message))
        }
    }
}

// Pingora's error names neither in its type. Its text may hold what the client sent, so it is looked at in parts.
fn is_too_large(error: &Error) -> bool {
    match &error.cause {
        Some(cause) => cause.to_string() == "too many headers",
        None => error.context.as_ref().is_some_and(|context| {
            let context = context.as_str();
            let long_target = context.len() > usize::from(u16::MAX);
            context.starts_with("Request header larger than")
                || (context.starts_with("invalid uri") && long_target)
        }),
    }
}

fn lost_body(error: &Error) -> LostBody {
    match error.etype() {
        ErrorType::ReadError | ErrorType::ConnectionClosed => LostBody::Gone(Gone::Left),
        _ => LostBody::Refused(Refusal::new(
            Reason::BadRequest,
            "the request's body is not framed as its head says",
        )),
    }
}
