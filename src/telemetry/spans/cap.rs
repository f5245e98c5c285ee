//! A cap that all workers share, without a lock.
//!
//! In: one that asks, with its time and its luck. Out: whether it is kept. What is decided stands in
//! `greylag_filters::trace::Limiter`; here its state is kept.

use std::sync::atomic::{AtomicU64, Ordering};

use greylag_filters::meter::Offset;
use greylag_filters::trace::Limiter;

/// The state of a limiter.
#[derive(Debug, Default)]
pub struct Cap(AtomicU64);

impl Cap {
    /// One that asks at `at`, since the process began, of which at most `most` a second are kept.
    pub fn admit(&self, at: Offset, most: u16, luck: f64) -> bool {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let (next, is_kept) = Limiter::of_bits(before).admit(at, most, luck);
            let swapped = self.0.compare_exchange_weak(
                before,
                next.bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match swapped {
                Ok(_) => return is_kept,
                Err(other) => before = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn many_threads_keep_no_more_than_one_would() {
        let (cap, kept) = (Cap::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let is_kept = cap.admit(Offset::from_millis(500), 20, 0.0);
                        kept.fetch_add(u64::from(is_kept), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(kept.into_inner(), 20);
    }
}
