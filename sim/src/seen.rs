//! What an engine has seen of its clients, for tests to look at and to wait for.
//!
//! In: news from the connections. Out: a [`Seen`], cheap to clone. Requests are kept up to [`MOST_REQUESTS`] and
//! [`MOST_BYTES`], the oldest forgotten first; counts are never cut.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::request::{Head, Version};
use crate::tls::Handshake;

/// So many requests are kept.
pub const MOST_REQUESTS: usize = 1_000;
/// So many bytes of heads and bodies are kept, one request always.
pub const MOST_BYTES: usize = 256 << 20;

/// What an engine has seen until now.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests whose head was read, since the start.
    pub count: u64,
    /// The latest of them, oldest first.
    pub requests: VecDeque<Arc<Request>>,
    /// Connections accepted since the start.
    pub connections: u64,
    /// Connections open.
    pub open: usize,
    /// Generations under way, streamed or not.
    pub running: usize,
    /// Requests that ended, since the start.
    pub ended: u64,
    /// Connections ended since what came on them was no request at all.
    pub refused: u64,
    bytes: usize,
}

/// A request that came in.
#[derive(Clone, Debug)]
pub struct Request {
    /// From 1, in the order their heads were read.
    pub number: u64,
    /// The connection it came on, from 1, in the order accepted.
    pub connection: u64,
    /// As sent.
    pub method: String,
    /// As sent, with its query.
    pub target: String,
    /// From the method to the empty line, byte for byte.
    pub head: Vec<u8>,
    /// Names in lower case, in the order sent.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Without chunk framing; `None` until it was read whole, and where it was not kept: `frames` say when.
    pub body: Option<Vec<u8>>,
    /// Bytes of the body read until now.
    pub received: u64,
    /// What the client said in its connection's handshake; `None` in the clear.
    pub tls: Option<Arc<Handshake>>,
    /// `Some` for a stream of HTTP/2.
    pub stream: Option<Stream>,
    /// When its head was read.
    pub at: Instant,
    /// How it ended; `None` while it runs.
    pub ended: Option<Ended>,
}

impl Request {
    /// The first header of that name (in lower case), if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found == name)?;
        std::str::from_utf8(value).ok()
    }

    /// The values of all headers of that name (in lower case), in the order sent.
    pub fn header_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(found, _)| found == name)
            .map(|(_, value)| value.as_slice())
    }

    fn bytes(&self) -> usize {
        self.head.len() + self.body.as_ref().map_or(0, Vec::len)
    }
}

/// What an engine has seen of a stream of HTTP/2.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Its number on its connection.
    pub id: u32,
    /// When END_STREAM was read.
    pub over: Option<Instant>,
    /// The trailers of the request, in no order across names.
    pub trailers: Vec<(String, Vec<u8>)>,
    /// The code of the client's RST_STREAM, and when it was noticed.
    pub reset: Option<(u32, Instant)>,
}

/// How a request ended, as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// In which way.
    pub ending: Ending,
    /// When.
    pub at: Instant,
}

/// The ways a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer was written to its end, errors included.
    Answered {
        /// Token events written.
        events: u64,
    },
    /// The client's FIN or RST was seen while reading, waiting or writing.
    ClientClosed {
        /// Token events written before.
        after_events: u64,
    },
    /// The engine broke off, as it was told to.
    Broken {
        /// Token events written before.
        after_events: u64,
    },
    /// Its body cannot be read; it was answered with 400 or 413.
    Refused,
}

/// Where connections report what they see.
#[derive(Debug, Default)]
pub(crate) struct Ledger(watch::Sender<Seen>);

impl Ledger {
    pub(crate) fn look(&self) -> watch::Receiver<Seen> {
        self.0.subscribe()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0.borrow().clone()
    }

    /// Gives the connection its number.
    pub(crate) fn connected(self: &Arc<Self>) -> Open {
        let mut number = 0;
        self.0.send_modify(|seen| {
            seen.connections += 1;
            seen.open += 1;
            number = seen.connections;
        });
        Open {
            number,
            handshake: None,
            ledger: self.clone(),
        }
    }

