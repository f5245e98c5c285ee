//! Seats for connections.
//!
//! In: a limit. Out: a seat, which is given up by dropping it, or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seats for connections, shared by all workers.
#[derive(Debug)]
pub struct Seats {
    limit: u64,
    taken: AtomicU64,
}

impl Seats {
    /// So many seats.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Seats {
            limit,
            taken: AtomicU64::new(0),
        })
    }

    /// Seats that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// A seat, if one is free.
    pub fn sit(self: &Arc<Self>) -> Option<Seat> {
        let seated = self.taken.fetch_add(1, Ordering::Relaxed) < self.limit;
        let seat = Seat(self.clone());
        seated.then_some(seat)
    }
}

/// A seat that is taken.
#[derive(Debug)]
pub struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
