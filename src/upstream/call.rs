//! One request to one engine, in the engine's protocol.
//!
//! In: a head and a body. Out: the answer's head, then its body in pieces, or what broke. Nothing is retried here.

use std::io;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use greylag_filters::framing::Framing;
use greylag_filters::rules::engine::Pool as PoolLimits;
use http::HeaderMap;
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::time::timeout;

use super::link::Link;
use super::{Pool, Speaks, Target, h1, h2};
use crate::exchange::Origin;

/// So much of an answer is gathered before it is passed on, if it comes that fast.
const MOST: usize = 64 << 10;

/// A request under way. Dropping it tells the engine that nobody waits for its answer.
pub enum Call {
    /// On a connection of its own.
    H1(Box<h1::Call>),
    /// As one stream of a connection.
    H2(Box<h2::Call>),
}

/// What broke between Greylag and an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// There is no connection to be had.
    Unreachable(String),
    /// The engine has as many requests as it may have at a time.
    Full(String),
    /// The engine closed the connection before its answer was whole.
    Closed,
    /// The engine reset the connection, or the stream.
    Reset,
    /// What came is no HTTP answer.
    Garbage,
    /// The caller's request cannot be said in HTTP/2: its target is no text, or its `Host` no authority.
    Unsayable,
}

/// What bounds the way to an engine.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a connection is waited for.
    pub connect: Duration,
    /// What may be open and kept.
    pub pool: PoolLimits,
}

/// How it is known that an engine has not looked at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untouched {
    /// The engine said so.
    Refused,
    /// The pooled connection broke and nothing had come on it: as far as can be told it had gone stale.
    Stale,
}

/// Which connections to an engine will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Any, those of the pool first.
    Any,
    /// For what cannot be sent twice: no idle HTTP/1.1 connection, which may have gone stale.
    Certain,
    /// A new one.
    Fresh,
    /// A new one that speaks HTTP/1.1, which alone can be switched to another protocol.
    Http1,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, NotConnected, WriteZero};
        match error.kind() {
            BrokenPipe | NotConnected | WriteZero => Broken::Closed,
            _ => Broken::Reset,
        }
    }
}

