//! Connections to engines, of one worker.
//!
//! In: HTTP/1 connections after complete answers. Out: the one that was used last, if it is still open. None is kept for
//! longer than the servers of engines keep theirs. HTTP/2 connections never leave: each carries several requests at a time,
//! a [`Lane`] each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::link::Link;
use super::target::Key;

/// How often what is idle grows older: what may be idle for n seconds leaves after n rounds, the first of which may be short.
const ROUND: Duration = Duration::from_secs(1);
/// So many rounds an HTTP/2 connection may be idle.
const IDLE_ROAD: u64 = 60;

/// Connections.
#[derive(Debug, Default)]
pub struct Pool {
    // a worker is one thread, so nobody waits for this but for a moment who looks at it from outside
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
    roads: Mutex<HashMap<Key, Vec<Kept>>>,
    // who makes an HTTP/2 connection, one at a time for each place
    turns: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>,
    // counts time in rounds, so that no request has to ask for it
    round: AtomicU64,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: u64,
}

impl Idle {
    fn is_fresh(&self, round: u64) -> bool {
        round - self.since < self.link.limits.idle_seconds
    }
}

/// What is known of an HTTP/2 connection, beside what carries requests on it.
#[derive(Debug, Clone, Default)]
pub struct Road(Arc<State>);

#[derive(Debug, Default)]
struct State {
    running: AtomicUsize,
    closed: AtomicBool,
}

impl Road {
    /// Takes it out of use.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
    }

    /// Whether a request is on it.
    pub fn is_busy(&self) -> bool {
        self.0.running.load(Ordering::Relaxed) > 0
    }
}

#[derive(Debug)]
struct Kept {
    requests: SendRequest<Bytes>,
    road: Road,
    // when it was used last
    since: u64,
}

/// How much of a pool one address has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// HTTP/1 connections that wait for a request.
    pub idle: usize,
    /// HTTP/2 connections.
    pub connections: usize,
    /// Requests under way on those.
    pub streams: usize,
}

impl std::ops::Add for Use {
    type Output = Use;

    fn add(self, other: Use) -> Use {
        Use {
            idle: self.idle + other.idle,
            connections: self.connections + other.connections,
            streams: self.streams + other.streams,
        }
    }
}

/// The pools of all workers, to be looked at.
#[derive(Debug, Default)]
pub struct Pools(Mutex<Vec<Arc<Pool>>>);

impl Pools {
    /// Another worker's.
    pub fn add(&self, pool: Arc<Pool>) {
        self.0.lock().push(pool);
    }

    /// How much of all of them one address has.
    pub fn usage(&self, key: Key) -> Use {
        let pools = self.0.lock();
        pools
            .iter()
            .map(|pool| pool.usage(key))
            .fold(Use::default(), |sum, of_pool| sum + of_pool)
    }
}

/// A place for one request on an HTTP/2 connection; given up by dropping it.
#[derive(Debug)]
pub struct Lane {
    /// What the request is written to.
    pub requests: SendRequest<Bytes>,
    road: Road,
}

impl Lane {
    fn on(kept: &Kept) -> Lane {
        kept.road.0.running.fetch_add(1, Ordering::Relaxed);
        Lane {
            requests: kept.requests.clone(),
            road: kept.road.clone(),
        }
    }

