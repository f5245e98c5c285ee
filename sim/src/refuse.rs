//! An address that refuses connections.
//!
//! Out: an address with a guard that keeps it. Never listens: the kernel answers every SYN with RST.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// An address where nobody listens, kept so that nobody else can, until dropped.
#[derive(Debug)]
pub struct Refusing {
    address: SocketAddr,
    /// Bound and not listening.
    _socket: TcpSocket,
}

impl Refusing {
    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Takes an address on 127.0.0.1 that refuses every connection while the value lives.
///
/// # Errors
/// When no port can be bound.
pub async fn refusing_address() -> io::Result<Refusing> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(Refusing {
        address: socket.local_addr()?,
        _socket: socket,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_to_a_refusing_address_is_refused() {
        let refusing = refusing_address().await.unwrap();
        for _ in 0..3 {
            let error = tokio::net::TcpStream::connect(refusing.address())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
