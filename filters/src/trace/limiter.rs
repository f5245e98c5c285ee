//! A cap on what is kept in a second, which falls evenly on all that asks.
//!
//! In: the offset of each that asks, and a number that is spread evenly from 0 to 1. Out: whether it is kept. A bucket of
//! tokens would keep the first of each second and none of the rest, so that a burst's end is never seen; here what asks
//! is kept with a probability that falls as its rate rises, `most ÷ rate`, and nothing beyond `most` in one second.
//!
//! ```text
//! rate of a second  = what asked in the last one, if that was more than the rate then; else the mean of the two
//! kept              = luck < most ÷ max(rate, asked so far in this second)  and  kept so far in this second < most
//! ```

use crate::meter::Offset;

/// The state, small enough for one atomic number, since all workers share it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limiter {
    // the second that is counted, of those that fit
    second: u16,
    // how many a second are expected
    rate: u16,
    // how many have asked in this second
    asked: u16,
    // how many of them were kept: 0 <= kept <= most, unless `most` has fallen meanwhile
    kept: u16,
}

/// So many seconds another thread may be behind.
const BEHIND: u16 = 60;

impl Limiter {
    /// One that asks at `at`, of which at most `most` a second are kept. `luck`: from 0, included, to 1, excluded.
    #[must_use]
    pub fn admit(self, at: Offset, most: u16, luck: f64) -> (Limiter, bool) {
        let mut next = self.at(at);
        next.asked = next.asked.saturating_add(1);
        let expected = f64::from(next.rate.max(next.asked));
        let is_kept = next.kept < most && luck * expected < f64::from(most);
        next.kept += u16::from(is_kept);
        (next, is_kept)
    }

    // The same in the second of an offset. Seconds are counted round in 18 hours. One that is a little behind, as another thread's may be, is of this second.
    fn at(self, at: Offset) -> Limiter {
        let second = u16::try_from(at.as_secs() % (1 << 16)).unwrap_or(0);
        let passed = second.wrapping_sub(self.second);
        if passed == 0 || passed > u16::MAX - BEHIND {
            return self;
        }
        let rate = match self.asked >= self.rate {
            true => self.asked,
            false => self.asked.midpoint(self.rate),
        };
        Limiter {
            second,
            // In each second that nobody asked in, the rate is halved.
            rate: rate.checked_shr(u32::from(passed - 1)).unwrap_or(0),
            asked: 0,
            kept: 0,
        }
    }

    /// As one number.
    pub fn bits(self) -> u64 {
        let parts = [self.second, self.rate, self.asked, self.kept];
        parts
            .iter()
            .fold(0, |bits, part| bits << 16 | u64::from(*part))
    }

