//! A connection to an API, whatever carries it.

use std::io;
use std::path::PathBuf;

use greylag_filters::rules::engine::TlsRule;
use tokio::net::{TcpStream, UnixStream};

use super::Target;
use crate::socket::Socket;
use crate::tls;

/// Whom an `https` API is believed to be, and how one shows who asks.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The file of the authorities; else those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The files of a certificate to be shown, and of its key.
    pub shown: Option<(PathBuf, PathBuf)>,
}

/// Connects.
pub(super) async fn connect(target: &Target, trust: &Trust) -> io::Result<Socket> {
    let (host, port, is_secure) = match target {
        Target::Unix(path) => return UnixStream::connect(path).await.map(Socket::Unix),
        Target::Net {
            host,
            port,
            is_secure,
        } => (host, *port, *is_secure),
    };
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    if !is_secure {
        return Ok(Socket::Tcp(stream));
    }
    let (cert, key) = trust.shown.clone().unzip();
    let rule = TlsRule {
        ca: trust.ca.clone(),
        cert,
        key,
        ..TlsRule::default()
    };
    let client = tls::Client::new(&rule, &[b"http/1.1"]);
    let (socket, _) = client.shake(stream, host, true).await?;
    Ok(socket)
}
