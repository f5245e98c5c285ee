//! The pump for a tunnel: raw bytes both ways, once an engine has agreed to switch protocols.
//!
//! In: a client and an engine that speak WebSocket from now on. Out: the bytes of each to the other. Nothing of them is
//! read, mirrored or changed. It ends when both have ended, soon after one has, and at the drain's limit.

use std::future::pending;
use std::time::Duration;

use http::{HeaderValue, Version, header};
use pingora_http::ResponseHeader;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, sleep_until};

use super::client::Client;
use super::cut::Cut;
use super::patience::Spent;
use super::request::Request;
use super::stop::Stop;
use crate::exchange::Exchange;
use crate::upstream::{Broken, Call};

/// How long one side may go on after the other has ended.
const GRACE: Duration = Duration::from_secs(10);
/// Bytes that are moved at once, each way.
const PIECE: usize = 16 << 10;

/// Gives the client the engine's agreement, then moves bytes both ways to their end.
pub async fn carry(
    exchange: &mut Exchange,
    client: &mut Client,
    cut: &mut Cut,
    call: Call,
    mut head: Box<ResponseHeader>,
    request: &Request,
) -> Result<(), Stop> {
    let (Client::H1(client), Call::H1(call)) = (client, call) else {
        return Err(Broken::Garbage.into());
    };
    // Whoever agrees to something else is not understood (RFC 6455 §4.1).
    let mut agreed = head.headers.get_all(header::UPGRADE).iter();
    let is_websocket = |to: &HeaderValue| to.as_bytes().eq_ignore_ascii_case(b"websocket");
    if head.version != Version::HTTP_11
        || !agreed.next().is_some_and(is_websocket)
        || agreed.next().is_some()
    {
        return Err(Broken::Garbage.into());
    }
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        head.remove_header(&name);
    }
    exchange.record.status = Some(head.status.as_u16());
    exchange.record.is_tunnel = true;
    // A tag is a header's value, always.
    let _ = head.insert_header("x-greylag-engine", &*request.tag);
    client.write_interim(&head);
    let (near, sent_ahead) = client
        .tunnel()
        .await
        .map_err(|gone| Stop::left(exchange, gone))?;
    let (far, told_ahead) = call.into_tunnel();
    let (mut far_reader, mut far_writer) = far.split();
    let due = request.timeouts.total.map(|total| exchange.at(total));
    let overdue = async {
        match due {
            Some(due) => sleep_until(due).await,
            None => pending().await,
        }
    };
    let up = one_way(sent_ahead, near.reader, &mut far_writer, near.up);
    let down = one_way(told_ahead, &mut far_reader, near.writer, near.down);
    tokio::select! {
        () = both(up, down) => Ok(()),
        () = overdue => Err(Stop::Spent(Spent::Total)),
        () = cut.come() => Err(Stop::Cut),
    }
}

// Ends when both have, or a while after the first.
async fn both(up: impl Future<Output = ()>, down: impl Future<Output = ()>) {
    let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
    tokio::select! {
        () = &mut up => tokio::select! { () = &mut down => {}, () = sleep(GRACE) => {} },
        () = &mut down => tokio::select! { () = &mut up => {}, () = sleep(GRACE) => {} },
    }
}

// Moves what has been read already, then all that comes, then the end; whoever breaks has ended.
async fn one_way<R, W>(ahead: Vec<u8>, mut from: R, mut to: W, count: &mut u64)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut piece = ahead;
    loop {
        if !piece.is_empty() {
            if to.write_all(&piece).await.is_err() || to.flush().await.is_err() {
                return;
            }
            *count += piece.len() as u64;
        }
        piece.clear();
        piece.reserve(PIECE);
        if !matches!(from.read_buf(&mut piece).await, Ok(1..)) {
            let _ = to.shutdown().await;
            return;
        }
    }
}