    /// Gives the request its number.
    pub(crate) fn arrived(&self, open: &Open, head: &Head) -> u64 {
        let mut number = 0;
        self.0.send_modify(|seen| {
            seen.count += 1;
            number = seen.count;
            seen.keep(Request {
                number,
                connection: open.number,
                method: head.method.clone(),
                target: head.target.clone(),
                head: head.raw.clone(),
                headers: head.headers.clone(),
                body: None,
                received: 0,
                tls: open.handshake.clone(),
                stream: match head.version {
                    Version::Http10 | Version::Http11 => None,
                    Version::Http2(id) => Some(Stream {
                        id,
                        ..Stream::default()
                    }),
                },
                at: Instant::now(),
                ended: None,
            });
        });
        number
    }

    pub(crate) fn refused(&self) {
        self.0.send_modify(|seen| seen.refused += 1);
    }

    pub(crate) fn read(&self, number: u64, body: &[u8]) {
        self.0.send_modify(|seen| {
            if let Some(request) = seen.find(number) {
                request.body = Some(body.to_vec());
                request.received = request.received.max(body.len() as u64);
                seen.bytes += body.len();
                seen.forget();
            }
        });
    }

    /// Counts bytes of a body as they come.
    pub(crate) fn received(&self, number: u64, bytes: usize) {
        self.0.send_modify(|seen| {
            if let Some(request) = seen.find(number) {
                request.received += bytes as u64;
            }
        });
    }

    /// Notes what came of a stream.
    pub(crate) fn stream(&self, number: u64, note: impl FnOnce(&mut Stream)) {
        self.0.send_modify(|seen| {
            if let Some(stream) = seen.find(number).and_then(|found| found.stream.as_mut()) {
                note(stream);
            }
        });
    }

    pub(crate) fn ended(&self, number: u64, ending: Ending) {
        self.0.send_modify(|seen| {
            seen.ended += 1;
            if let Some(request) = seen.find(number) {
                request.ended = Some(Ended {
                    ending,
                    at: Instant::now(),
                });
            }
        });
    }

    /// Counts a generation until the value is dropped.
    pub(crate) fn running(self: &Arc<Self>) -> Running {
        self.0.send_modify(|seen| seen.running += 1);
        Running(self.clone())
    }
}

impl Seen {
    fn find(&mut self, number: u64) -> Option<&mut Request> {
        let index = self
            .requests
            .binary_search_by_key(&number, |request| request.number)
            .ok()?;
        self.requests.get_mut(index).map(Arc::make_mut)
    }

    fn keep(&mut self, request: Request) {
        self.bytes += request.bytes();
        self.requests.push_back(Arc::new(request));
        self.forget();
    }

    // self.bytes == sum of the bytes of self.requests
    fn forget(&mut self) {
        while self.requests.len() > MOST_REQUESTS
            || (self.bytes > MOST_BYTES && self.requests.len() > 1)
        {
            let Some(oldest) = self.requests.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }
}

/// An open connection, counted until dropped.
pub(crate) struct Open {
    pub(crate) number: u64,
    pub(crate) handshake: Option<Arc<Handshake>>,
    ledger: Arc<Ledger>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.ledger.0.send_modify(|seen| seen.open -= 1);
    }
}

/// A generation under way, counted until dropped.
pub(crate) struct Running(Arc<Ledger>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|seen| seen.running -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_and_counts_are_not() {
        let ledger = Arc::new(Ledger::default());
        let open = ledger.connected();
        for _ in 0..MOST_REQUESTS + 5 {
            let number = ledger.arrived(&open, &Head::default());
            ledger.read(number, b"body");
            ledger.ended(number, Ending::Refused);
        }
        let seen = ledger.seen();
        assert_eq!((seen.count, seen.ended), (1_005, 1_005));
        assert_eq!(
            (seen.requests.len(), seen.requests[0].number, seen.bytes),
            (1_000, 6, 4_000)
        );
    }
}
