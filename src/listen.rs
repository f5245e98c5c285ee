//! Listeners.
//!
//! In: addresses. Out: connections, each handed to the [`Door`]. Listeners are bound before anything starts, so that a
//! port in use is an error with its address and not a panic in a task.

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
use std::time::Duration;

use socket2::{Domain, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{Listener, Place, Protocol};
use crate::socket::{Socket, tune};
use crate::tls;

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
#[derive(Debug, Clone)]
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
    let tls = match &listener.tls {
        None => None,
        Some(rule) => Some(Arc::new(
            tls::Server::new(rule).map_err(|fault| io::Error::other(fault.to_string()))?,
        )),
    };
    let manner = Manner {
        protocol: listener.protocol,
        tls,
        proxy_protocol: listener.proxy_protocol,
    };
    match &listener.address {
        Place::Ip(address) => bind_port(*address, manner, workers),
        Place::Unix(path) => bind_path(path, listener.mode(), manner, workers),
    }
}

/// Binds a port for one server that accepts by itself.
///
/// # Errors
/// The system's, with the address.
pub fn bind_alone(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    bind_one(address, false).map_err(|error| named(&error, address))
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

enum Listens {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listens {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Listens::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // A client that has left already cannot be tuned, and is found gone at the first read.
                let _ = tune(&stream);
                Ok(Socket::Tcp(stream))
            }
            Listens::Unix(listener) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

async fn accept(door: Arc<Door>, socketed: Socketed, mut stop: watch::Receiver<bool>) {
    // How long to wait when no more files may be open: connections that end give theirs back.
    const PAUSE: Duration = Duration::from_millis(100);
    let listens = match socketed.socket {
        Raw::Tcp(listener) => TcpListener::from_std(listener).map(Listens::Tcp),
        Raw::Unix(listener) => UnixListener::from_std(listener).map(Listens::Unix),
    };
    let listens = match listens {
        Ok(listens) => listens,
        Err(error) => {
            return tracing::error!(name: "greylag.listener.accept_failed", %error, "cannot accept connections");
        }
    };
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stopping| *stopping) => return,
            accepted = listens.accept() => accepted,
        };
        match accepted {
            Ok(socket) => {
                tokio::spawn(
                    door.clone()
                        .enter(socket, socketed.manner.clone(), stop.clone()),
                );
            }
            Err(error) if error.raw_os_error().is_some_and(is_shortage) => {
                tracing::error!(name: "greylag.listener.accept_failed", %error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
            // The connection was gone before it was accepted.
            Err(error) => tracing::debug!(%error, "a connection was lost"),
        }
    }
}

fn is_shortage(code: i32) -> bool {
    use nix::libc::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
    [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(&code)
}
