//! One request to one engine, on one connection.
//!
//! In: a head and a body. Out: the answer's head, then its body in pieces, or what broke. Nothing is retried here.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{HeaderValue, header};
use pingora_core::connectors::TransportConnector;
use pingora_core::protocols::http::v1::client::HttpSession;
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use pingora_core::{BError, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::time::timeout;

use super::Target;
use crate::wire::{Flush, Wire};

/// How long a pooled connection may be idle. uvicorn, in front of vLLM and SGLang, closes after 5 s.
const IDLE: Duration = Duration::from_secs(4);

/// A connection to an engine with a request on it. Dropping it closes the connection.
pub struct Call {
    session: HttpSession,
    pool: u64,
    // what `read_ready` met; Pingora's session would take the broken body for a whole one when asked again
    failed: Option<Broken>,
    /// Whether the connection came from the pool.
    pub reused: bool,
    // what the engine had sent before this request
    before: u64,
}

/// What there is to read without waiting.
#[derive(Debug)]
pub enum Ready<'a> {
    /// A piece of the answer's body.
    Piece(&'a [u8]),
    /// The body's end.
    End,
    /// Nothing, or a break.
    NotYet,
}

/// What broke between Greylag and an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// There is no connection to be had.
    Unreachable(String),
    /// The engine closed the connection before its answer was whole.
    Closed,
    /// The engine reset the connection.
    Reset,
    /// What came is no HTTP answer.
    Garbage,
}

impl Call {
    /// A connection to `target`: one from the pool, unless `fresh`; else to the first of its addresses that answers,
    /// within `limit` each. Cancel-safe.
    ///
    /// # Errors
    /// [`Broken::Unreachable`] with the last address's error.
    pub async fn open(
        pool: &TransportConnector,
        target: &Target,
        limit: Duration,
        fresh: bool,
    ) -> Result<Call, Broken> {
        let unreachable = |what: String| {
            Broken::Unreachable(format!(
                "{} ({}): {what}",
                target.name,
                target.address.authority()
            ))
        };
        let peers = match timeout(limit, target.peers()).await {
            Ok(Ok(peers)) => peers,
            Ok(Err(error)) => return Err(unreachable(format!("name not resolved: {error}"))),
            Err(_) => return Err(unreachable("name not resolved in time".into())),
        };
        let mut last = String::from("no address");
        for peer in peers.iter() {
            if !fresh && let Some(stream) = pool.reused_stream(peer).await {
                return Ok(Call::on(stream, peer, true));
            }
            match timeout(limit, pool.new_stream(peer)).await {
                Ok(Ok(stream)) => {
                    let wire = Box::new(Wire::new(stream, Flush::BeforeReading));
                    return Ok(Call::on(wire, peer, false));
                }
                Ok(Err(error)) => last = connect_error(&error),
                Err(_) => {
                    last = format!("no connection within {}", humantime::format_duration(limit))
                }
            }
        }
        // Its addresses may have changed: the next exchange does not wait for this to be found out.
        let _ = timeout(limit, target.resolve()).await;
        Err(unreachable(last))
    }

    fn on(stream: pingora_core::protocols::Stream, peer: &HttpPeer, reused: bool) -> Self {
        let session = HttpSession::new(stream);
        Call {
            before: received(&session),
            session,
            pool: peer.reuse_hash(),
            failed: None,
            reused,
        }
    }

    /// Whether the connection had gone stale in the pool, as far as can be told: nothing has come on it since.
    pub fn is_stale(&self) -> bool {
        self.reused && received(&self.session) == self.before
    }

    /// Writes the request's head.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn write_head(&mut self, head: Box<RequestHeader>) -> Result<(), Broken> {
        let written = self.session.write_request_header(head).await;
        written.map(|_| ()).map_err(|error| broken(&error))
    }

    /// Writes a piece of the request's body.
    ///
    /// # Errors
    /// The connection broke, or the engine has begun to answer without waiting for the rest.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), Broken> {
        // An empty chunk would end a chunked body.
        if piece.is_empty() {
            return Ok(());
        }
        let written = self.session.write_body(piece).await;
        written.map(|_| ()).map_err(|error| broken(&error))
    }

    /// Ends the request's body.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn finish(&mut self) -> Result<(), Broken> {
        let finished = self.session.finish_body().await;
        finished.map(|_| ()).map_err(|error| broken(&error))
    }

    /// Reads the answer's next head: interim ones (1xx) come first, the last one is the answer's. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read_head(&mut self) -> Result<(), Broken> {
        if let Err(error) = self.session.read_response().await {
            return Err(broken(&error));
        }
        if is_coded(self.head()) {
            return Err(Broken::Garbage);
        }
        Ok(())
    }

    /// The head that was read last.
    ///
    /// # Panics
    /// When none was.
    pub fn head(&self) -> &ResponseHeader {
        self.session
            .resp_header()
            .expect("a head was read before it is looked at")
    }

    /// The next piece of the answer's body, or nothing at its end. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read(&mut self) -> Result<Option<&[u8]>, Broken> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.session
            .read_body_ref()
            .await
            .map_err(|error| broken(&error))
    }

    /// The next piece of the answer's body if it is here already. A break is kept for the next `read`, so that what
    /// came before it can be passed on first.
    pub fn read_ready(&mut self) -> Ready<'_> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = pin!(self.session.read_body_ref());
        match read.as_mut().poll(&mut cx) {
            Poll::Pending => Ready::NotYet,
            Poll::Ready(Ok(Some(piece))) => Ready::Piece(piece),
            Poll::Ready(Ok(None)) => Ready::End,
            Poll::Ready(Err(error)) => {
                self.failed = Some(broken(&error));
                Ready::NotYet
            }
        }
    }

    /// Gives the connection back, after a complete answer to a completely written request.
    pub async fn release(mut self, pool: &TransportConnector) {
        self.session.respect_keepalive();
        let key = self.pool;
        if let Some(stream) = self.session.reuse().await {
            pool.release_stream(stream, key, Some(IDLE));
        }
    }
}

// Every connection of the pool is a `Wire`.
fn received(session: &HttpSession) -> u64 {
    let wire = session.stream().as_any().downcast_ref::<Wire>();
    wire.map_or(0, Wire::received)
}

// Whether the body has a transfer coding beside `chunked`, which Pingora would pass on as if it had none.
fn is_coded(head: &ResponseHeader) -> bool {
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(|first| !is_chunked(first)) || codings.next().is_some()
}

fn connect_error(error: &BError) -> String {
    match error.etype() {
        ErrorType::ConnectRefused => "connection refused".into(),
        ErrorType::ConnectNoRoute => "no route".into(),
        ErrorType::ConnectTimedout => "connection timed out".into(),
        other => match io_cause(error) {
            Some(cause) => cause.to_string(),
            None => other.as_str().to_owned(),
        },
    }
}

fn broken(error: &BError) -> Broken {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    match error.etype() {
        ErrorType::ConnectionClosed => Broken::Closed,
        ErrorType::ReadError | ErrorType::WriteError => match io_cause(error).map(|e| e.kind()) {
            Some(ConnectionReset | ConnectionAborted) => Broken::Reset,
            Some(BrokenPipe | NotConnected) => Broken::Closed,
            Some(_) => Broken::Reset,
            None => Broken::Garbage,
        },
        _ => Broken::Garbage,
    }
}

fn io_cause(error: &BError) -> Option<&std::io::Error> {
    error.root_cause().downcast_ref::<std::io::Error>()
}
