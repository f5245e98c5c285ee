//! What the events of a stream leave for those after them.
//!
//! In: what a reader learns of one event. Out: what it needs for the next. All of it is bounded; most dialects leave
//! nothing.

use super::EngineTimes;
use super::dialect::{Counts, Opening};

/// What earlier events have left.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(super) opening: Opening,
    pub(super) shares: Shares,
    pub(super) counts: Counts,
    pub(super) engine_times: EngineTimes,
}

/// The choices of an answer that are told apart by an index, where each counts its own tokens.
#[derive(Debug, Default)]
pub(super) struct Shares {
    // each index once; shares.len() <= MOST
    shares: Vec<Share>,
    // A choice more than are told apart.
    full: bool,
}

#[derive(Debug)]
struct Share {
    index: u64,
    tokens: Option<u64>,
    ended: bool,
}

impl Shares {
    const MOST: usize = 128;

    /// Notes what an event says of a choice: its tokens so far, and whether it is over. Out: whether its tokens are more
    /// than before, if that is known.
    pub(super) fn note(&mut self, index: u64, tokens: Option<u64>, ended: bool) -> Option<bool> {
        let place = self.shares.iter().position(|share| share.index == index);
        if place.is_none() {
            if self.shares.len() == Shares::MOST {
                self.full = true;
                return None;
            }
            self.shares.push(Share {
                index,
                tokens: None,
                ended: false,
            });
        }
        let place = place.unwrap_or(self.shares.len() - 1);
        let share = self.shares.get_mut(place)?;
        let grown = tokens.map(|tokens| tokens > share.tokens.unwrap_or_default());
        share.tokens = tokens.or(share.tokens);
        share.ended |= ended;
        grown
    }

    /// More than one choice has been seen.
    pub(super) fn several(&self) -> bool {
        self.full || self.shares.len() > 1
    }

    /// The tokens of all choices together; absent where one does not say.
    pub(super) fn tokens(&self) -> Option<u64> {
        let mut shares = self.shares.iter();
        let sum = shares.try_fold(0u64, |sum, share| sum.checked_add(share.tokens?));
        sum.filter(|_| !self.full && !self.shares.is_empty())
    }

    /// All choices that are told apart are over.
    pub(super) fn ended(&self) -> bool {
        self.shares.iter().all(|share| share.ended)
    }
}
