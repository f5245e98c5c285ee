//! A request over HTTP/2, as one stream of a connection that others share.
//!
//! In: a connection with room for another stream, or a new one. Out: what [`Call`](super::Call) says. Each connection is
//! driven by a task of its own, which also finds out by pings that a peer has vanished.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use greylag_filters::framing::Framing;
use greylag_filters::grpc;
use greylag_filters::hop::hop_by_hop;
use h2::client::{Builder, Connection, ResponseFuture};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::time::{sleep, timeout};

use super::Pool;
use super::call::{Broken, Untouched, gather};
use super::pool::{Lane, Road};
use super::target::Key;
use crate::socket::Socket;
use crate::wire::poll_window;

/// What a stream's answer may be ahead of its reader, and all streams of a connection together, in bytes: as many as there
/// are lanes may stand unread, and the others go on.
const WINDOWS: (u32, u32) = (128 << 10, 16 << 20);
/// What small frames that wait for their reader may cost together. `h2` ends the connection past this, and with it the
/// streams of those who do read; its own bound is met by three stalled readers of token streams.
const SMALL_FRAMES: usize = 32 << 20;
/// What may be written and not sent, a stream, in bytes.
const UNSENT: usize = 64 << 10;
/// The longest head, in bytes, as HPACK counts it.
const LONGEST_HEAD: u32 = 1 << 20;
/// How often a connection with streams is pinged, and how long an answer may take.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// A stream with a request on it. Dropping it resets the stream.
pub struct Call {
    lane: Lane,
    scheme: Scheme,
    reused: bool,
    up: Up,
    down: Down,
}

/// The request's way.
pub struct Up {
    // none before the head is written, and after the end
    out: Option<SendStream<Bytes>>,
    fate: Fate,
}

/// The answer's way.
pub struct Down {
    response: Option<ResponseFuture>,
    // a head that came while a piece was written
    head: Option<Box<ResponseHeader>>,
    body: Option<RecvStream>,
    trailers: Option<HeaderMap>,
    // a break that came together with the bytes before it
    failed: Option<Broken>,
    fate: Fate,
}

// What a break says of the request.
#[derive(Default)]
struct Fate {
    // the engine has not looked at it (RFC 9113 §8.7)
    refused: bool,
    // the connection broke under it
    lost: bool,
}

impl Call {
    /// A place on a connection of the pool that has room, `streams` at most on each.
    pub(super) async fn reuse(
        pool: &Pool,
        key: Key,
        streams: usize,
        scheme: Scheme,
    ) -> Option<Call> {
        loop {
            let mut lane = pool.lane(key, streams)?;
            let ready = poll_fn(|cx| lane.requests.poll_ready(cx)).await;
            if ready.is_ok() {
                return Some(Call::on(lane, scheme, true));
            }
            // It has said goodbye: its streams go on, and no other begins.
            lane.road().close();
        }
    }

    /// The first place on a new connection.
    ///
    /// # Errors
    /// What listens there does not speak HTTP/2, or the connection broke.
    pub(super) async fn begin(
        pool: &Pool,
        key: Key,
        scheme: Scheme,
        socket: Socket,
    ) -> io::Result<Call> {
        let none = |error| io::Error::other(format!("no HTTP/2 connection: {error}"));
        let (of_stream, of_connection) = WINDOWS;
        let (requests, connection) = Builder::new()
            .initial_window_size(of_stream)
            .initial_connection_window_size(of_connection)
            .max_header_list_size(LONGEST_HEAD)
            .max_send_buffer_size(UNSENT)
            .data_frame_budget(SMALL_FRAMES)
            .enable_push(false)
            .handshake::<_, Bytes>(socket)
            .await
            .map_err(none)?;
        let mut lane = pool.add(key, requests);
        tokio::spawn(drive(connection, lane.road()));
        poll_fn(|cx| lane.requests.poll_ready(cx))
            .await
            .map_err(none)?;
        Ok(Call::on(lane, scheme, false))
    }

    fn on(lane: Lane, scheme: Scheme, reused: bool) -> Self {
        Call {
            lane,
            scheme,
            reused,
            up: Up {
                out: None,
                fate: Fate::default(),
            },
            down: Down {
                response: None,
                head: None,
                body: None,
                trailers: None,
                failed: None,
                fate: Fate::default(),
            },
        }
    }

    /// Both ways apart, for those who move them at the same time.
    pub fn split(&mut self) -> (&mut Up, &mut Down) {
        (&mut self.up, &mut self.down)
    }

    pub(super) fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether the request was not looked at, after a break that came before its answer.
    pub fn untouched(&self) -> Option<Untouched> {
        let (up, down) = (&self.up.fate, &self.down.fate);
        if up.refused || down.refused {
            Some(Untouched::Refused)
        } else {
            (self.reused && (up.lost || down.lost)).then_some(Untouched::Stale)
        }
    }

    /// Writes the request's head.
    ///
    /// # Errors
    /// The connection broke, or the head has no place in HTTP/2.
    pub fn write_head(&mut self, head: &RequestHeader, framing: Framing) -> Result<(), Broken> {
        let request = request(head, self.scheme.clone()).ok_or(Broken::Unsayable)?;
        let is_all = framing == Framing::None;
        let sent = self.lane.requests.send_request(request, is_all);
        let (response, out) = sent.map_err(|error| broken(&error, &mut self.up.fate))?;
        self.down.response = Some(response);
        self.up.out = Some(out).filter(|_| !is_all);
        Ok(())
    }

    pub(super) async fn write(&mut self, mut piece: Bytes) -> Result<(), Broken> {
        poll_fn(|cx| match self.up.poll_write(cx, &mut piece) {
            // An engine that answers instead of taking the rest is heard.
            Poll::Pending => {
                self.down.head = Some(ready!(self.down.poll_head(cx))?);
                Poll::Ready(Err(Broken::Closed))
            }
            written => written,
        })
        .await
    }

