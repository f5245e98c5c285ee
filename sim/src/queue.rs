//! Answers laid ready for the requests to come.
//!
//! In: answers, in order or by name. Out: the one for a request. Never gives one of the row to a probe: GET and HEAD take
//! none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use crate::engine::locked;
use crate::request::Head;

/// Answers in a row, and others by name.
#[derive(Debug)]
pub(crate) struct Queue<T>(Mutex<Held<T>>);

#[derive(Debug)]
struct Held<T> {
    row: VecDeque<T>,
    named: BTreeMap<String, T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue(Mutex::new(Held {
            row: VecDeque::new(),
            named: BTreeMap::new(),
        }))
    }
}

impl<T: Clone> Queue<T> {
    pub(crate) fn extend(&self, answers: impl IntoIterator<Item = T>) {
        locked(&self.0).row.extend(answers);
    }

    pub(crate) fn insert(&self, name: &str, answer: T) {
        locked(&self.0).named.insert(name.to_owned(), answer);
    }

    /// The answer for a request, if there is one; the name where it names one that is not there.
    pub(crate) fn next<'a>(&self, head: &'a Head) -> Result<Option<T>, &'a str> {
        let mut held = locked(&self.0);
        match head.header("x-sim-script") {
            Some(name) => held.named.get(name).cloned().map(Some).ok_or(name),
            None if head.method == "GET" || head.method == "HEAD" => Ok(None),
            None => Ok(held.row.pop_front()),
        }
    }
}