    /// The connection.
    pub fn road(&self) -> Road {
        self.road.clone()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.road.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// A place on a connection to this place that has room: fewer than `most` requests, and than the engine allows.
    pub fn lane(&self, key: Key, most: usize) -> Option<Lane> {
        let mut roads = self.roads.lock();
        let kept = roads.get_mut(&key)?.iter_mut().find(|kept| {
            let most = most.min(kept.requests.current_max_send_streams());
            !kept.road.0.closed.load(Ordering::Relaxed)
                && kept.road.0.running.load(Ordering::Relaxed) < most
        })?;
        kept.since = self.round.load(Ordering::Relaxed);
        Some(Lane::on(kept))
    }

    /// Waits for the turn to make an HTTP/2 connection to this place: of many requests at once the first makes it, and the
    /// others find it.
    pub async fn turn(&self, key: Key) -> OwnedMutexGuard<()> {
        let turn = self.turns.lock().entry(key).or_default().clone();
        turn.lock_owned().await
    }

    /// Keeps a new HTTP/2 connection; the first place on it.
    pub fn add(&self, key: Key, requests: SendRequest<Bytes>) -> Lane {
        let kept = Kept {
            requests,
            road: Road::default(),
            since: self.round.load(Ordering::Relaxed),
        };
        let lane = Lane::on(&kept);
        self.roads.lock().entry(key).or_default().push(kept);
        lane
    }

    /// A connection to this place, if one is idle and open.
    pub fn take(&self, key: Key) -> Option<Link> {
        let round = self.round.load(Ordering::Relaxed);
        let mut all = self.idle.lock();
        let idle = all.get_mut(&key)?;
        while let Some(mut last) = idle.pop() {
            if last.is_fresh(round) && last.link.is_quiet() {
                return Some(last.link);
            }
        }
        None
    }

    /// Keeps a connection for later, if its limits let it.
    pub fn put(&self, link: Link) {
        let since = self.round.load(Ordering::Relaxed);
        let most = match link.limits.idle_seconds {
            0 => 0,
            _ => link.limits.idle,
        };
        let mut all = self.idle.lock();
        let idle = all.entry(link.key).or_default();
        if idle.len() < most {
            idle.push(Idle { link, since });
        }
    }

    /// How much of it one address has. What has broken and was not thrown out yet is not counted.
    pub fn usage(&self, key: Key) -> Use {
        let round = self.round.load(Ordering::Relaxed);
        let idle = self.idle.lock();
        let idle = idle.get(&key).into_iter().flatten();
        let idle = idle.filter(|idle| idle.is_fresh(round)).count();
        let roads = self.roads.lock();
        let roads = roads.get(&key).into_iter().flatten();
        let open = roads.filter(|kept| !kept.road.0.closed.load(Ordering::Relaxed));
        open.fold(
            Use {
                idle,
                ..Use::default()
            },
            |sum, kept| Use {
                connections: sum.connections + 1,
                streams: sum.streams + kept.road.0.running.load(Ordering::Relaxed),
                ..sum
            },
        )
    }

    /// Closes what has been idle for too long, for as long as it is polled; without it nothing is ever too old.
    pub async fn prune(self: Arc<Self>) {
        loop {
            tokio::time::sleep(ROUND).await;
            let round = self.round.fetch_add(1, Ordering::Relaxed) + 1;
            self.idle.lock().retain(|_, idle| {
                idle.retain(|idle| idle.is_fresh(round));
                !idle.is_empty()
            });
            self.roads.lock().retain(|_, roads| {
                roads.retain(|kept| {
                    let is_old = !kept.road.is_busy() && round - kept.since >= IDLE_ROAD;
                    !is_old && !kept.road.0.closed.load(Ordering::Relaxed)
                });
                !roads.is_empty()
            });
            // A turn that nobody waits for or has is in the map alone.
            self.turns
                .lock()
                .retain(|_, turn| Arc::strong_count(turn) > 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Socket;
    use greylag_filters::rules::engine::Pool as Limits;
    use tokio::net::{TcpListener, TcpStream};

    const PLACE: Key = (
        7,
        std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1),
    );

    async fn pair() -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let link = Link::on(Socket::Tcp(near.unwrap()), PLACE, limits(1024, 4));
        (link, far.unwrap().0)
    }

    fn limits(idle: usize, idle_seconds: u64) -> Limits {
        Limits {
            requests: None,
            idle,
            idle_seconds,
            streams: 100,
        }
    }

    #[tokio::test]
    async fn no_more_are_kept_than_their_limits_say() {
        for (limits, kept) in [
            (limits(2, 4), 2),
            (limits(9, 4), 3),
            (limits(9, 0), 0),
            (limits(0, 4), 0),
        ] {
            let pool = Pool::default();
            let mut far = Vec::new();
            for _ in 0..3 {
                let (mut link, peer) = pair().await;
                link.limits = limits;
                pool.put(link);
                far.push(peer);
            }
            assert_eq!(pool.usage(PLACE).idle, kept, "{limits:?}");
        }
    }

    #[tokio::test]
    async fn the_one_used_last_comes_first_and_a_closed_one_never() {
        let pool = Pool::default();
        let mut far = Vec::new();
        for received in 1..=3 {
            let (mut link, peer) = pair().await;
            link.received = received;
            pool.put(link);
            far.push(peer);
        }
        let third = pool.take(PLACE).unwrap();
        assert_eq!(third.received, 3);
        drop(far.remove(1));
        assert_eq!(pool.take(PLACE).unwrap().received, 1);
        assert!(pool.take(PLACE).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn none_is_kept_for_long() {
        let pool = Arc::new(Pool::default());
        let (link, _far) = pair().await;
        pool.put(link);
        let pruning = tokio::spawn(pool.clone().prune());
        tokio::time::sleep(Duration::from_millis(3500)).await;
        assert_eq!(pool.idle.lock().len(), 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(pool.idle.lock().len(), 0);
        pruning.abort();
    }
}