    pub(super) fn finish(&mut self) -> Result<(), Broken> {
        self.up.finish()
    }

    pub(super) async fn read_head(&mut self) -> Result<Box<ResponseHeader>, Broken> {
        self.down.read_head().await
    }

    pub(super) fn is_over(&self) -> bool {
        self.down.is_over()
    }

    pub(super) async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, Broken> {
        self.down.read(out).await
    }

    pub(super) fn trailers(&mut self) -> Option<HeaderMap> {
        self.down.trailers()
    }
}

impl Up {
    /// Writes a piece as the engine's window opens; what has gone is taken off it. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke, or the engine takes no more.
    pub async fn write(&mut self, piece: &mut Bytes) -> Result<(), Broken> {
        poll_fn(|cx| self.poll_write(cx, piece)).await
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, piece: &mut Bytes) -> Poll<Result<(), Broken>> {
        while !piece.is_empty() {
            let Some(out) = &mut self.out else {
                return Poll::Ready(Err(Broken::Closed));
            };
            let window = match ready!(poll_window(out, cx, piece.len())) {
                Ok(window) => window,
                Err(Some(error)) => return Poll::Ready(Err(broken(&error, &mut self.fate))),
                Err(None) => return Poll::Ready(Err(Broken::Reset)),
            };
            let sent = out.send_data(piece.split_to(window), false);
            sent.map_err(|error| broken(&error, &mut self.fate))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the request.
    ///
    /// # Errors
    /// The connection broke, or the engine takes no more.
    pub fn finish(&mut self) -> Result<(), Broken> {
        let Some(mut out) = self.out.take() else {
            return Ok(());
        };
        let ended = out.send_data(Bytes::new(), true);
        ended.map_err(|error| broken(&error, &mut self.fate))
    }
}

impl Down {
    /// Reads the answer's head. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read_head(&mut self) -> Result<Box<ResponseHeader>, Broken> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Box<ResponseHeader>, Broken>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Ok(head));
        }
        let Some(response) = &mut self.response else {
            return Poll::Ready(Err(Broken::Closed));
        };
        let answer = ready!(Pin::new(response).poll(cx));
        self.response = None;
        let answer = answer.map_err(|error| broken(&error, &mut self.fate))?;
        let (parts, body) = answer.into_parts();
        self.body = Some(body);
        Poll::Ready(Ok(Box::new(ResponseHeader::from(parts))))
    }

    /// Whether nothing comes after the head.
    pub fn is_over(&self) -> bool {
        self.body.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    /// Adds to `out` the next piece of the answer's body, all that has come, up to a bound. False: it is whole, and `out`
    /// has its end. A break is told after what came before it. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, Broken> {
        poll_fn(|cx| {
            let mut failed = self.failed.take();
            let more = gather(&mut failed, out, |out| self.poll_piece(cx, out));
            self.failed = failed;
            more
        })
        .await
    }

    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, Broken>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(Ok(false));
        };
        match ready!(body.poll_data(cx)) {
            Some(Ok(piece)) => {
                out.extend_from_slice(&piece);
                // The stream may be gone, which the next read tells.
                let _ = body.flow_control().release_capacity(piece.len());
                Poll::Ready(Ok(true))
            }
            Some(Err(error)) => Poll::Ready(Err(broken(&error, &mut self.fate))),
            None => {
                let trailers = ready!(body.poll_trailers(cx));
                self.trailers = trailers.map_err(|error| broken(&error, &mut self.fate))?;
                self.body = None;
                Poll::Ready(Ok(false))
            }
        }
    }

    /// What came after the body.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }
}

// What an error means, and what it says of the request.
fn broken(error: &h2::Error, fate: &mut Fate) -> Broken {
    fate.refused |=
        error.reason() == Some(Reason::REFUSED_STREAM) || (error.is_go_away() && error.is_remote());
    fate.lost |= error.is_io();
    if error.is_io() {
        Broken::Closed
    } else if error.is_remote() {
        Broken::Reset
    } else {
        Broken::Garbage
    }
}

// The head as HTTP/2 has it (RFC 9113 §8.3.1): `Host` as the authority, no fields of one connection.
fn request(head: &RequestHeader, scheme: Scheme) -> Option<Request<()>> {
    let host = head.headers.get(header::HOST)?;
    let path = std::str::from_utf8(head.raw_path()).ok()?;
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(host.as_bytes())
        .path_and_query(path)
        .build()
        .ok()?;
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.clone_from(&head.headers);
    headers.remove(header::HOST);
    for name in hop_by_hop(headers) {
        headers.remove(name);
    }
    if headers.get(header::CONTENT_TYPE).is_some_and(is_grpc) {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    Some(request)
}

fn is_grpc(media_type: &HeaderValue) -> bool {
    grpc::is_media_type(media_type.as_bytes())
}

async fn drive(mut connection: Connection<Socket, Bytes>, road: Road) {
    let pings = connection.ping_pong();
    tokio::select! {
        ended = &mut connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "an HTTP/2 connection to an engine broke");
            }
        }
        () = vanished(pings, &road) => tracing::warn!(name: "greylag.engine.vanished", "an engine's HTTP/2 connection answers no ping"),
    }
    road.close();
}

// Ends when a ping is not answered.
async fn vanished(pings: Option<PingPong>, road: &Road) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    let (pause, patience) = PING;
    loop {
        sleep(pause).await;
        if road.is_busy()
            && !matches!(
                timeout(patience, pings.ping(Ping::opaque())).await,
                Ok(Ok(_))
            )
        {
            return;
        }
    }
}
