//! Idle connections to engines, of one worker.
//!
//! In: connections after complete answers. Out: the one that was used last, if it is still open. None is kept for longer
//! than the servers of engines keep theirs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::link::Link;

/// How long a connection may be idle: three to four rounds of this long. uvicorn, in front of vLLM and SGLang, closes
/// after 5 s.
const IDLE: (u64, Duration) = (4, Duration::from_secs(1));
/// Idle connections to one address.
const MOST: usize = 1024;

/// Idle connections.
#[derive(Debug, Default)]
pub struct Pool {
    // a worker is one thread, so nobody waits for this
    idle: Mutex<HashMap<SocketAddr, Vec<Idle>>>,
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
        let (rounds, _) = IDLE;
        round - self.since < rounds
    }
}

impl Pool {
    /// A connection to `address`, if one is idle and open.
    pub fn take(&self, address: SocketAddr) -> Option<Link> {
        let round = self.round.load(Ordering::Relaxed);
        let mut all = self.idle.lock();
        let idle = all.get_mut(&address)?;
        while let Some(last) = idle.pop() {
            if last.is_fresh(round) && last.link.is_quiet() {
                return Some(last.link);
            }
        }
        None
    }

    /// Keeps a connection for later.
    pub fn put(&self, link: Link) {
        let since = self.round.load(Ordering::Relaxed);
        let mut all = self.idle.lock();
        let idle = all.entry(link.address).or_default();
        if idle.len() < MOST {
            idle.push(Idle { link, since });
        }
    }

    /// Closes what has been idle for too long, for as long as it is polled; without it nothing is ever too old.
    pub async fn prune(self: Arc<Self>) {
        let (_, pause) = IDLE;
        loop {
            tokio::time::sleep(pause).await;
            let round = self.round.fetch_add(1, Ordering::Relaxed) + 1;
            self.idle.lock().retain(|_, idle| {
                idle.retain(|idle| idle.is_fresh(round));
                !idle.is_empty()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn the_one_used_last_comes_first_and_a_closed_one_never() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pool = Pool::default();
        let mut far = Vec::new();
        for received in 1..=3 {
            let (link, peer) = tokio::join!(Link::connect(address), listener.accept());
            let mut link = link.unwrap();
            link.received = received;
            pool.put(link);
            far.push(peer.unwrap().0);
        }
        let third = pool.take(address).unwrap();
        assert_eq!(third.received, 3);
        drop(far.remove(1));
        assert_eq!(pool.take(address).unwrap().received, 1);
        assert!(pool.take(address).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn none_is_kept_for_long() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pool = Arc::new(Pool::default());
        let (link, _far) = tokio::join!(Link::connect(address), listener.accept());
        pool.put(link.unwrap());
        let pruning = tokio::spawn(pool.clone().prune());
        tokio::time::sleep(Duration::from_millis(3500)).await;
        assert_eq!(pool.idle.lock().len(), 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(pool.idle.lock().len(), 0);
        pruning.abort();
    }
}
