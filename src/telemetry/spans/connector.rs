//! How the collector is reached, for both protocols.
//!
//! In: the URI that a library wants a connection to. Out: a connection, by Greylag's own TCP and TLS, so that no second TLS
//! comes in and certificates are read anew when they change.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use greylag_filters::rules::engine::TlsRule;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::socket::{Socket, tune};
use crate::tls;

/// Makes connections to the collector.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    tls: Arc<tls::Client>,
}

impl Connector {
    /// One that speaks TLS as `rule` says, where the URI wants it; over it HTTP/2 for gRPC, else HTTP/1.1.
    pub(super) fn new(rule: &TlsRule, is_grpc: bool) -> Self {
        const ONLY_H2: &[&[u8]] = &[b"h2"];
        const ONLY_H1: &[&[u8]] = &[b"http/1.1"];
        let offers = if is_grpc { ONLY_H2 } else { ONLY_H1 };
        Connector {
            tls: Arc::new(tls::Client::new(rule, offers)),
        }
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Socket>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default();
            // As it stands in a URI, an IPv6 address has brackets.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let is_tls = uri.scheme_str() == Some("https");
            let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
            let stream = TcpStream::connect((host, port)).await?;
            tune(&stream)?;
            let socket = match is_tls {
                true => tls.shake(stream, host, false).await?.0,
                false => Socket::Tcp(stream),
            };
            Ok(TokioIo::new(socket))
        })
    }
}