impl Call {
    /// A connection to `target`, or a place on one, of the kind that `reach` asks for: to the first of its addresses that
    /// answers, within `limits.connect` each. What failed is noted, so that others need not find it out. Cancel-safe.
    ///
    /// # Errors
    /// [`Broken::Unreachable`] with the last address's error.
    pub async fn open(
        pool: &Pool,
        target: &Target,
        limits: Limits,
        reach: Reach,
        clock: &Origin,
    ) -> Result<Call, Broken> {
        let unreachable = |what: String| {
            // Its name may lead elsewhere by now, which is looked up beside the traffic.
            target.standing.miss();
            target.standing.fails(&target.name, &what, clock.now());
            Broken::Unreachable(format!(
                "{} ({}): {what}",
                target.name,
                target.address.authority()
            ))
        };
        let limit = limits.connect;
        let addresses = match timeout(limit, target.addresses()).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(unreachable(format!("name not resolved: {error}"))),
            Err(_) => return Err(unreachable("name not resolved in time".into())),
        };
        let mut last = String::from("no address");
        for address in addresses.in_turn(|| clock.now()) {
            let opened = within(limit, Call::at(pool, target, address, (reach, limits.pool))).await;
            match opened {
                Ok(call) => return Ok(call),
                Err(error) => {
                    addresses.failed(address, clock.now());
                    target.standing.miss();
                    last = error;
                }
            }
        }
        Err(unreachable(last))
    }

    async fn at(
        pool: &Pool,
        target: &Target,
        address: SocketAddr,
        (reach, limits): (Reach, PoolLimits),
    ) -> io::Result<Call> {
        let key = target.key(address);
        let may_share = matches!(reach, Reach::Any | Reach::Certain);
        if may_share
            && let Some(call) = h2::Call::reuse(pool, key, limits.streams, target.scheme()).await
        {
            return Ok(Call::H2(Box::new(call)));
        }
        if reach == Reach::Any
            && let Some(mut link) = pool.take(key)
        {
            link.limits = limits;
            return Ok(Call::H1(Box::new(h1::Call::on(link, true))));
        }
        let _turn = match target.is_shared() && may_share {
            true => {
                let turn = pool.turn(key).await;
                let reused = h2::Call::reuse(pool, key, limits.streams, target.scheme());
                if let Some(call) = reused.await {
                    return Ok(Call::H2(Box::new(call)));
                }
                Some(turn)
            }
            false => None,
        };
        let (socket, speaks) = target.connect(address, reach == Reach::Http1).await?;
        Ok(match speaks {
            Speaks::Http1 => {
                let link = Link::on(socket, key, limits);
                Call::H1(Box::new(h1::Call::on(link, false)))
            }
            Speaks::H2 => Call::H2(Box::new(
                h2::Call::begin(pool, key, target.scheme(), socket).await?,
            )),
        })
    }

    /// Whether a pooled connection came.
    pub fn is_reused(&self) -> bool {
        match self {
            Call::H1(call) => call.reused,
            Call::H2(call) => call.is_reused(),
        }
    }

    /// Whether the request was not looked at, after a break that came before its answer.
    pub fn untouched(&self) -> Option<Untouched> {
        match self {
            Call::H1(call) => call.is_stale().then_some(Untouched::Stale),
            Call::H2(call) => call.untouched(),
        }
    }

    /// Writes the request's head, whose body has this framing. It leaves before the first wait.
    ///
    /// # Errors
    /// The head cannot be written, or the connection broke.
    pub fn write_head(&mut self, head: &RequestHeader, framing: Framing) -> Result<(), Broken> {
        match self {
            Call::H1(call) => call.write_head(head, framing),
            Call::H2(call) => call.write_head(head, framing),
        }
    }

    /// Writes a piece of the request's body.
    ///
    /// # Errors
    /// The connection broke, or the engine has begun to answer without waiting for the rest.
    pub async fn write(&mut self, piece: &Bytes) -> Result<(), Broken> {
        match self {
            Call::H1(call) => call.write(piece).await,
            Call::H2(call) => call.write(piece.clone()).await,
        }
    }

    /// Ends the request's body. What has not left does so before the next wait.
    ///
    /// # Errors
    /// The body is shorter than its head says, or the connection broke.
    pub fn finish(&mut self) -> Result<(), Broken> {
        match self {
            Call::H1(call) => call.finish(),
            Call::H2(call) => call.finish(),
        }
    }

    /// Reads the answer's next head: interim ones (1xx) come first, the last one is the answer's. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read_head(&mut self) -> Result<Box<ResponseHeader>, Broken> {
        match self {
            Call::H1(call) => call.read_head().await,
            Call::H2(call) => call.read_head().await,
        }
    }

    /// Whether the answer has ended with its head.
    pub fn is_over(&self) -> bool {
        match self {
            // Its framing says so to the client too.
            Call::H1(_) => false,
            Call::H2(call) => call.is_over(),
        }
    }

    /// Whether the answer says where its end is.
    pub fn is_framed(&self) -> bool {
        match self {
            Call::H1(call) => call.is_framed(),
            Call::H2(_) => true,
        }
    }

    /// Adds to `out` the next piece of the answer's body: all that has come, up to a bound. False: it is whole, and `out`
    /// has its end. A break is told after what came before it. Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, Broken> {
        match self {
            Call::H1(call) => call.read(out).await,
            Call::H2(call) => call.read(out).await,
        }
    }

    /// What came after the body.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        match self {
            Call::H1(_) => None,
            Call::H2(call) => call.trailers(),
        }
    }

    /// Gives the connection back, after a complete answer to a completely written request.
    pub fn release(self, pool: &Pool) {
        match self {
            Call::H1(call) => call.release(pool),
            // Its stream has ended; the connection never left the pool.
            Call::H2(_) => {}
        }
    }
}

/// Gathers pieces until there is no more for now, or much: a break that comes with bytes before it waits in `failed` for the
/// next time. Ready with false: the answer is whole.
pub(super) fn gather(
    failed: &mut Option<Broken>,
    out: &mut Vec<u8>,
    mut piece: impl FnMut(&mut Vec<u8>) -> Poll<Result<bool, Broken>>,
) -> Poll<Result<bool, Broken>> {
    if let Some(failed) = failed.take() {
        return Poll::Ready(Err(failed));
    }
    let before = out.len();
    loop {
        let more = piece(out);
        let has_some = out.len() > before;
        match more {
            Poll::Pending if has_some => return Poll::Ready(Ok(true)),
            Poll::Ready(Err(broken)) if has_some => {
                *failed = Some(broken);
                return Poll::Ready(Ok(true));
            }
            Poll::Ready(Ok(true)) if out.len() < MOST => {}
            end => return end,
        }
    }
}

async fn within<T>(
    limit: Duration,
    opened: impl Future<Output = io::Result<T>>,
) -> Result<T, String> {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match timeout(limit, opened).await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(error)) => Err(match error.kind() {
            ConnectionRefused => "connection refused".into(),
            HostUnreachable | NetworkUnreachable => "no route".into(),
            _ => error.to_string(),
        }),
        Err(_) => Err(format!(
            "no connection within {}",
            humantime::format_duration(limit)
        )),
    }
}
