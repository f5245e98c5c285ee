//! How often somebody has failed of late.
//!
//! In: peers, and the offsets at which they failed. Out: how long one has to wait. Never holds more than so many peers:
//! the one that has been quiet for longest makes room.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::meter::Offset;

/// So many failures within [`WINDOW`], and a peer has to wait.
pub const ALLOWED: usize = 10;
/// How long a failure counts.
pub const WINDOW: Duration = Duration::from_secs(60);
/// The most peers that are remembered.
const MOST: usize = 1024;

/// Who has failed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Peer {
    /// An address; of IPv6 the network of 64 bits, since whoever has one of its addresses has them all.
    Ip(IpAddr),
    /// A user of this machine.
    User(u32),
}

impl Peer {
    /// The peer of an address.
    pub fn at(address: IpAddr) -> Peer {
        Peer::Ip(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            // Whoever is on this machine has all of its addresses.
            IpAddr::V4(address) if address.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V4(address) => IpAddr::V4(address),
        })
    }
}

/// The failures of all peers.
#[derive(Debug, Default)]
pub struct Tries(HashMap<Peer, Failures>);

// The last failures of one peer, as a ring: `next` is the oldest once all places are taken.
#[derive(Debug)]
struct Failures {
    at: [Option<Offset>; ALLOWED],
    next: usize,
    last: Offset,
}

impl Tries {
    /// How long a peer has to wait, if it has to.
    pub fn wait(&self, peer: Peer, now: Offset) -> Option<Duration> {
        let failures = self.0.get(&peer)?;
        let oldest = failures.at.get(failures.next).copied().flatten()?;
        let left = (oldest + WINDOW).checked_sub(now);
        left.filter(|left| !left.is_zero())
    }

    /// A peer has failed.
    pub fn failed(&mut self, peer: Peer, now: Offset) {
        if self.0.len() >= MOST && !self.0.contains_key(&peer) {
            self.make_room();
        }
        let failures = self.0.entry(peer).or_insert(Failures {
            at: [None; ALLOWED],
            next: 0,
            last: now,
        });
        if let Some(place) = failures.at.get_mut(failures.next) {
            *place = Some(now);
        }
        failures.next = (failures.next + 1) % ALLOWED;
        failures.last = now;
    }

    fn make_room(&mut self) {
        let quietest = self
            .0
            .iter()
            .min_by_key(|(peer, failures)| (failures.last, **peer));
        if let Some(peer) = quietest.map(|(peer, _)| *peer) {
            self.0.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(seconds: u64) -> Offset {
        Offset::from_secs(seconds)
    }

    fn peer(address: &str) -> Peer {
        Peer::at(address.parse().unwrap())
    }

    #[test]
    fn the_eleventh_try_waits_until_the_first_is_a_minute_old() {
        let (mut tries, one) = (Tries::default(), peer("10.0.0.1"));
        for second in 0..10 {
            assert_eq!(tries.wait(one, s(second)), None);
            tries.failed(one, s(second));
        }
        let waits = |left| Some(Duration::from_secs(left));
        assert_eq!(tries.wait(one, s(9)), waits(51));
        assert_eq!(tries.wait(one, s(30)), waits(30));
        assert_eq!(tries.wait(one, s(59)), waits(1));
        assert_eq!(tries.wait(one, s(60)), None);
        // One more, and the second one's age counts.
        tries.failed(one, s(60));
        assert_eq!(tries.wait(one, s(60)), waits(1));
        assert_eq!(tries.wait(one, s(61)), None);
        // Others go on.
        assert_eq!(tries.wait(peer("10.0.0.2"), s(9)), None);
        assert_eq!(tries.wait(Peer::User(0), s(9)), None);
    }

    #[test]
    fn a_network_of_64_bits_is_one_peer() {
        let check = |a: &str, b: &str, same: bool| assert_eq!(peer(a) == peer(b), same, "{a} {b}");
        check("2001:db8::1", "2001:db8::ffff:2", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
        check("10.0.0.1", "10.0.0.2", false);
        check("::ffff:10.0.0.1", "10.0.0.1", true);
    }

    #[test]
    fn the_quietest_makes_room() {
        let mut tries = Tries::default();
        let old = peer("10.0.0.1");
        for _ in 0..ALLOWED {
            tries.failed(old, s(0));
        }
        for number in 0..u32::try_from(MOST).unwrap() {
            tries.failed(Peer::User(number), s(1));
        }
        assert_eq!(tries.0.len(), MOST);
        assert_eq!(tries.wait(old, s(2)), None);
    }

    proptest! {
        #[test]
        fn no_peer_fails_more_often_than_is_allowed_within_a_window(
            steps in prop::collection::vec((0_u32..3, 0_u64..20_000), 0..300),
        ) {
            let (mut tries, mut now) = (Tries::default(), Duration::ZERO);
            let mut failed: Vec<(u32, Duration)> = Vec::new();
            for (user, step) in steps {
                now += Duration::from_millis(step);
                let within = failed.iter().filter(|(who, at)| *who == user && now < *at + WINDOW).count();
                let wait = tries.wait(Peer::User(user), now);
                prop_assert_eq!(wait.is_some(), within >= ALLOWED);
                if let Some(wait) = wait {
                    // Once it has waited, it may try again.
                    prop_assert!(wait <= WINDOW);
                    prop_assert_eq!(tries.wait(Peer::User(user), now + wait), None);
                } else {
                    tries.failed(Peer::User(user), now);
                    failed.push((user, now));
                }
            }
        }
    }
}
