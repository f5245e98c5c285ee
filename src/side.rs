//! Connections beside the traffic: so many and no more, and none that is silent for long.
//!
//! In: a bound socket, of TCP, of TLS or of unix. Out: a listener for the admin API and for metrics and health. Whoever opens connections there
//! and says nothing takes seats from others who ask there, but no files and no memory from the traffic.

mod seated;
mod stream;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::sync::Semaphore;

use crate::listen::{Listens, Seats, Socketed};
use crate::relay::Shared;
use crate::socket::Socket;
use crate::store::file::RulesFile;
pub use seated::Seated;
use stream::{Stream, shake};

/// How long a connection may neither bring nor take a byte: longer than scrapers pause.
const PATIENCE: Duration = Duration::from_secs(150);

/// So many may follow events at a time.
pub const FOLLOWERS: usize = 64;

/// So many change rules at a time; the next ones wait.
pub const CHANGERS: usize = 4;

/// What those who are asked here look at.
#[derive(Debug, Clone)]
pub struct Sides {
    /// What all exchanges share.
    pub shared: Arc<Shared>,
    /// The seats of clients' connections.
    pub seats: Arc<Seats>,
    /// Whether the listeners accept and no end has begun.
    pub ready: Arc<AtomicBool>,
    /// The turns of those who change rules.
    pub changers: Arc<Semaphore>,
    /// The places of those who follow events.
    pub followers: Arc<Semaphore>,
    /// The configuration file, if there is one.
    pub file: Option<Arc<RulesFile>>,
}

impl Sides {
    /// Whether the listeners accept and no drain has begun.
    pub fn is_ready(&self) -> bool {
        let is_draining = self.shared.draining.load(Ordering::Acquire);
        self.ready.load(Ordering::Acquire) && !is_draining
    }
}

/// A listener with a bound number of connections; the next ones wait in the system's queue.
#[derive(Debug)]
pub struct Side {
    listens: Listens,
    seats: Arc<Semaphore>,
    patience: Duration,
}

impl Side {
    /// Listens on a bound socket, for so many connections at a time; to be called inside a runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn on(socket: Socketed, seats: usize) -> io::Result<Side> {
        Side::bounded(socket, seats, PATIENCE)
    }

    fn bounded(socket: Socketed, seats: usize, patience: Duration) -> io::Result<Side> {
        Ok(Side {
            listens: socket.listen()?,
            seats: Arc::new(Semaphore::new(seats)),
            patience,
        })
    }

    fn open(&self, socket: Socket) -> io::Result<(Stream, Peer)> {
        Ok(match (socket, &self.listens.manner.tls) {
            (Socket::Tcp(stream), Some(tls)) => {
                let peer = Peer::Ip(stream.peer_addr()?);
                (
                    Stream::Shaking(Box::pin(shake(stream, peer, tls.clone()))),
                    peer,
                )
            }
            (Socket::Tcp(stream), None) => {
                let peer = Peer::Ip(stream.peer_addr()?);
                (Stream::Open(Socket::Tcp(stream)), peer)
            }
            (Socket::Unix(stream), _) => {
                let user = stream.peer_cred()?.uid();
                (Stream::Open(Socket::Unix(stream)), Peer::Unix { user })
            }
            // What is accepted has not shaken hands.
            (Socket::Tls(_), _) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }
}

impl Listener for Side {
    type Io = Seated;
    type Addr = Peer;

    async fn accept(&mut self) -> (Seated, Peer) {
        let seat = self.seats.clone().acquire_owned().await;
        let seat = seat.expect("the seats are never closed");
        loop {
            match self.open(self.listens.next().await) {
                Ok((stream, peer)) => {
                    return (Seated::new(stream, self.patience, seat), peer);
                }
                // It has left already.
                Err(error) => tracing::debug!(%error, "a connection was lost"),
            }
        }
    }

    // A unix socket has none, and nobody asks for it.
    fn local_addr(&self) -> io::Result<Peer> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An address.
    Ip(SocketAddr),
    /// A process on this machine, over a unix socket.
    Unix {
        /// The user that it runs as, as the kernel says.
        user: u32,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Ip(address) => write!(f, "{address}"),
            Peer::Unix { .. } => f.write_str("unix"),
        }
    }
}

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Who is at its other end.
    pub peer: Peer,
    busy: Arc<AtomicUsize>,
}

impl Connection {
    /// While this is held, the connection may be silent.
    pub fn busy(&self) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.busy.clone())
    }
}

impl Connected<IncomingStream<'_, Side>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Side>) -> Connection {
        Connection {
            peer: *stream.remote_addr(),
            busy: stream.io().busy(),
        }
    }
}

/// An answer that takes its time.
#[derive(Debug)]
pub struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::ConnectInfo;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::sleep;

    use super::*;
    use crate::listen;

    // A server with one seat; `/slow` is busy for four times the patience.
    fn serve(patience: Duration) -> SocketAddr {
        let mut bound = listen::bind_alone("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address.unwrap();
        let side = Side::bounded(bound.take().unwrap(), 1, patience).unwrap();
        let slow = async move |ConnectInfo(connection): ConnectInfo<Connection>| {
            let _busy = connection.busy();
            sleep(patience * 4).await;
            "done"
        };
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/slow", get(slow));
        let service = router.into_make_service_with_connect_info::<Connection>();
        tokio::spawn(async move { axum::serve(side, service).await });
        address
    }

    async fn ask(stream: &mut TcpStream, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn whoever_is_silent_loses_the_seat_to_the_next() {
        let address = serve(Duration::from_millis(50));
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut next = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut next, "/").await.ends_with("here"));
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn whoever_waits_for_an_answer_may_be_silent() {
        let address = serve(Duration::from_millis(20));
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut stream, "/slow").await.ends_with("done"));
    }

    #[tokio::test]
    async fn a_seat_is_given_back_at_the_end() {
        let address = serve(Duration::from_secs(60));
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(ask(&mut stream, "/").await.ends_with("here"));
        }
    }
}
