//! A client's HTTP/2 connection.
//!
//! In: a connection that begins with HTTP/2's preface. Out: an exchange for each of its streams. Windows are such that one
//! stream whose answer or body is not read cannot hold up its neighbours; a flood of resets, an idle connection and a
//! client that never finishes its handshake end the connection, with a reason.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, Connection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

use super::Door;
use crate::relay::client::{Client, HEAD, h2 as stream};
use crate::relay::cut::Cut;
use crate::relay::{self};

/// What a stream's body may be ahead of its reader, and all streams of a connection together, in bytes: 128 uploads that no
/// engine takes are as many as one client's connection bears before its other streams wait.
const WINDOWS: (u32, u32) = (64 << 10, 8 << 20);
/// What may be written and not sent, a stream, in bytes.
const UNSENT: usize = 64 << 10;
/// The longest head, in bytes, as HPACK counts it.
const LONGEST_HEAD: u32 = 64 << 10;
/// How often a connection is looked at, and after how many looks without a stream it is told to go.
const IDLE: (Duration, u32) = (Duration::from_secs(5), 12);
/// The same once the process is told to end, but that after so many looks it is waited for no longer: who has not answered
/// a goodbye by then is frozen, or gone.
const GOODBYE: (Duration, u32) = (Duration::from_secs(2), 3);
/// So many streams more than end well may be reset by the client before their connection is closed; every look gives
/// `FORGIVEN` back (CVE-2023-44487).
const RESETS: u32 = 200;
const FORGIVEN: u32 = 50;
/// How long a connection may take to send what is left once its streams are cut.
const LAST: Duration = Duration::from_secs(1);

/// How often it is looked at whether the last stream has ended, when the connection is cut.
const STEP: Duration = Duration::from_millis(10);

// What the streams of a connection tell it.
#[derive(Debug, Default)]
struct Tally {
    running: AtomicU32,
    resets: AtomicU32,
}

impl Tally {
    fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }
}

/// Serves a connection to its end.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    door: Arc<Door>,
    stream: S,
    address: Option<IpAddr>,
    mut stop: watch::Receiver<bool>,
    mut cut: Cut,
) {
    let (of_stream, of_connection) = WINDOWS;
    let handshake = Builder::new()
        .initial_window_size(of_stream)
        .initial_connection_window_size(of_connection)
        .max_concurrent_streams(door.worker.shared.limits.h2_streams)
        .max_header_list_size(LONGEST_HEAD)
        .max_send_buffer_size(UNSENT)
        .handshake::<S, Bytes>(stream);
    let shaken = tokio::select! {
        shaken = timeout(HEAD, handshake) => shaken,
        () = cut.come() => return,
    };
    let Ok(Ok(mut connection)) = shaken else {
        return;
    };
    let tally = Arc::new(Tally::default());
    let ((pause, most_idle), (soon, last_idle)) = (IDLE, GOODBYE);
    let mut look = every(pause);
    let (mut idle, mut stopping) = (0, false);
    loop {
        tokio::select! {
            biased;
            () = cut.come() => break,
            _ = stop.wait_for(|stopping| *stopping), if !stopping => {
                stopping = true;
                connection.graceful_shutdown();
                (look, idle) = (every(soon), 0);
            }
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let (parts, body) = request.into_parts();
                    let limit = door.worker.shared.limits.write.get();
                    let client = stream::Client::new(parts, body, respond, address, limit);
                    tokio::spawn(exchange(door.clone(), client, tally.clone()));
                    idle = 0;
                }
                Some(Err(_)) | None => return,
            },
            _ = look.tick() => {
                let resets = &tally.resets;
                resets.store(resets.load(Ordering::Relaxed).saturating_sub(FORGIVEN), Ordering::Relaxed);
                idle = if tally.is_running() { 0 } else { idle + 1 };
                if idle == most_idle {
                    connection.graceful_shutdown();
                } else if idle > most_idle + 1 || (stopping && idle >= last_idle) {
                    // Who does not even answer that is not waited for, nor are answers that it does not take.
                    break;
                }
            }
        }
        if tally.resets.load(Ordering::Relaxed) > RESETS {
            tracing::warn!(name: "greylag.client.reset_flood", client = ?address, "an HTTP/2 client resets too many streams: its connection is closed");
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }
    end(connection, &tally).await;
}

fn every(pause: Duration) -> Interval {
    let mut look = interval(pause);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look.reset();
    look
}

// What the streams still say is sent, if they were cut.
async fn end<S: AsyncRead + AsyncWrite + Unpin>(
    mut connection: Connection<S, Bytes>,
    tally: &Tally,
) {
    let last = async {
        while tally.is_running() {
            tokio::select! {
                accepted = connection.accept() => if !matches!(accepted, Some(Ok(_))) { return },
                () = sleep(STEP) => {}
            }
        }
        connection.abrupt_shutdown(Reason::NO_ERROR);
        while let Some(Ok(_)) = connection.accept().await {}
    };
    let _ = timeout(LAST, last).await;
}

async fn exchange(door: Arc<Door>, client: stream::Client, tally: Arc<Tally>) {
    tally.running.fetch_add(1, Ordering::Relaxed);
    let _running = Running(tally.clone());
    let mut cut = door.registry.enter();
    let mut client = Client::H2(Box::new(client));
    let is_well = relay::carry(&door.worker, &mut client, &mut cut).await;
    let resets = tally.resets.load(Ordering::Relaxed);
    let resets = match client {
        Client::H2(client) if client.has_left() => resets + 1,
        _ if is_well => resets.saturating_sub(1),
        _ => resets,
    };
    tally.resets.store(resets, Ordering::Relaxed);
}

// Counts down also when an exchange panics.
struct Running(Arc<Tally>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
