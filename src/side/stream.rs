//! A connection on which hands may still have to be shaken.
//!
//! In: what was accepted. Out: a connection that can be read and written, or none. Who speaks without TLS where it is spoken is
//! told so.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Peer;
use crate::socket::Socket;
use crate::tls::{self, Shaken};

/// How long a TLS handshake may take.
const SHAKE: Duration = Duration::from_secs(10);

/// A connection, once hands are shaken.
// The listener goes on while hands are shaken, which whoever reads first does.
pub(super) enum Stream {
    Shaking(Pin<Box<dyn Future<Output = io::Result<Socket>> + Send>>),
    Open(Socket),
    Failed,
}

impl Stream {
    pub(super) fn poll_open(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Pin<&mut Socket>>> {
        if let Stream::Shaking(shaking) = self {
            *self = match ready!(shaking.as_mut().poll(context)) {
                Ok(socket) => Stream::Open(socket),
                Err(error) => {
                    *self = Stream::Failed;
                    return Poll::Ready(Err(error));
                }
            };
        }
        Poll::Ready(match self {
            Stream::Open(socket) => Ok(Pin::new(socket)),
            Stream::Shaking(_) | Stream::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stream::Shaking(_) => "Shaking",
            Stream::Open(_) => "Open",
            Stream::Failed => "Failed",
        })
    }
}

/// Shakes hands, or says why not.
pub(super) async fn shake(
    stream: TcpStream,
    peer: Peer,
    tls: Arc<tls::Server>,
) -> io::Result<Socket> {
    const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 39\r\nconnection: close\r\n\r\nTLS is spoken here, and this is without";
    let error = match timeout(SHAKE, tls::accept(stream, &tls)).await {
        Ok(Ok((socket, _))) => return Ok(socket),
        Ok(Err(Shaken::Plain(mut stream))) => {
            // What was sent is taken first: closing on it would take the answer away.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(PLAIN).await;
            "it came without TLS".to_owned()
        }
        Ok(Err(Shaken::Failed(why))) => why,
        Err(_) => "it took too long".to_owned(),
    };
    tracing::warn!(name: "greylag.admin.tls_handshake", %peer, error, "a TLS handshake with the admin API failed");
    Err(io::ErrorKind::InvalidData.into())
}
