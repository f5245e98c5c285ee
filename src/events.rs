//! What has happened, for those who follow it through the API.
//!
//! In: a kind, and what there is to say. Out: events in order, each with a number, to whoever asks for those after one. The last ones
//! are kept, so that who was away for a while misses nothing; who was away for longer is told so. Nobody waits for a reader.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

/// So many are kept, and so many bytes of them.
const MOST: (usize, usize) = (1000, 1 << 20);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A version of the rules was published.
    Version,
    /// An engine went down or came up.
    Engine,
    /// A switch was turned.
    Switch,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Version, Kind::Engine, Kind::Switch];

    /// What it is called in a stream of events.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Version => "version",
            Kind::Engine => "engine",
            Kind::Switch => "switch",
        }
    }
}

/// One event.
#[derive(Debug)]
pub struct Event {
    /// Its number: they are counted from 1.
    pub number: u64,
    /// What happened.
    pub kind: Kind,
    /// More about it, as JSON on one line.
    pub data: Box<str>,
}

/// The last events.
#[derive(Debug)]
pub struct Events {
    kept: Mutex<Kept>,
    // the number of the newest
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    // in order, without gaps between their numbers
    events: VecDeque<Arc<Event>>,
    // of their data; bytes <= MOST.1, but for a single event
    bytes: usize,
    last: u64,
}

/// What there is after a number.
#[derive(Debug)]
pub struct After {
    /// The events, oldest first.
    pub events: Vec<Arc<Event>>,
    /// How many between the number and these are no longer kept.
    pub missed: u64,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            kept: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }
}

impl Events {
    /// Takes one in.
    pub fn tell(&self, kind: Kind, data: &impl Serialize) {
        // What is told has names for keys, so it can be written.
        let Ok(data) = serde_json::to_string(data) else {
            return;
        };
        let mut kept = self.kept.lock();
        kept.last += 1;
        kept.bytes += data.len();
        let event = Event {
            number: kept.last,
            kind,
            data: data.into(),
        };
        kept.events.push_back(Arc::new(event));
        while kept.events.len() > MOST.0 || (kept.bytes > MOST.1 && kept.events.len() > 1) {
            let Some(oldest) = kept.events.pop_front() else {
                break;
            };
            kept.bytes -= oldest.data.len();
        }
        self.newest.send_replace(kept.last);
    }

    /// The number of the newest; 0 before the first.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// The events after a number, as far as they are kept.
    pub fn after(&self, number: u64) -> After {
        let kept = self.kept.lock();
        let oldest = kept
            .events
            .front()
            .map_or(kept.last + 1, |event| event.number);
        let events = kept.events.iter();
        After {
            missed: oldest.saturating_sub(number.saturating_add(1)),
            events: events
                .filter(|event| event.number > number)
                .cloned()
                .collect(),
        }
    }

    /// Ends when there is one after that number.
    pub async fn is_after(&self, number: u64) {
        let mut newest = self.newest.subscribe();
        // The sender lives as long as this does.
        let _ = newest.wait_for(|newest| *newest > number).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(after: &After) -> Vec<u64> {
        after.events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn the_last_ones_are_kept_and_the_others_are_counted() {
        let events = Events::default();
        assert_eq!((events.newest(), events.after(0).missed), (0, 0));
        for _ in 0..MOST.0 + 5 {
            events.tell(Kind::Switch, &"on");
        }
        let all = events.after(0);
        assert_eq!((all.missed, all.events.len()), (5, MOST.0));
        assert_eq!(numbers(&events.after(1003)), [1004, 1005]);
        assert_eq!(events.after(1003).missed, 0);
        assert_eq!(numbers(&events.after(1005)), [0; 0]);
        assert_eq!(
            (
                events.after(u64::MAX).missed,
                numbers(&events.after(u64::MAX)).len()
            ),
            (0, 0)
        );
    }

    #[test]
    fn what_is_kept_is_bounded_by_bytes_too() {
        let events = Events::default();
        let long = "x".repeat(MOST.1 / 4);
        for _ in 0..8 {
            events.tell(Kind::Version, &long);
        }
        let all = events.after(0);
        assert!((1..=4).contains(&all.events.len()), "{}", all.events.len());
        assert_eq!(all.missed + all.events.len() as u64, 8);
    }

    #[tokio::test]
    async fn whoever_follows_is_woken() {
        let events = Arc::new(Events::default());
        let following = events.clone();
        let follows = tokio::spawn(async move {
            following.is_after(0).await;
            numbers(&following.after(0))
        });
        tokio::task::yield_now().await;
        events.tell(Kind::Engine, &"down");
        assert_eq!(follows.await.unwrap(), [1]);
    }
}
