//! Listeners, connections and the end of both.
//!
//! In: addresses. Out: for each connection a loop of exchanges. Listeners are bound before anything starts, so that a
//! port in use is an error with its address and not a panic in a task. Connections are counted; past the limit they are
//! answered 503 and closed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::relay::client::{Client, NoHead};
use crate::relay::cut::Registry;
use crate::relay::{self, Worker};
use crate::reply::{Reason, Refusal};
use crate::upstream::link;

/// A bound address, with one socket for each worker.
#[derive(Debug)]
pub struct Bound {
    /// The address, with the port that the system chose if it was asked to.
    pub address: SocketAddr,
    sockets: Vec<std::net::TcpListener>,
}

/// Binds an address for so many workers; several share the port by `SO_REUSEPORT`.
///
/// # Errors
/// The system's, with the address.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Bound> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    };
    let first = bind_one(address, workers > 1).map_err(named)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(bind_one(address, true).map_err(named)?);
    }
    Ok(Bound { address, sockets })
}

fn bind_one(address: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

impl Bound {
    /// One worker's socket of this address.
    pub fn take(&mut self) -> Option<Socketed> {
        let socket = self.sockets.pop()?;
        Some(Socketed {
            address: self.address,
            socket,
        })
    }

    /// A socket of this address for a server other than Pingora's.
    pub fn take_listener(&mut self) -> Option<std::net::TcpListener> {
        self.sockets.pop()
    }
}

/// One worker's socket of one address.
#[derive(Debug)]
pub struct Socketed {
    address: SocketAddr,
    socket: std::net::TcpListener,
}

/// Accepts and serves on these sockets until `stop` says true; connections then go on as tasks of their own.
pub async fn serve(door: Door, sockets: Vec<Socketed>, stop: watch::Receiver<bool>) {
    let door = Arc::new(door);
    let mut listeners = JoinSet::new();
    for Socketed { address, socket } in sockets {
        match TcpListener::from_std(socket) {
            Ok(listener) => {
                listeners.spawn(accept(door.clone(), listener, address, stop.clone()));
            }
            Err(error) => tracing::error!(%address, %error, "cannot accept connections"),
        }
    }
    while listeners.join_next().await.is_some() {}
}

async fn accept(
    door: Arc<Door>,
    listener: TcpListener,
    address: SocketAddr,
    mut stop: watch::Receiver<bool>,
) {
    // How long to wait when no more files may be open: connections that end give theirs back.
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stopping| *stopping) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(door.clone().enter(stream, stop.clone()));
            }
            Err(error) if error.raw_os_error().is_some_and(is_shortage) => {
                tracing::error!(%address, %error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
            // The connection was gone before it was accepted.
            Err(error) => tracing::debug!(%address, %error, "a connection was lost"),
        }
    }
}

fn is_shortage(code: i32) -> bool {
    use nix::libc::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
    [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(&code)
}

/// Seats for connections, shared by all workers.
#[derive(Debug)]
pub struct Seats {
    limit: u64,
    taken: AtomicU64,
}

impl Seats {
    /// So many seats.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Seats {
            limit,
            taken: AtomicU64::new(0),
        })
    }

    /// Seats that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn sit(self: &Arc<Self>) -> Option<Seat> {
        let seated = self.taken.fetch_add(1, Ordering::Relaxed) < self.limit;
        let seat = Seat(self.clone());
        seated.then_some(seat)
    }
}

struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where connections come in: one for each worker.
pub struct Door {
    /// The worker behind it.
    pub worker: Worker,
    /// The seats of all doors.
    pub seats: Arc<Seats>,
    /// Where those wait for their refusal who find no seat; who finds no place here either is closed at once.
    pub turned_away: Arc<Seats>,
    /// Who is told when the drain ends.
    pub registry: Arc<Registry>,
}

// Ends when a connection without a request need not be kept: between two requests nothing is owed, while a first one may
// be on its way, since its connection was accepted.
async fn stopped(stop: &mut watch::Receiver<bool>, is_reused: bool) {
    const FIRST: Duration = Duration::from_secs(1);
    let _ = stop.wait_for(|stopping| *stopping).await;
    if !is_reused {
        tokio::time::sleep(FIRST).await;
    }
}

impl Door {
    async fn enter(self: Arc<Self>, stream: TcpStream, stop: watch::Receiver<bool>) {
        // A client that has left already cannot be tuned, and is found gone at the first read.
        let _ = link::tune(&stream);
        let client = Client::new(stream, self.worker.shared.limits.write.get());
        match self.seats.sit() {
            Some(_seat) => self.serve(client, stop).await,
            None => {
                if let Some(_seat) = self.turned_away.sit() {
                    self.turn_away(client).await;
                }
            }
        }
    }

    async fn serve(&self, mut client: Client, mut stop: watch::Receiver<bool>) {
        let mut cut = self.registry.enter();
        loop {
            let is_reused = client.is_reused();
            let head = tokio::select! {
                biased;
                head = client.read_head() => head,
                () = stopped(&mut stop, is_reused) => return,
                () = cut.come() => return,
            };
            match head {
                Ok(()) => {}
                Err(NoHead::Silence) => return,
                Err(NoHead::Refused(refusal)) => return self.refuse(client, &refusal).await,
            }
            if !relay::carry(&self.worker, &mut client, &mut cut).await {
                return;
            }
            match client.next().await {
                Some(next) => client = next,
                None => return,
            }
        }
    }

    async fn turn_away(&self, client: Client) {
        let message = format!(
            "all {} connections of limits.connections are in use",
            self.seats.limit
        );
        let refusal = Refusal::new(Reason::TooManyConnections, message);
        self.refuse(client, &refusal).await;
    }

    // Answers what never became an exchange.
    async fn refuse(&self, mut client: Client, refusal: &Refusal) {
        self.worker.shared.telemetry.metrics.refused(refusal.reason);
        client.close_after();
        if client.refuse(refusal).await.is_ok() {
            client.linger().await;
        }
    }
}
