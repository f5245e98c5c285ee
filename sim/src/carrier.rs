//! What carries one exchange: a connection of HTTP/1, or a stream of HTTP/2.
//!
//! In: an answer's head and bytes. Out: both on their way, the request's body, and the news that the client has gone.
//! Never waits without watching the client, and never decides what is answered.

use tokio::time::Instant;

use crate::body::{self, Framing, Unread};
use crate::http::{Answer, Ends, reason};
use crate::request::{Head, LONGEST_BODY};
use crate::wire::{Gone, Wire};

/// What an exchange needs of the connection under it.
pub(crate) trait Carrier {
    /// Reads the request's body to its end.
    async fn body(&mut self, head: &Head) -> Result<Vec<u8>, Unread>;

    /// Sends an informational answer.
    async fn interim(&mut self, status: u16) -> Result<(), Gone>;

    /// Takes the answer's head, which leaves with the next write.
    fn head(&mut self, head: &Answer<'_>);

    /// Writes all of `bytes`, framed already, then lets other tasks run.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone>;

    /// Tells the end of the answer.
    async fn finish(&mut self, ends: Ends) -> Result<(), Gone>;

    /// Waits until `due`.
    async fn until(&mut self, due: Instant) -> Result<(), Gone>;

    /// Waits until the client has gone.
    async fn gone(&mut self) -> Gone;

    /// The connection itself, where one exchange has it to itself.
    fn wire(&mut self) -> Option<&mut Wire>;
}

/// A connection of HTTP/1.
pub(crate) struct Http1 {
    pub(crate) wire: Wire,
    head: Vec<u8>,
}

impl Http1 {
    pub(crate) fn new(wire: Wire) -> Http1 {
        Http1 {
            wire,
            head: Vec::new(),
        }
    }
}

impl Carrier for Http1 {
    async fn body(&mut self, head: &Head) -> Result<Vec<u8>, Unread> {
        let framing = head.framing()?;
        if head.expects_continue() && framing != Framing::Length(0) {
            self.wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let mut body = Vec::new();
        let mut sink = |bytes: &[u8]| body.extend_from_slice(bytes);
        body::read(&mut self.wire, framing, LONGEST_BODY, &mut sink).await?;
        Ok(body)
    }

    async fn interim(&mut self, status: u16) -> Result<(), Gone> {
        let reason = reason(status);
        let head = format!("HTTP/1.1 {status} {reason}\r\n{INTERIM}: {LINK}\r\n\r\n");
        self.wire.write(head.as_bytes()).await
    }

    fn head(&mut self, head: &Answer<'_>) {
        self.head = head.head();
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        if self.head.is_empty() {
            return self.wire.write(bytes).await;
        }
        let mut both = std::mem::take(&mut self.head);
        both.extend_from_slice(bytes);
        self.wire.write(&both).await
    }

    async fn finish(&mut self, ends: Ends) -> Result<(), Gone> {
        match ends {
            Ends::Chunked => self.write(b"0\r\n\r\n").await,
            Ends::Length(_) | Ends::Close | Ends::Empty => Ok(()),
        }
    }

    async fn until(&mut self, due: Instant) -> Result<(), Gone> {
        self.wire.until(due).await
    }

    async fn gone(&mut self) -> Gone {
        self.wire.gone().await
    }

    fn wire(&mut self) -> Option<&mut Wire> {
        Some(&mut self.wire)
    }
}

/// The one field of an informational answer.
pub(crate) const INTERIM: &str = "link";
/// What it says.
pub(crate) const LINK: &str = "</engine.css>; rel=preload; as=style";
