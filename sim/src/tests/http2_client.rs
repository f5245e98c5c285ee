//! A client that speaks HTTP/2 and keeps what it reads, frame by frame.
//!
//! In: requests. Out: answers, and how their streams ended. Never waits past the deadline.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::client::within;

pub(super) struct Http2 {
    pub(super) send: SendRequest<Bytes>,
    /// Ends with the connection.
    pub(super) driver: JoinHandle<Result<(), h2::Error>>,
}

/// What came of a request.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) pieces: Vec<Bytes>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) broken: Option<h2::Error>,
}

impl Http2 {
    pub(super) async fn connect(address: SocketAddr) -> Http2 {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Http2::over(stream).await
    }

    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Http2 {
        let (send, connection) = within(h2::client::handshake(stream)).await.unwrap();
        Http2 {
            send,
            driver: tokio::spawn(connection),
        }
    }

    /// Begins a request whose body follows.
    pub(super) async fn begin(
        &self,
        path: &str,
        fields: &[(&str, &str)],
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::post(format!("http://engine{path}"))
            .header("content-type", "application/json");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut ready = within(self.send.clone().ready()).await.unwrap();
        ready
            .send_request(request.body(()).unwrap(), false)
            .unwrap()
    }

    pub(super) async fn ask(&self, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let (response, mut send) = self.begin(path, fields).await;
        send.send_data(Bytes::copy_from_slice(body.as_bytes()), true)
            .unwrap();
        within(answer(response)).await
    }
}

pub(super) async fn answer(response: ResponseFuture) -> Answer {
    let mut answer = Answer::default();
    match response.await {
        Ok(found) => {
            let (head, mut body) = found.into_parts();
            answer.status = head.status.as_u16();
            answer.headers = head.headers;
            answer.broken = rest(&mut body, &mut answer.pieces).await.err();
            if answer.broken.is_none() {
                answer.trailers = body.trailers().await.unwrap();
            }
        }
        Err(error) => answer.broken = Some(error),
    }
    answer
}

async fn rest(body: &mut RecvStream, pieces: &mut Vec<Bytes>) -> Result<(), h2::Error> {
    while let Some(piece) = body.data().await {
        let piece = piece?;
        let _ = body.flow_control().release_capacity(piece.len());
        pieces.push(piece);
    }
    Ok(())
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.pieces.concat()).unwrap()
    }

    pub(super) fn reason(&self) -> Option<Reason> {
        self.broken.as_ref().and_then(h2::Error::reason)
    }
}
