//! Takes connections off a bound socket.
//!
//! In: a socket of TCP or of unix. Out: its connections, one by one. A shortage of the system's holds them up and is told
//! of; nothing ends it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

use super::{Manner, Raw, Removed, Socketed};
use crate::socket::{Socket, tune};

/// A socket that connections are taken off.
#[derive(Debug)]
pub struct Listens {
    /// How they are spoken on.
    pub manner: Manner,
    kind: Kind,
    _path: Option<Arc<Removed>>,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socketed {
    /// Listens; to be called inside a runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(self) -> io::Result<Listens> {
        Ok(Listens {
            kind: match self.socket {
                Raw::Tcp(listener) => Kind::Tcp(TcpListener::from_std(listener)?),
                Raw::Unix(listener) => Kind::Unix(UnixListener::from_std(listener)?),
            },
            manner: self.manner,
            _path: self._path,
        })
    }
}

impl Listens {
    /// The next connection.
    pub async fn next(&self) -> Socket {
        // How long to wait when no more files may be open: connections that end give theirs back.
        const PAUSE: Duration = Duration::from_millis(100);
        loop {
            match self.accept().await {
                Ok(socket) => return socket,
                Err(error) if error.raw_os_error().is_some_and(is_shortage) => {
                    tracing::error!(name: "greylag.listener.accept_failed", %error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
                // The connection was gone before it was accepted.
                Err(error) => tracing::debug!(%error, "a connection was lost"),
            }
        }
    }

    async fn accept(&self) -> io::Result<Socket> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // A client that has left already cannot be tuned, and is found gone at the first read.
                let _ = tune(&stream);
                Ok(Socket::Tcp(stream))
            }
            Kind::Unix(listener) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

fn is_shortage(code: i32) -> bool {
    use nix::libc::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
    [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(&code)
}
