//! An engine that the test plays by hand: every byte leaves when the test says so.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::harness::{Asked, Client, within};

/// A listener whose connections are the test's own, but for those on which Greylag asks for the engine's health and models.
pub struct Hand {
    address: SocketAddr,
    accepted: mpsc::UnboundedReceiver<TcpStream>,
    task: JoinHandle<()>,
}

impl Hand {
    /// Listens on a port that the system picks.
    pub async fn start() -> Hand {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (give, accepted) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(sort(socket, give.clone()));
            }
        });
        Hand {
            address,
            accepted,
            task,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes the next connection, once something has come on it.
    pub async fn accept(&mut self) -> Client {
        let accepted = within("a connection", self.accepted.recv()).await;
        Client::on(accepted.expect("the listener runs"))
    }

    /// Takes the next connection and reads a request from it.
    pub async fn request(&mut self) -> (Client, Asked) {
        let mut peer = self.accept().await;
        let asked = peer.request().await;
        (peer, asked)
    }

    /// Whether a connection has come that was not taken.
    pub fn is_called(&self) -> bool {
        !self.accepted.is_empty()
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// What Greylag itself asks is not answered: the connection closes.
async fn sort(socket: TcpStream, give: mpsc::UnboundedSender<TcpStream>) {
    const OWN: [&[u8]; 2] = [b"GET /v1/models ", b"GET /health "];
    let mut start = [0; OWN[0].len()];
    loop {
        let Ok(count @ 1..) = socket.peek(&mut start).await else {
            break;
        };
        let found = &start[..count];
        if OWN.iter().any(|own| found.starts_with(own)) {
            return;
        }
        if !OWN.iter().any(|own| own.starts_with(found)) {
            break;
        }
        tokio::task::yield_now().await;
    }
    // The test may be over.
    let _ = give.send(socket);
}
