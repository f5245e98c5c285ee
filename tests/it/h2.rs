//! Both ends of HTTP/2 for the tests: a client, and an engine that is played by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use ::h2::client::{ResponseFuture, SendRequest};
use ::h2::server::SendResponse;
use ::h2::{RecvStream, SendStream};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;

use crate::harness::within;

/// A client's connection.
pub struct Peer {
    requests: SendRequest<Bytes>,
    driver: tokio::task::JoinHandle<()>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub head: Response<()>,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Answer {
    /// A field of the head, or of the trailers.
    pub fn header(&self, name: &str) -> Option<&str> {
        let trailers = self.trailers.as_ref();
        let value = self.head.headers().get(name);
        let value = value.or_else(|| trailers?.get(name));
        value.and_then(|value| value.to_str().ok())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A request whose body is being written.
pub struct Asking {
    pub out: SendStream<Bytes>,
    pub answer: ResponseFuture,
}

impl Peer {
    /// Connects with prior knowledge.
    pub async fn to(address: SocketAddr) -> Peer {
        Peer::with(address, &mut ::h2::client::Builder::new()).await
    }

    /// The same, with settings.
    pub async fn with(address: SocketAddr, builder: &mut ::h2::client::Builder) -> Peer {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("it is connected");
        Peer::on(stream, builder).await
    }

    /// On a connection of any kind.
    pub async fn on<S>(stream: S, builder: &mut ::h2::client::Builder) -> Peer
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = builder.handshake(stream).await;
        let (requests, connection) = shaken.expect("it speaks HTTP/2");
        let driver = tokio::spawn(async move {
            // How it ends shows at the streams.
            let _ = connection.await;
        });
        Peer { requests, driver }
    }

    /// The same connection, for use in another task; it ends with the first.
    pub fn another(&self) -> Peer {
        Peer {
            requests: self.requests.clone(),
            driver: tokio::spawn(async {}),
        }
    }

    /// Whether another request could be begun.
    pub async fn is_open(&mut self) -> bool {
        std::future::poll_fn(|cx| self.requests.poll_ready(cx))
            .await
            .is_ok()
    }

    /// Begins a request of which only the head is written.
    pub async fn begin(&mut self, request: Request<()>) -> Result<SendStream<Bytes>, ::h2::Error> {
        std::future::poll_fn(|cx| self.requests.poll_ready(cx)).await?;
        Ok(self.requests.send_request(request, false)?.1)
    }

    /// Begins a request.
    pub async fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> Asking {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://models.test{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("the test asks well");
        std::future::poll_fn(|cx| self.requests.poll_ready(cx))
            .await
            .expect("the connection is there");
        let sent = self.requests.send_request(request, false);
        let (answer, out) = sent.expect("the connection is there");
        Asking { out, answer }
    }

    /// Asks, and reads the whole answer.
    pub async fn whole(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, ::h2::Error> {
        let mut asking = self.ask(method, path, fields).await;
        write(&mut asking.out, body).await?;
        asking.out.send_data(Bytes::new(), true)?;
        asking.whole().await
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Asking {
    /// Reads the whole answer.
    pub async fn whole(self) -> Result<Answer, ::h2::Error> {
        let (parts, body) = within("an answer", self.answer).await?.into_parts();
        let (body, trailers) = read(body).await?;
        Ok(Answer {
            head: Response::from_parts(parts, ()),
            body,
            trailers,
        })
    }
}

/// Writes all of `bytes` as the window opens.
pub async fn write(out: &mut SendStream<Bytes>, bytes: &[u8]) -> Result<(), ::h2::Error> {
    let mut rest = bytes;
    while !rest.is_empty() {
        out.reserve_capacity(rest.len());
        while out.capacity() == 0 {
            match within(
                "the window",
                std::future::poll_fn(|cx| out.poll_capacity(cx)),
            )
            .await
            {
                Some(opened) => opened?,
                None => return Ok(()),
            };
        }
        let (now, later) = rest.split_at(out.capacity().min(rest.len()));
        out.send_data(Bytes::copy_from_slice(now), false)?;
        rest = later;
    }
    Ok(())
}

/// Reads to the end.
pub async fn read(mut body: RecvStream) -> Result<(Bytes, Option<HeaderMap>), ::h2::Error> {
    let mut all = BytesMut::new();
    while let Some(piece) = within("a piece", body.data()).await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        all.extend_from_slice(&piece);
    }
    let trailers = within("the trailers", body.trailers()).await?;
    Ok((all.freeze(), trailers))
}

/// An engine that answers what the test tells it to.
pub struct Hand {
    address: SocketAddr,
    calls: mpsc::UnboundedReceiver<Asked>,
    breaking: Arc<Notify>,
    driver: tokio::task::JoinHandle<()>,
}

/// A request, and where its answer goes.
pub struct Asked {
    pub head: http::request::Parts,
    pub body: RecvStream,
    pub respond: SendResponse<Bytes>,
}

impl Asked {
    /// Begins an answer.
    pub fn answer(&mut self, fields: &[(&str, &str)]) -> SendStream<Bytes> {
        let mut head = Response::builder().status(200);
        for (name, value) in fields {
            head = head.header(*name, *value);
        }
        let head = head.body(()).expect("the test answers well");
        let sent = self.respond.send_response(head, false);
        sent.expect("the stream is open")
    }
}

impl Hand {
    pub async fn start() -> Hand {
        Hand::with(None).await
    }

    /// Over TLS.
    pub async fn over_tls(config: Arc<ServerConfig>) -> Hand {
        Hand::with(Some(config)).await
    }

    async fn with(tls: Option<Arc<ServerConfig>>) -> Hand {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let (tell, calls) = mpsc::unbounded_channel();
        let breaking = Arc::new(Notify::new());
        let told = breaking.clone();
        let driver = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => connections.spawn(enter(stream, tls.clone(), tell.clone())),
                        Err(_) => break,
                    },
                    () = told.notified() => {
                        connections.shutdown().await;
                        continue;
                    }
                };
            }
        });
        Hand {
            address,
            calls,
            breaking,
            driver,
        }
    }

    /// Breaks all its connections off, without a goodbye.
    pub fn break_connections(&self) {
        self.breaking.notify_one();
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request.
    pub async fn call(&mut self) -> Asked {
        let call = within("a call", self.calls.recv()).await;
        call.expect("the driver runs while the hand is there")
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn enter(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    tell: mpsc::UnboundedSender<Asked>,
) {
    stream.set_nodelay(true).expect("it is connected");
    match tls {
        None => serve(stream, tell).await,
        Some(config) => {
            if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                serve(stream, tell).await;
            }
        }
    }
}

async fn serve<S>(stream: S, tell: mpsc::UnboundedSender<Asked>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Ok(mut connection) = ::h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (head, body) = request.into_parts();
        // Greylag's own questions, which any answer will do for.
        let asks = head.headers.get("user-agent");
        if asks.is_some_and(|agent| agent.as_bytes().starts_with(b"greylag/")) {
            let _ = respond.send_response(Response::new(()), true);
            continue;
        }
        let _ = tell.send(Asked {
            head,
            body,
            respond,
        });
    }
}
