//! The memory that all bodies together may hold.
//!
//! In: a number of bytes wanted. Out: a share that is given back when it is dropped, or nothing: a caller never waits
//! for memory, it is told that there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bounded number of bytes, shared by whoever holds some.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    // 0 <= taken <= limit
    taken: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Budget {
            limit,
            taken: AtomicU64::new(0),
        })
    }

    /// All there is, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The bytes in use.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// An empty share.
    pub fn share(self: &Arc<Self>) -> BudgetShare {
        BudgetShare {
            budget: self.clone(),
            held: 0,
        }
    }

    fn take(&self, bytes: u64) -> bool {
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                taken.checked_add(bytes).filter(|sum| *sum <= self.limit)
            })
            .is_ok()
    }
}

/// What one holder has of a [`Budget`].
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<Budget>,
    held: u64,
}

impl BudgetShare {
    /// Takes `bytes` more; false, and nothing taken, when they are not there.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let granted = self.budget.take(bytes);
        if granted {
            self.held += bytes;
        }
        granted
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_given_back_whole() {
        let budget = Budget::new(10);
        let mut one = budget.share();
        let mut two = budget.share();
        assert!(one.grow(6));
        assert!(!two.grow(5));
        assert!(two.grow(4));
        assert!(!one.grow(u64::MAX));
        assert_eq!(budget.taken(), 10);
        drop(one);
        assert_eq!(budget.taken(), 4);
        drop(two);
        assert_eq!(budget.taken(), 0);
    }
}
