//! The addresses of one place, used in turn.
//!
//! In: what a name was resolved to, and which of them took no connection. Out: the order in which to try them, another one
//! first each time. One that took no connection is left to the end for a while.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long an address that took no connection is left to the end.
const LEFT_OUT: Duration = Duration::from_secs(5);
/// So many addresses of a name are used.
const MOST: usize = 64;

/// Addresses, and whose turn it is.
#[derive(Debug, Default)]
pub struct Addresses {
    // 0 <= all.len() <= MOST
    all: Vec<Place>,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Place {
    address: SocketAddr,
    // milliseconds since the process began: until then it comes last; 0: it never failed
    out_until: AtomicU64,
}

impl Place {
    fn is_out(&self, now: Duration) -> bool {
        u128::from(self.out_until.load(Ordering::Relaxed)) > now.as_millis()
    }
}

impl Addresses {
    /// These, of which none has failed.
    pub fn of(all: impl IntoIterator<Item = SocketAddr>) -> Self {
        Addresses::default().renewed(all)
    }

    /// What the name leads to by now. What stays is left out as long as before: that a name still leads there does not say
    /// that somebody listens.
    pub fn renewed(&self, all: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut places: Vec<Place> = Vec::new();
        for address in all {
            if places.len() < MOST && places.iter().all(|place| place.address != address) {
                let before = self.all.iter().find(|place| place.address == address);
                let out_until = before.map_or(0, |place| place.out_until.load(Ordering::Relaxed));
                places.push(Place {
                    address,
                    out_until: AtomicU64::new(out_until),
                });
            }
        }
        Addresses {
            all: places,
            turn: AtomicUsize::new(self.turn.load(Ordering::Relaxed)),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them in the order in which they are to be tried now: in turn, and those that took no connection last.
    pub fn in_turn(&self, now: impl FnOnce() -> Duration) -> impl Iterator<Item = SocketAddr> {
        let count = self.all.len();
        // One address has no turn to take, and no other before it.
        let (first, now) = match count {
            0 | 1 => (0, Duration::MAX),
            _ => (self.turn.fetch_add(1, Ordering::Relaxed) % count, now()),
        };
        // Looked at once, so that one that fails meanwhile is not tried twice.
        let out = self
            .all
            .iter()
            .enumerate()
            .filter(|(_, place)| place.is_out(now));
        let out: u64 = out.fold(0, |mask, (index, _)| mask | 1 << index);
        let turn = (0..count).map(move |step| (first + step) % count);
        let is_out = move |index: &usize| out >> index & 1 == 1;
        let good = turn.clone().filter(move |index| !is_out(index));
        let bad = turn.filter(is_out);
        good.chain(bad).map(|index| self.all[index].address)
    }

    /// This one took no connection.
    pub fn failed(&self, address: SocketAddr, now: Duration) {
        let until = u64::try_from((now + LEFT_OUT).as_millis()).unwrap_or(u64::MAX);
        if let Some(place) = self.all.iter().find(|place| place.address == address) {
            place.out_until.store(until, Ordering::Relaxed);
        }
    }

    /// Each, and whether it is left to the end now.
    pub fn each(&self, now: Duration) -> impl Iterator<Item = (SocketAddr, bool)> {
        let each = self.all.iter();
        each.map(move |place| (place.address, place.is_out(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(addresses: &Addresses, second: u64) -> Vec<u16> {
        let in_turn = addresses.in_turn(|| Duration::from_secs(second));
        in_turn.map(|address| address.port()).collect()
    }

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn each_is_first_in_turn() {
        let addresses = Addresses::of([1, 2, 3, 2].map(address));
        assert_eq!(ports(&addresses, 0), [1, 2, 3]);
        assert_eq!(ports(&addresses, 0), [2, 3, 1]);
        assert_eq!(ports(&addresses, 0), [3, 1, 2]);
        assert_eq!(ports(&addresses, 0), [1, 2, 3]);
        assert!(ports(&Addresses::default(), 0).is_empty());
    }

    #[test]
    fn one_that_failed_comes_last_for_a_while() {
        let addresses = Addresses::of([1, 2].map(address));
        addresses.failed(address(1), Duration::from_secs(10));
        addresses.failed(address(9), Duration::from_secs(10));
        assert_eq!(ports(&addresses, 10), [2, 1]);
        assert_eq!(ports(&addresses, 14), [2, 1]);
        assert_eq!(ports(&addresses, 15), [1, 2]);
        let out: Vec<bool> = addresses
            .each(Duration::from_secs(14))
            .map(|(_, out)| out)
            .collect();
        assert_eq!(out, [true, false]);
    }

    #[test]
    fn an_address_that_a_name_still_leads_to_is_left_out_as_long() {
        let addresses = Addresses::of([1, 2].map(address));
        addresses.failed(address(1), Duration::from_secs(10));
        let renewed = addresses.renewed([1, 3].map(address));
        assert_eq!(ports(&renewed, 11), [3, 1]);
        assert_eq!(ports(&renewed, 15), [3, 1]);
        assert_eq!(ports(&renewed, 15), [1, 3]);
    }

    #[test]
    fn if_all_failed_all_are_tried() {
        let addresses = Addresses::of([1, 2, 3].map(address));
        for port in 1..=3 {
            addresses.failed(address(port), Duration::from_secs(1));
        }
        assert_eq!(ports(&addresses, 2), [1, 2, 3]);
    }

    #[test]
    fn more_than_can_be_told_apart_are_not_used() {
        let addresses = Addresses::of((1..=100).map(address));
        assert_eq!(ports(&addresses, 0).len(), MOST);
    }
}
