//! Where an engine listens, and what it speaks there.
//!
//! In: a listener. Out: connections, each a task that ends with its door. Never reads a request itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::carrier::Http1;
use crate::engine::Shared;
use crate::exchange::{Next, exchange};
use crate::http2;
use crate::order::How;
use crate::script::{self, Script, Stop};
use crate::seen::Open;
use crate::sigterm::Sigterm;
use crate::socket::Socket;
use crate::tls::Tls;
use crate::wire::Wire;

/// What an engine speaks at one of its addresses. The default is HTTP/1.1, without TLS.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// The protocol.
    pub speaks: Speaks,
    /// With what TLS; `None`: in the clear.
    pub tls: Option<Tls>,
}

/// A protocol.
#[derive(Clone, Debug, Default)]
pub enum Speaks {
    /// HTTP/1.0 and 1.1.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2(Windows),
    /// This script, from a connection's first byte on; what the client sends is not looked at.
    Bytes(Script),
}

/// What an engine allows its clients on a connection of HTTP/2. The defaults are those of RFC 9113, without a bound on
/// streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Bytes of a body that may be under way before the engine reads it, for each stream; 0: none ever.
    pub stream: u32,
    /// The same for all streams of a connection together; at least 65,535.
    pub connection: u32,
    /// Streams open at once; `None`: any number.
    pub streams: Option<u32>,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows {
            stream: 65_535,
            connection: 65_535,
            streams: None,
        }
    }
}

impl Door {
    /// A door that speaks HTTP/2 with prior knowledge, in the default windows.
    pub fn http2() -> Door {
        Door {
            speaks: Speaks::Http2(Windows::default()),
            tls: None,
        }
    }

    /// The same door behind TLS.
    #[must_use]
    pub fn with(self, tls: Tls) -> Door {
        Door {
            tls: Some(tls),
            ..self
        }
    }
}

/// A listener of any kind.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => Ok(listener.accept().await?.0.into()),
            Listener::Unix(listener) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

/// Serves a listener until `stop` is set or gone.
pub(crate) async fn serve(
    listener: Listener,
    door: Door,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    let door = Arc::new(door);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // Set, or dropped with the engine: both mean stop.
            _ = stop.changed() => break,
            accepted = listener.accept() => match accepted {
                // A connection that comes now is accepted by the kernel and ended by the engine.
                Ok(socket) if *shared.sigterm.borrow() == Some(Sigterm::Resets) => socket.reset_when_closed(),
                Ok(socket) => drop(connections.spawn(connection(socket, door.clone(), shared.clone()))),
                // Out of file descriptors: some will be free soon.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn connection(socket: Socket, door: Arc<Door>, shared: Arc<Shared>) {
    let mut open = shared.ledger.connected();
    let mut socket = socket;
    if let Some(tls) = &door.tls {
        let Ok((inner, handshake)) = tls.accept(socket).await else {
            shared.ledger.refused();
            return;
        };
        socket = inner;
        open.handshake = Some(Arc::new(handshake));
    }
    match &door.speaks {
        Speaks::Http1 => http1(Http1::new(Wire::new(socket)), &shared, &open).await,
        Speaks::Http2(windows) => http2::serve(socket, *windows, &shared, &open).await,
        Speaks::Bytes(script) => bytes(Wire::new(socket), script).await,
    }
}

async fn http1(mut http: Http1, shared: &Shared, open: &Open) {
    // As in uvicorn, a connection that has not been used yet may wait as long as it likes.
    let mut used = false;
    loop {
        if http.wire.inbox.is_empty() {
            let idle = shared.settings.borrow().keep_alive_timeout.filter(|_| used);
            let first = match idle {
                Some(idle) => timeout(idle, http.wire.fill()).await,
                None => Ok(http.wire.fill().await),
            };
            if !matches!(first, Ok(Ok(()))) {
                break;
            }
        }
        used = true;
        match exchange(&mut http, shared, open).await {
            Next::Again => {}
            Next::Gone | Next::Close => break,
            Next::Reset => return http.wire.reset().await,
        }
    }
    http.wire.close().await;
}

async fn bytes(mut wire: Wire, script: &Script) {
    match script::play(script, &mut wire).await {
        Ok(()) | Err(Stop::Gone | Stop::Ended(How::Fin)) => wire.close().await,
        Err(Stop::Ended(How::Rst)) => wire.reset().await,
    }
}
