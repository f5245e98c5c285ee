//! Whose connection it is, where a load balancer says so before anything else.
//!
//! In: a connection of which nothing has been read. Out: the client's address. Nothing after the header is read, so what
//! follows, TLS or HTTP, finds its beginning untouched.

use std::io;
use std::net::IpAddr;

use greylag_filters::proxy_protocol::{self, Fault, Read, Source};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Why no header came.
#[derive(Debug, thiserror::Error)]
pub enum Unsaid {
    /// The connection ended before its first byte, as those of health checks do.
    #[error("the connection ended before it began")]
    Silence,
    /// What came is no header.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The connection broke or ended within it.
    #[error("the PROXY header did not come whole: {0}")]
    Broken(#[from] io::Error),
}

/// Reads the header; the client's address, where `peer` is who sends it. At most [`proxy_protocol::LONGEST`] bytes are held.
/// Not cancel-safe.
///
/// # Errors
/// [`Unsaid`], after which the connection is of no use.
pub async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    peer: IpAddr,
) -> Result<Option<IpAddr>, Unsaid> {
    let mut bytes = Vec::with_capacity(64);
    loop {
        match proxy_protocol::read(&bytes)? {
            Read::Header(header) => {
                return Ok(match header.source {
                    Source::Peer => Some(peer),
                    Source::Address(address) => Some(address),
                    Source::Nameless => None,
                });
            }
            Read::More(needed) => {
                let left = (needed - bytes.len()) as u64;
                if stream.take(left).read_buf(&mut bytes).await? == 0 {
                    return Err(match bytes.is_empty() {
                        true => Unsaid::Silence,
                        false => io::Error::from(io::ErrorKind::UnexpectedEof).into(),
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

    #[tokio::test]
    async fn nothing_after_the_header_is_read() {
        let peer = IpAddr::from([10, 0, 0, 1]);
        let all = [LOCAL, b"GET / HTTP/1.1"].concat();
        let mut stream = &all[..];
        assert_eq!(read(&mut stream, peer).await.unwrap(), Some(peer));
        assert_eq!(stream, b"GET / HTTP/1.1");
        let mut long = LOCAL.to_vec();
        long[14] = 0xff;
        long.extend([0; 0xff00]);
        long.extend(b"after");
        let mut stream = &long[..];
        assert_eq!(read(&mut stream, peer).await.unwrap(), Some(peer));
        assert_eq!(stream, b"after");
    }

    #[tokio::test]
    async fn what_does_not_come_whole_is_told_from_what_never_began() {
        let peer = IpAddr::from([10, 0, 0, 1]);
        assert!(matches!(
            read(&mut &b""[..], peer).await,
            Err(Unsaid::Silence)
        ));
        let cut = &LOCAL[..LOCAL.len() - 1];
        assert!(matches!(
            read(&mut &cut[..], peer).await,
            Err(Unsaid::Broken(_))
        ));
        let text = read(&mut &b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n"[..], peer).await;
        assert!(matches!(text, Err(Unsaid::Fault(Fault::Version1))));
    }
}
