//! A client's HTTP/1 connection.
//!
//! In: a connection, whose requests Pingora's session reads. Out: what [`Client`](super::Client) says. What is written
//! gathers in an outbox and leaves whenever something is waited for.

use std::future::{pending, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use greylag_filters::framing::{self, Framing, Marked};
use greylag_filters::hop;
use http::{Method, header};
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::date;
use pingora_core::protocols::http::v1::server::HttpSession;
use pingora_core::{Error, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::inlet::{Inlet, Lookout};
use super::out::Out;
use super::{BODY_PAUSE, Gone, HEAD, LostBody, NoHead};
use crate::relay::head;
use crate::reply::{self, Reason, Refusal};
use crate::socket::{Socket, WriteHalf};
use crate::wire;

/// How long, and how many bytes of it, an unread body is drained after an early answer, so that the client can read
/// the answer before the connection's reset reaches it (RFC 9112 §9.6).
const LINGER: (Duration, usize) = (Duration::from_secs(2), 16 << 20);

/// A client's connection, with the request on it.
pub struct Client {
    // reads, and never writes
    session: HttpSession,
    // what makes its stream tell of the client's leaving alone
    lookout: Lookout,
    out: Out,
    address: Option<IpAddr>,
    closing: bool,
    // whether the connection has carried a request before
    reused: bool,
    // whether a head has been read, without which Pingora's session must not be asked about it
    headed: bool,
    // whether the answer's head has been written
    answered: bool,
    refused: bool,
    // the answer's body
    body: Marked,
    body_bytes: u64,
    // bytes from and to the client, once the connection is a tunnel
    tunnelled: Option<(u64, u64)>,
}

/// A client's connection as a tunnel.
pub struct Tunnel<'a> {
    /// What the client says.
    pub reader: Stream,
    /// Where it is spoken to.
    pub writer: &'a mut WriteHalf,
    /// Counts bytes from the client.
    pub up: &'a mut u64,
    /// Counts bytes to it.
    pub down: &'a mut u64,
}

impl Client {
    /// A client at `address` on a fresh connection of which `ahead` has been read, who may take nothing for `write_limit`.
    pub fn new(
        socket: Socket,
        address: Option<IpAddr>,
        ahead: Vec<u8>,
        write_limit: Duration,
    ) -> Self {
        let (read, half) = socket.split();
        let (inlet, lookout) = Inlet::new(read, ahead);
        let out = Out::new(half, write_limit);
        Client::on(Box::new(inlet), lookout, out, address)
    }

    fn on(stream: Stream, lookout: Lookout, out: Out, address: Option<IpAddr>) -> Self {
        lookout.set(false);
        let mut session = HttpSession::new(stream);
        // Bytes that follow a request are the next one, not the end of this one.
        session.set_pipelining_enabled(true);
        // Waits are bounded here, by tokio's timers.
        session.set_read_timeout(None);
        session.set_server_keepalive(Some(0));
        Client {
            session,
            lookout,
            out,
            address,
            closing: false,
            reused: false,
            headed: false,
            answered: false,
            refused: false,
            body: Marked::new(Framing::None),
            body_bytes: 0,
            tunnelled: None,
        }
    }

    /// Whether the connection has carried a request before.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// The client's address, where it is known.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
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
                self.closing |= hop::names(&self.head().headers, "close");
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

    /// The next piece of the request's body, or nothing at its end. Cancel-safe.
    ///
    /// # Errors
    /// The client is gone, pauses too long, or sends no well-formed body.
    pub async fn read_body(&mut self) -> Result<Option<Bytes>, LostBody> {
        match timeout(BODY_PAUSE, self.next_piece()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                // Where the next request would begin is not known.
                self.closing = true;
                Err(lost_body(&error))
            }
            Err(_) => Err(LostBody::Refused(reply::body_pause(BODY_PAUSE))),
        }
    }

    // A client that does not take our bytes may still send its own, or have sent them before it closed: reading goes on
    // while they are written and when that fails, and tells what there is to tell.
    async fn next_piece(&mut self) -> pingora_core::Result<Option<Bytes>> {
        let out = &mut self.out;
        let mut read = pin!(self.session.read_body_bytes());
        poll_fn(|cx| {
            let _ = out.poll_send(cx, &mut &[][..]);
            read.as_mut().poll(cx)
        })
        .await
    }

    /// Ends when the client has left. To be called only when the body is read: it would eat a byte of it.
    pub async fn gone(&mut self) -> Gone {
        poll_fn(|cx| self.poll_gone(cx)).await
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        if let Poll::Ready(Err(gone)) = self.out.poll_send(cx, &mut &[][..]) {
            return Poll::Ready(gone);
        }
        // Nearly always nothing has come, so the wait for it must cost little.
        ready!(self.out.poll_readable(cx));
        debug_assert!(self.session.is_body_done(), "the body is read first");
        // Whatever else a client sends is kept for the next request. Pingora, which would keep it too, would not look for
        // the client's end after it.
        self.lookout.set(true);
        let read = pin!(self.session.read_body_or_idle(true));
        read.poll(cx).map(|_| Gone::Left)
    }

    /// Ends when the client has left, whether or not its request's body is read. What is left of the body is read and
    /// dropped: it has been answered, and a client that only sends could not read the answer. Cancel-safe.
    pub async fn gone_early(&mut self) -> Gone {
        while !self.session.is_body_done() {
            let out = &mut self.out;
            let mut read = pin!(self.session.read_body_bytes());
            let read = poll_fn(|cx| match out.poll_send(cx, &mut &[][..]) {
                Poll::Ready(Err(gone)) => Poll::Ready(Err(LostBody::Gone(gone))),
                _ => read.as_mut().poll(cx).map_err(|error| lost_body(&error)),
            });
            match read.await {
                Ok(_) => {}
                Err(LostBody::Gone(gone)) => return gone,
                // It cannot be told any more where it ends; its leaving shows in a write that fails.
                Err(LostBody::Refused(_)) => {
                    return match self.out.send(&[]).await {
                        Err(gone) => gone,
                        Ok(()) => pending().await,
                    };
                }
            }
        }
        self.gone().await
    }

    /// Sends what was written, as far as it is taken without being waited for; whether that is all.
    ///
    /// # Errors
    /// The client is lost.
    pub async fn send_now(&mut self) -> Result<bool, Gone> {
        poll_fn(|cx| {
            Poll::Ready(match self.out.poll_send(cx, &mut &[][..]) {
                Poll::Ready(sent) => sent.map(|()| true),
                Poll::Pending => Ok(false),
            })
        })
        .await
    }

    /// Writes an interim head (1xx); it leaves before the next wait.
    ///
    /// One that the client has no room for is dropped: it may go without, and an engine may send any number.
    pub fn write_interim(&mut self, head: &ResponseHeader) {
        if self.out.outbox.left() < wire::FULL {
            wire::answer_head(head, self.out.outbox.end());
        }
    }

    /// Writes the answer's head; it leaves before the next wait.
    pub fn write_head(&mut self, mut head: Box<ResponseHeader>) {
        let framing = self.framing(&head);
        let goes_on = self.headed
            && !self.closing
            && framing != Framing::UntilClose
            && self.session.will_keepalive()
            && self.session.is_body_done();
        self.closing = !goes_on;
        let connection = if goes_on { "keep-alive" } else { "close" };
        // Both values are well formed.
        let _ = head.insert_header(header::DATE, date::get_cached_date());
        let _ = head.insert_header(header::CONNECTION, connection);
        wire::answer_head(&head, self.out.outbox.end());
        self.body = Marked::new(framing);
        self.answered = true;
    }

    fn framing(&self, head: &ResponseHeader) -> Framing {
        let method = if self.headed {
            &self.head().method
        } else {
            &Method::GET
        };
        let framing = framing::of_answer(head.status, &head.headers, method);
        framing.unwrap_or(Framing::UntilClose)
    }

    /// Writes a piece of the answer's body. It leaves before the next wait, and when much has gathered that is waited for.
    /// Of an empty piece nothing is written.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), Gone> {
        let mark = self.body.mark(piece.len());
        self.body_bytes += mark.take as u64;
        if piece.len() >= wire::LONG {
            let outbox = &mut self.out.outbox;
            outbox.end().extend_from_slice(mark.before());
            let sent = self.out.send(&piece[..mark.take]).await;
            self.out.outbox.end().extend_from_slice(mark.after);
            return sent;
        }
        self.out.outbox.put(&mark, piece);
        if self.out.outbox.left() < wire::FULL {
            return Ok(());
        }
        self.out.send(&[]).await
    }

    /// Ends the answer well.
    ///
    /// # Errors
    /// The client is gone, or the answer is shorter than its head says.
    pub async fn finish(&mut self) -> Result<(), Gone> {
        let end = self.body.end().map_err(|_| Gone::Left)?;
        self.out.outbox.end().extend_from_slice(end);
        self.out.send(&[]).await
    }

    /// Ends an answer that cannot be finished: what was written leaves, then the connection ends without the answer's end.
    pub(super) async fn break_off(&mut self) {
        if self.out.send(&[]).await.is_ok() {
            self.out.end().await;
        }
    }

    /// Whether an answer's head has been written; interim ones do not count.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Bytes of the answer's body that were written.
    pub fn answer_bytes(&self) -> u64 {
        self.tunnelled.map_or(self.body_bytes, |(_, down)| down)
    }

    /// Bytes of the request's body that were read.
    pub fn request_bytes(&self) -> u64 {
        let read = self.session.body_bytes_read() as u64;
        self.tunnelled.map_or(read, |(up, _)| up)
    }

    /// Makes a tunnel of the connection, after what was written has left; and what the client has sent already. No other
    /// request comes on it.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn tunnel(&mut self) -> Result<(Tunnel<'_>, Vec<u8>), Gone> {
        self.out.send(&[]).await?;
        self.closing = true;
        self.answered = true;
        self.lookout.set(false);
        let ended = HttpSession::new(Box::new(Inlet::ended()));
        let session = std::mem::replace(&mut self.session, ended);
        let read = session.reuse().await.map_err(|_| Gone::Left)?;
        let (reader, ahead) = read.ok_or(Gone::Left)?.into_parts();
        let (up, down) = self.tunnelled.insert((0, 0));
        let tunnel = Tunnel {
            reader,
            writer: &mut self.out.half,
            up,
            down,
        };
        Ok((tunnel, ahead.map(Vec::from).unwrap_or_default()))
    }

    /// Closes the connection after this answer.
    pub fn close_after(&mut self) {
        self.closing = true;
    }

    /// Notes that the answer is Greylag's own: what follows the request may be anything.
    pub(super) fn note_refusal(&mut self) {
        self.refused = true;
    }

    /// The connection's next request, if there may be one; to be called after a whole answer.
    pub async fn next(mut self: Box<Self>) -> Option<Box<Client>> {
        if self.tunnelled.is_some() {
            return None;
        }
        let is_body_done = self.session.is_body_done();
        if self.closing || !is_body_done {
            // What follows a request that was refused may be unread too.
            if is_body_done && !self.refused {
                self.out.end().await;
            } else {
                self.linger().await;
            }
            return None;
        }
        let (stream, ahead) = self.session.reuse().await.ok()??.into_parts();
        let mut client = Box::new(Client::on(stream, self.lookout, self.out, self.address));
        client.reused = true;
        if let Some(ahead) = ahead {
            client.session.set_pipelined_prefix(ahead);
        }
        Some(client)
    }

    /// Sends the end, then drains what the client still sends, for a bounded while. It is not looked into: it may be
    /// anything, the rest of a head that was none included.
    pub async fn linger(mut self: Box<Self>) {
        self.lookout.set(false);
        let mut stream = self.session.into_inner();
        self.out.end().await;
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
