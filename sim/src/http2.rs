//! A connection of HTTP/2: its streams, and what is done to all of them at once.
//!
//! In: a socket, what clients are allowed. Out: each stream answered in a task of its own, by the frames laid ready for
//! it or as over HTTP/1. Every stream ends in the ledger exactly once, also when the connection breaks.

use std::sync::Arc;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, Connection, SendResponse};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::carrier::Carrier;
use crate::door::Windows;
use crate::engine::Shared;
use crate::exchange::{Next, answer};
use crate::frames::{self, Frames};
use crate::request::{Head, Version};
use crate::seen::Open;
use crate::socket::Socket;
use crate::triton::grpc;

mod lane;

pub(crate) use lane::{Lane, map};

/// What a stream may ask of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whole {
    /// Takes no new streams: GOAWAY, and the end once all streams are answered.
    GoAway,
    /// Ends with GOAWAY and this code, whatever its streams do.
    Abort(Reason),
    /// Ends without a word.
    Close,
}

/// The way from a stream to its connection.
pub(crate) type Wholes = mpsc::Sender<Whole>;

/// Waiting wishes of a connection's streams; more have to wait, which harms nobody.
const MOST_WISHES: usize = 16;

/// The overhead of small DATA frames that a connection may hold unread.
const DATA_FRAMES: usize = 1 << 30;

/// Serves a connection to its end.
pub(crate) async fn serve(socket: Socket, windows: Windows, shared: &Arc<Shared>, open: &Open) {
    let mut builder = Builder::new();
    builder
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        // Clients reset as many streams, and cut bodies as small, as they like.
        .max_concurrent_reset_streams(usize::MAX)
        .max_pending_accept_reset_streams(usize::MAX)
        .max_local_error_reset_streams(None)
        .data_frame_budget(DATA_FRAMES);
    if let Some(streams) = windows.streams {
        builder.max_concurrent_streams(streams);
    }
    let Ok(connection) = builder.handshake::<_, Bytes>(socket).await else {
        shared.ledger.refused();
        return;
    };
    let mut streams = JoinSet::new();
    accept(connection, shared, open, &mut streams).await;
    // The connection is gone, which each of them notices in whatever it waits for.
    while streams.join_next().await.is_some() {}
}

async fn accept(
    mut connection: Connection<Socket, Bytes>,
    shared: &Arc<Shared>,
    open: &Open,
    streams: &mut JoinSet<()>,
) {
    let (wholes, mut wishes) = mpsc::channel(MOST_WISHES);
    let mut go_away = shared.go_away.subscribe();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let head = head(&request, respond.stream_id().as_u32());
                    let number = shared.ledger.arrived(open, &head);
                    let lane = Lane::new(shared.ledger.clone(), number, request.into_body(), respond);
                    streams.spawn(stream(lane, head, shared.clone(), wholes.clone()));
                }
                Some(Err(_)) | None => return,
            },
            Ok(()) = go_away.changed() => connection.graceful_shutdown(),
            Some(wish) = wishes.recv() => match wish {
                Whole::GoAway => connection.graceful_shutdown(),
                Whole::Abort(reason) => connection.abrupt_shutdown(reason),
                Whole::Close => return,
            },
            Some(_) = streams.join_next(), if !streams.is_empty() => {}
        }
    }
}

async fn stream(mut lane: Lane, head: Head, shared: Arc<Shared>, wholes: Wholes) {
    match shared.frames.next(&head) {
        Ok(Some(frames)) => play(&mut lane, &frames, &shared, &wholes).await,
        Ok(None) | Err(_) => {
            let number = lane.number;
            let next = if grpc::is_call(&head) {
                grpc::serve(&mut lane, &head, &shared).await
            } else {
                answer(&mut lane, &shared, head, number).await
            };
            let wish = match next {
                Next::Again | Next::Gone => return,
                Next::Close if lane.over() => Whole::GoAway,
                Next::Close => Whole::Close,
                Next::Reset => return lane.reset(Reason::INTERNAL_ERROR),
            };
            // Fails only when the connection has ended already.
            let _ = wholes.send(wish).await;
            // A connection that ends without a word ends before its stream is dropped, which would reset it.
            if !lane.over() {
                lane.gone().await;
            }
        }
    }
}

async fn play(lane: &mut Lane, frames: &Frames, shared: &Shared, wholes: &Wholes) {
    let ending = frames::play(frames, lane, shared, wholes).await;
    shared.ledger.ended(lane.number, ending);
}

/// A request's head as the rest of the simulator knows it. Pseudo-headers come first; the order of other names is not the
/// one on the wire, which the library does not tell.
fn head(request: &http::Request<h2::RecvStream>, stream: u32) -> Head {
    let uri = request.uri();
    let target = uri
        .path_and_query()
        .map_or_else(|| uri.to_string(), ToString::to_string);
    let mut headers = vec![(":method".to_owned(), request.method().as_str().into())];
    let pseudo = [
        (":scheme", uri.scheme_str()),
        (":authority", uri.authority().map(|found| found.as_str())),
        (":path", Some(target.as_str())),
    ];
    headers.extend(
        pseudo
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.as_bytes().to_vec()))),
    );
    headers.extend(lane::listed(request.headers()));
    Head {
        raw: headers
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), b": ", value, b"\r\n"].concat())
            .chain(*b"\r\n")
            .collect(),
        method: request.method().as_str().to_owned(),
        target,
        version: Version::Http2(stream),
        headers,
    }
}

/// Where a stream's answer is sent.
type Respond = SendResponse<Bytes>;
