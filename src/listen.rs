//! Listeners.
//!
//! In: addresses. Out: connections, each handed to the [`Door`]. Listeners are bound before anything starts, so that a
//! port in use is an error with its address and not a panic in a task.

mod accept;
mod door;
mod h2;
mod preface;
mod proxy;
mod seats;

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net as unix;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::{Domain, Type};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{Admin, Listener, ListenerTls, Place, Protocol};
use crate::tls;

pub use accept::Listens;
pub use door::Door;
pub use seats::Seats;

/// A bound address, with one socket for each worker.
#[derive(Debug)]
pub struct Bound {
    /// The address, with the port that the system chose if it was asked to; a unix socket has none.
    pub address: Option<SocketAddr>,
    manner: Manner,
    sockets: Vec<Raw>,
    // removed when nobody listens any more
    path: Option<Arc<Removed>>,
}

/// How connections of an address are spoken on.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// What is spoken.
    pub protocol: Protocol,
    /// What hands are shaken with, where TLS is spoken.
    pub tls: Option<Arc<tls::Server>>,
    /// Whether a header of the PROXY protocol comes first.
    pub proxy_protocol: bool,
}

#[derive(Debug)]
enum Raw {
    Tcp(std::net::TcpListener),
    Unix(unix::UnixListener),
}

/// Binds a listener for so many workers; several share a port by `SO_REUSEPORT`.
///
/// # Errors
/// The system's, with the address; what is wrong with the files of `tls`.
pub fn bind(listener: &Listener, workers: usize) -> io::Result<Bound> {
    let manner = Manner {
        protocol: listener.protocol,
        tls: shakes(listener.tls.as_ref(), &[tls::H2, tls::HTTP1])?,
        proxy_protocol: listener.proxy_protocol,
    };
    bind_place(&listener.address, listener.mode(), manner, workers)
}

/// Binds the admin API's listener.
///
/// # Errors
/// The system's, with the address; what is wrong with the files of `tls`.
pub fn bind_admin(admin: &Admin) -> io::Result<Bound> {
    let manner = Manner {
        tls: shakes(admin.tls.as_ref(), &[tls::HTTP1])?,
        ..Manner::default()
    };
    bind_place(&admin.address, admin.mode(), manner, 1)
}

/// Binds a port where HTTP/1 is spoken by one thread.
///
/// # Errors
/// The system's, with the address.
pub fn bind_alone(address: SocketAddr) -> io::Result<Bound> {
    bind_port(address, Manner::default(), 1)
}

fn shakes(
    rule: Option<&ListenerTls>,
    alpn: &'static [&'static [u8]],
) -> io::Result<Option<Arc<tls::Server>>> {
    let made = rule.map(|rule| tls::Server::new(rule, alpn)).transpose();
    let made = made.map_err(|fault| io::Error::other(fault.to_string()))?;
    Ok(made.map(Arc::new))
}

fn bind_place(place: &Place, mode: u32, manner: Manner, workers: usize) -> io::Result<Bound> {
    match place {
        Place::Ip(address) => bind_port(*address, manner, workers),
        Place::Unix(path) => bind_path(path, mode, manner, workers),
    }
}

fn named(error: &io::Error, address: impl std::fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
}

fn bind_port(address: SocketAddr, manner: Manner, workers: usize) -> io::Result<Bound> {
    let named = |error: io::Error| named(&error, address);
    let first = bind_one(address, workers > 1).map_err(named)?;
    let address = first.local_addr()?;
    let mut sockets = vec![Raw::Tcp(first)];
    for _ in 1..workers {
        sockets.push(Raw::Tcp(bind_one(address, true).map_err(named)?));
    }
    Ok(Bound {
        address: Some(address),
        manner,
        sockets,
        path: None,
    })
}

fn bind_one(address: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(socket2::Protocol::TCP),
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

fn bind_path(path: &Path, mode: u32, manner: Manner, workers: usize) -> io::Result<Bound> {
    let named = |error: io::Error| named(&error, path.display());
    // What a process that was killed left behind is nobody's; what somebody listens on is kept.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refuses = || {
        let tried = unix::UnixStream::connect(path);
        tried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if is_socket && refuses() {
        fs::remove_file(path).map_err(named)?;
    }
    let first = unix::UnixListener::bind(path).map_err(named)?;
    let removed = Arc::new(Removed(path.to_owned()));
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(named)?;
    first.set_nonblocking(true)?;
    let mut sockets = Vec::new();
    for _ in 1..workers {
        sockets.push(Raw::Unix(first.try_clone().map_err(named)?));
    }
    sockets.push(Raw::Unix(first));
    Ok(Bound {
        address: None,
        manner,
        sockets,
        path: Some(removed),
    })
}

#[derive(Debug)]
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = fs::remove_file(&self.0);
    }
}

impl Bound {
    /// One worker's socket of this address.
    pub fn take(&mut self) -> Option<Socketed> {
        Some(Socketed {
            socket: self.sockets.pop()?,
            manner: self.manner.clone(),
            _path: self.path.clone(),
        })
    }
}

/// One worker's socket of one address.
#[derive(Debug)]
pub struct Socketed {
    socket: Raw,
    manner: Manner,
    _path: Option<Arc<Removed>>,
}

/// Accepts and serves on these sockets until `stop` says true; connections then go on as tasks of their own.
pub async fn serve(door: Door, sockets: Vec<Socketed>, stop: watch::Receiver<bool>) {
    let door = Arc::new(door);
    let mut listeners = JoinSet::new();
    for socketed in sockets {
        listeners.spawn(accept(door.clone(), socketed, stop.clone()));
    }
    while listeners.join_next().await.is_some() {}
}

async fn accept(door: Arc<Door>, socketed: Socketed, mut stop: watch::Receiver<bool>) {
    let listens = match socketed.listen() {
        Ok(listens) => listens,
        Err(error) => {
            return tracing::error!(name: "greylag.listener.accept_failed", %error, "cannot accept connections");
        }
    };
    loop {
        let socket = tokio::select! {
            biased;
            _ = stop.wait_for(|stopping| *stopping) => return,
            socket = listens.next() => socket,
        };
        let manner = listens.manner.clone();
        tokio::spawn(door.clone().enter(socket, manner, stop.clone()));
    }
}
