//! The client's side of an exchange, in the client's protocol.
//!
//! In: a request that has begun to come, over HTTP/1 or as a stream of HTTP/2. Out: its head and body, the answer's
//! bytes, and the news that the client has left or takes nothing. What is written leaves before anything is waited for;
//! a client that takes nothing is never waited for without a deadline.

pub mod h1;
pub mod h2;
mod inlet;
mod out;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use greylag_filters::refusal::Family;
use http::HeaderMap;
use pingora_http::{RequestHeader, ResponseHeader};

use super::call;
use crate::reply::Refusal;

/// How long a client may take to send a request's head, and how long a connection may be idle between two requests.
pub const HEAD: Duration = Duration::from_secs(60);
/// The longest pause within a request's body.
pub const BODY_PAUSE: Duration = Duration::from_secs(60);

/// A client, with a request.
pub enum Client {
    /// On a connection of its own.
    H1(Box<h1::Client>),
    /// As one stream of a connection.
    H2(Box<h2::Client>),
}

/// How a client was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It closed or reset its connection, or its stream.
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

/// What came instead of a piece of the request's body.
#[derive(Debug)]
pub enum LostBody {
    /// The client is gone.
    Gone(Gone),
    /// It sent something that is no body, or nothing.
    Refused(Refusal),
}

// The same call on whichever client it is.
macro_rules! either {
    ($client:expr, $this:ident => $call:expr) => {
        match $client {
            Client::H1($this) => $call,
            Client::H2($this) => $call,
        }
    };
}

impl Client {
    /// The client's address, where it is known.
    pub fn address(&self) -> Option<IpAddr> {
        either!(self, client => client.address())
    }

    /// The request's head.
    pub fn head(&self) -> &RequestHeader {
        either!(self, client => client.head())
    }

    /// Whether there is no body, or none left to read.
    pub fn is_body_read(&mut self) -> bool {
        either!(self, client => client.is_body_read())
    }

    /// The next piece of the request's body, or nothing at its end. Cancel-safe.
    ///
    /// # Errors
    /// The client is gone, pauses too long, or sends no well-formed body.
    pub async fn read_body(&mut self) -> Result<Option<Bytes>, LostBody> {
        either!(self, client => client.read_body().await)
    }

    /// Sends what was written, as far as the client takes it without being waited for; whether that is all. What goes over
    /// HTTP/2 leaves with its connection.
    ///
    /// # Errors
    /// The client is lost.
    pub async fn send_now(&mut self) -> Result<bool, Gone> {
        match self {
            Client::H1(client) => client.send_now().await,
            Client::H2(_) => Ok(true),
        }
    }

    /// Ends when the client has left. To be called only when the body is read: it would eat a byte of it.
    pub async fn gone(&mut self) -> Gone {
        either!(self, client => client.gone().await)
    }

    /// Ends when the client has left, whether or not its request's body is read. What is left of the body is read and
    /// dropped: it has been answered, and a client that only sends could not read the answer. Cancel-safe.
    pub async fn gone_early(&mut self) -> Gone {
        either!(self, client => client.gone_early().await)
    }

    /// Tells a client that asked (`Expect: 100-continue`) to send its body.
    pub fn invite(&mut self) {
        match self {
            Client::H1(client) => {
                let invitation = ResponseHeader::build(100, Some(0)).expect("100 is a status");
                client.write_interim(&invitation);
            }
            Client::H2(client) => client.invite(),
        }
    }

    /// Writes an interim head (1xx) of an engine's, which HTTP/2 does without.
    pub fn write_interim(&mut self, head: &ResponseHeader) {
        match self {
            Client::H1(client) => client.write_interim(head),
            Client::H2(_) => {}
        }
    }

    /// Writes the answer's head; `is_all`: the engine has ended its answer with it.
    pub fn write_head(&mut self, head: Box<ResponseHeader>, is_all: bool) {
        match self {
            Client::H1(client) => client.write_head(head),
            Client::H2(client) => client.write_head(head, is_all),
        }
    }

    /// Writes a piece of the answer's body. When much has gathered that is waited for. Of an empty piece nothing is
    /// written.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), Gone> {
        either!(self, client => client.write(piece).await)
    }

    /// Ends the answer well; trailers reach those who can have them.
    ///
    /// # Errors
    /// The client is gone, or the answer is shorter than its head says.
    pub async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone> {
        match self {
            Client::H1(client) => client.finish().await,
            Client::H2(client) => client.finish(trailers),
        }
    }

    /// Ends an answer that cannot be finished, so that the client can tell; a gRPC client is told why.
    pub async fn break_off(&mut self, refusal: &Refusal) {
        match self {
            Client::H1(client) => client.break_off().await,
            Client::H2(client) if call::is_grpc(client.head()) => {
                // Who is gone is told nothing.
                let _ = client.finish(Some(refusal.grpc_trailers()));
            }
            Client::H2(client) => client.break_off(),
        }
    }

    /// Whether an answer's head has been written; interim ones do not count.
    pub fn is_answered(&self) -> bool {
        either!(self, client => client.is_answered())
    }

    /// Bytes of the answer's body that were written.
    pub fn answer_bytes(&self) -> u64 {
        either!(self, client => client.answer_bytes())
    }

    /// Bytes of the request's body that were read.
    pub fn request_bytes(&self) -> u64 {
        either!(self, client => client.request_bytes())
    }

    /// Takes no other request on this connection, where the connection is this client's own.
    pub fn close_after(&mut self) {
        match self {
            Client::H1(client) => client.close_after(),
            Client::H2(_) => {}
        }
    }

    /// Answers in Greylag's own name, in the shape that callers of such a route expect; who made a call is answered as that.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse(&mut self, refusal: &Refusal, family: Family) -> Result<(), Gone> {
        if let Client::H1(client) = self {
            client.note_refusal();
        }
        if let Client::H2(client) = self
            && call::is_grpc(client.head())
        {
            client.write_head(refusal.grpc_answer(), true);
            return Ok(());
        }
        let (head, body) = refusal.answer(family);
        self.write_head(head, false);
        self.write(&body).await?;
        self.finish(None).await
    }
}
