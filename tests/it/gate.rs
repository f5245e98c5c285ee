//! An engine whose streams go on when the test says so.
//!
//! In: requests with a length. Out: the head and the first event of a stream at once, the rest when the gate opens.
//! Requests whose path begins with `/quick` are answered at once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The events before the gate.
pub const FIRST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"},\"finish_reason\":null}]}\n\n";
/// The events after it.
pub const REST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A running engine; it ends when it is dropped.
pub struct Gated {
    address: SocketAddr,
    open: watch::Sender<bool>,
    _connections: JoinSet<()>,
}

impl Gated {
    /// Starts one with its gate closed.
    pub async fn start() -> Gated {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, gate) = watch::channel(false);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut inner = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                inner.spawn(serve(socket, gate.clone()));
            }
        });
        Gated {
            address,
            open,
            _connections: connections,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets all streams go on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn serve(mut socket: TcpStream, mut gate: watch::Receiver<bool>) {
    let mut held = Vec::new();
    while let Some(path) = request(&mut socket, &mut held).await {
        if path.starts_with("/quick") {
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nquick";
            if socket.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            continue;
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let first = format!("{head}{:x}\r\n{FIRST}\r\n", FIRST.len());
        if socket.write_all(first.as_bytes()).await.is_err() {
            return;
        }
        let opened = tokio::select! {
            opened = gate.wait_for(|open| *open) => opened.is_ok(),
            // Whatever a client sends in the meantime, it does not send it well.
            _ = socket.read_u8() => false,
        };
        let rest = format!("{:x}\r\n{REST}\r\n0\r\n\r\n", REST.len());
        if !opened || socket.write_all(rest.as_bytes()).await.is_err() {
            return;
        }
    }
}

// Reads one request and returns its path; none at the connection's end.
async fn request(socket: &mut TcpStream, held: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&held[..end]).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            while held.len() < end + 4 + length {
                if socket.read_buf(held).await.ok()? == 0 {
                    return None;
                }
            }
            held.drain(..end + 4 + length);
            return Some(head.split(' ').nth(1)?.to_owned());
        }
        if socket.read_buf(held).await.ok()? == 0 {
            return None;
        }
    }
}