    /// What [`Limiter::bits`] was taken of.
    pub fn of_bits(bits: u64) -> Limiter {
        let part = |shift: u32| u16::try_from(bits >> shift & 0xffff).unwrap_or(0);
        Limiter {
            second: part(48),
            rate: part(32),
            asked: part(16),
            kept: part(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::Limiter;
    use crate::draw::Draw;

    // How many of `rate` a second are kept in each of these seconds, with luck by hash.
    fn run(limiter: &mut Limiter, seconds: std::ops::Range<u64>, rate: u64, most: u16) -> Vec<u16> {
        let mut kept = Vec::new();
        for second in seconds {
            let mut here = 0;
            for i in 0..rate {
                let at = Duration::from_nanos(second * 1_000_000_000 + i * 1_000_000_000 / rate);
                let luck = Draw::new(second, "luck", &i.to_be_bytes()).ratio();
                let (next, is_kept) = limiter.admit(at, most, luck);
                *limiter = next;
                here += u16::from(is_kept);
            }
            kept.push(here);
        }
        kept
    }

    #[test]
    fn what_stays_below_the_cap_is_kept() {
        let mut limiter = Limiter::default();
        assert_eq!(run(&mut limiter, 0..5, 20, 20), [20; 5]);
        assert_eq!(run(&mut limiter, 5..6, 0, 20), [0]);
        assert_eq!(run(&mut limiter, 6..9, 3, 20), [3; 3]);
    }

    #[test]
    fn what_goes_beyond_it_decays_with_its_rate_and_is_spread_over_the_second() {
        let mut limiter = Limiter::default();
        let kept = run(&mut limiter, 0..200, 2000, 20);
        assert!(kept.iter().all(|kept| *kept <= 20), "{kept:?}");
        // A steady 20 on average, less what the hard bound cuts off: 20 - 0.4 · √20.
        let settled: u16 = kept.iter().skip(1).sum();
        assert!((199 * 16..=199 * 20).contains(&settled), "{settled}");
        // Of a second, both halves are seen.
        let mut halves = [0, 0];
        for second in 200..300 {
            for i in 0..2000_u64 {
                let at = Duration::from_nanos(second * 1_000_000_000 + i * 500_000);
                let luck = Draw::new(second, "luck", &i.to_be_bytes()).ratio();
                let (next, is_kept) = limiter.admit(at, 20, luck);
                limiter = next;
                halves[usize::from(i >= 1000)] += u32::from(is_kept);
            }
        }
        assert!(halves[1] * 2 > halves[0], "{halves:?}");
    }

    #[test]
    fn a_storm_is_forgotten_in_seconds() {
        let mut limiter = Limiter::default();
        run(&mut limiter, 0..3, 50_000, 20);
        // 50,000 halved twelve times is below 20.
        let kept = run(&mut limiter, 3..30, 10, 20);
        assert_eq!(kept[13..], [10; 14]);
        run(&mut limiter, 30..31, 50_000, 20);
        assert_eq!(run(&mut limiter, 50..51, 10, 20), [10]);
    }

    #[test]
    fn a_long_rest_is_no_step_back() {
        for rest in [61, 3600, 10 * 3600, 17 * 3600, 40 * 3600] {
            let mut limiter = Limiter::default();
            run(&mut limiter, 0..1, 50, 2);
            let after = run(&mut limiter, rest..rest + 3, 1, 2);
            assert_eq!(after, [1, 1, 1], "{rest}");
        }
    }

    #[test]
    fn a_cap_of_nothing_keeps_nothing() {
        let mut limiter = Limiter::default();
        assert_eq!(run(&mut limiter, 0..3, 10, 0), [0; 3]);
    }

    #[test]
    fn time_that_goes_back_a_little_opens_no_new_second() {
        let mut limiter = Limiter::default();
        let ms = Duration::from_millis;
        let mut kept = 0;
        for i in 0..100 {
            let (next, is_kept) = limiter.admit(ms(1000 + i % 2), 5, 0.0);
            limiter = next;
            kept += u32::from(is_kept);
            let (next, is_kept) = limiter.admit(ms(999), 5, 0.0);
            limiter = next;
            kept += u32::from(is_kept);
        }
        assert_eq!(kept, 5);
    }

    proptest! {
        #[test]
        fn a_second_never_keeps_more_than_the_cap(
            bits: u64, most in 0_u16..50, asks in proptest::collection::vec((0_u64..4000, 0.0..1.0), 0..500),
        ) {
            let mut asks = asks;
            asks.sort_by_key(|(at, _)| *at);
            let mut limiter = Limiter { kept: 0, ..Limiter::of_bits(bits).at(Duration::from_secs(100_000)) };
            limiter = Limiter { second: Limiter::default().at(Duration::from_secs(99_999)).second, ..limiter };
            let mut kept = std::collections::HashMap::new();
            for (at, luck) in asks {
                let at = Duration::from_secs(100_000) + Duration::from_millis(at);
                let (next, is_kept) = limiter.admit(at, most, luck);
                limiter = next;
                *kept.entry(at.as_secs()).or_insert(0_u16) += u16::from(is_kept);
            }
            prop_assert!(kept.values().all(|kept| *kept <= most), "{kept:?}");
        }

        #[test]
        fn better_luck_never_keeps_less(bits: u64, at: u32, most: u16, luck in 0.0..1.0, better in 0.0..1.0) {
            let limiter = Limiter::of_bits(bits);
            let at = Duration::from_millis(at.into());
            let (_, with_luck) = limiter.admit(at, most, luck);
            let (_, with_better) = limiter.admit(at, most, luck * better);
            prop_assert!(with_better || !with_luck);
        }

        #[test]
        fn a_state_survives_being_one_number(bits: u64) {
            prop_assert_eq!(Limiter::of_bits(bits).bits(), bits);
        }
    }
}
