//! Connections beside the traffic: so many and no more, and none that is silent for long.
//!
//! In: a bound socket. Out: a listener for the admin API and for metrics and health. Whoever opens connections there
//! and says nothing takes seats from others who ask there, but no files and no memory from the traffic.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use crate::listen::Seats;
use crate::relay::Shared;
use crate::store::file::RulesFile;

/// Connections of one listener at a time; the next ones wait in the system's queue.
const SEATS: usize = 128;
/// How long a connection may neither bring nor take a byte: longer than scrapers pause.
const PATIENCE: Duration = Duration::from_secs(150);

/// So many may follow events at a time.
pub const FOLLOWERS: usize = 64;

/// What those who are asked here look at.
#[derive(Debug, Clone)]
pub struct Sides {
    /// What all exchanges share.
    pub shared: Arc<Shared>,
    /// The seats of clients' connections.
    pub seats: Arc<Seats>,
    /// Whether the listeners accept and no drain has begun.
    pub ready: Arc<AtomicBool>,
    /// The places of those who follow events.
    pub followers: Arc<Semaphore>,
    /// The configuration file, if there is one.
    pub file: Option<Arc<RulesFile>>,
}

/// A listener with a bound number of connections.
#[derive(Debug)]
pub struct Side {
    listener: tokio::net::TcpListener,
    seats: Arc<Semaphore>,
    patience: Duration,
}

impl Side {
    /// Listens on a bound socket; to be called inside a runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn on(socket: TcpListener) -> io::Result<Side> {
        Side::bounded(socket, SEATS, PATIENCE)
    }

    fn bounded(socket: TcpListener, seats: usize, patience: Duration) -> io::Result<Side> {
        Ok(Side {
            listener: tokio::net::TcpListener::from_std(socket)?,
            seats: Arc::new(Semaphore::new(seats)),
            patience,
        })
    }
}

impl Listener for Side {
    type Io = Seated;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Seated, SocketAddr) {
        let seat = self.seats.clone().acquire_owned().await;
        let seat = seat.expect("the seats are never closed");
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        // What is written here is small and waited for; without the option it is late, not wrong.
        let _ = stream.set_nodelay(true);
        let seated = Seated {
            stream,
            silence: Box::pin(sleep(self.patience)),
            patience: self.patience,
            _seat: seat,
        };
        (seated, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Side>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Side>) -> Peer {
        Peer(*stream.remote_addr())
    }
}

/// A connection with a seat, which it gives back when it is dropped.
#[derive(Debug)]
pub struct Seated {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    patience: Duration,
    _seat: OwnedSemaphorePermit,
}

impl Seated {
    // What has moved begins the silence anew; what has not must not wait longer than it lasts.
    fn heard<T>(
        &mut self,
        moved: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.silence.set(sleep(self.patience));
            return moved;
        }
        match self.silence.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        self.heard(read, context)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.heard(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.heard(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    // A server with one seat.
    fn serve(patience: Duration) -> SocketAddr {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let side = Side::bounded(socket, 1, patience).unwrap();
        let router = Router::new().route("/", get(async || "here"));
        tokio::spawn(async move { axum::serve(side, router).await });
        address
    }

    async fn ask(stream: &mut TcpStream) -> String {
        let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn whoever_is_silent_loses_the_seat_to_the_next() {
        let address = serve(Duration::from_millis(50));
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut next = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut next).await.ends_with("here"));
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_seat_is_given_back_at_the_end() {
        let address = serve(Duration::from_secs(60));
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(ask(&mut stream).await.ends_with("here"));
        }
    }
}
