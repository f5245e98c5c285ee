//! Where what was begun goes on.
//!
//! In: keys of conversations that an engine keeps state of, and the engine that began each. Out: that engine, for those that
//! follow. So many are remembered and no more: the one that began first is forgotten first.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// The engines of what was begun.
#[derive(Debug)]
pub struct Followed<K> {
    most: usize,
    // with the turn in which it began
    engines: HashMap<K, (u64, Arc<str>)>,
    // Keys and turns in order. One that has ended stays until its turn comes, so
    // engines.len() <= begun.len() <= 2 * most.
    begun: VecDeque<(u64, K)>,
    turn: u64,
}

impl<K: Clone + Eq + Hash> Followed<K> {
    /// Remembers `most` at a time, at least one.
    pub fn new(most: usize) -> Followed<K> {
        Followed {
            most: most.max(1),
            engines: HashMap::new(),
            begun: VecDeque::new(),
            turn: 0,
        }
    }

    /// The name of the engine that began this.
    pub fn engine(&self, key: &K) -> Option<&Arc<str>> {
        self.engines.get(key).map(|(_, engine)| engine)
    }

    /// Notes that `engine` has this from now on.
    pub fn begin(&mut self, key: K, engine: Arc<str>) {
        if let Some((_, there)) = self.engines.get_mut(&key) {
            *there = engine;
            return;
        }
        self.turn += 1;
        self.engines.insert(key.clone(), (self.turn, engine));
        self.begun.push_back((self.turn, key));
        while self.engines.len() > self.most {
            self.forget_first();
        }
        if self.begun.len() > 2 * self.most {
            let engines = &self.engines;
            self.begun
                .retain(|(turn, key)| is_turn(engines, key, *turn));
        }
    }

    /// Forgets it.
    pub fn end(&mut self, key: &K) {
        self.engines.remove(key);
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.engines.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.engines.is_empty()
    }

    fn forget_first(&mut self) {
        if let Some((turn, key)) = self.begun.pop_front()
            && is_turn(&self.engines, &key, turn)
        {
            self.engines.remove(&key);
        }
    }
}

// Whether what is there began in that turn: it may have ended and begun anew.
fn is_turn<K: Eq + Hash>(engines: &HashMap<K, (u64, Arc<str>)>, key: &K, turn: u64) -> bool {
    engines.get(key).is_some_and(|(began, _)| *began == turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_begun_goes_on_until_it_ends() {
        let mut followed = Followed::new(10);
        followed.begin(7, "a".into());
        assert_eq!(followed.engine(&7).map(|engine| &**engine), Some("a"));
        followed.begin(7, "b".into());
        assert_eq!(followed.engine(&7).map(|engine| &**engine), Some("b"));
        followed.end(&7);
        assert!(followed.engine(&7).is_none() && followed.is_empty());
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut followed = Followed::new(2);
        for key in 0..3 {
            followed.begin(key, "a".into());
        }
        assert!(followed.engine(&0).is_none());
        assert!(followed.engine(&1).is_some() && followed.engine(&2).is_some());
    }

    proptest! {
        #[test]
        fn no_more_are_held_than_said(most in 0_usize..5, acts in proptest::collection::vec((any::<bool>(), 0_u8..9), 0..200)) {
            let mut followed = Followed::new(most);
            for (begins, key) in acts {
                if begins {
                    followed.begin(key, "a".into());
                    prop_assert!(followed.engine(&key).is_some());
                } else {
                    followed.end(&key);
                    prop_assert!(followed.engine(&key).is_none());
                }
                prop_assert!(followed.len() <= most.max(1));
                prop_assert!(followed.begun.len() <= 2 * most.max(1));
            }
        }
    }
}
