//! A streamed answer as events: a story told by vLLM's writer.
//!
//! In: a story. Out: beats, each the events that leave together after one wait. Lazy, so that a long answer costs no
//! memory; never frames or sends anything.

use std::time::Duration;

use crate::story::{Finish, Story};
use crate::vllm::{DONE, KEEP_ALIVE, Writer};

/// What leaves together.
pub(crate) struct Beat {
    pub(crate) wait: Duration,
    pub(crate) events: Vec<Event>,
}

/// One event, or comments.
pub(crate) struct Event {
    pub(crate) text: String,
    /// `Some` for a token event.
    pub(crate) tokens: Option<(u64, Option<Finish>)>,
    /// Starts a write of its own.
    pub(crate) apart: bool,
}

/// An iterator over the beats of one stream.
pub(crate) struct Events {
    story: Story,
    writer: Writer,
    comments: usize,
    no_done: bool,
    begun: bool,
    over: bool,
}

impl Events {
    pub(crate) fn new(story: Story, writer: Writer, comments: u32, no_done: bool) -> Events {
        Events {
            story,
            writer,
            comments: comments as usize,
            no_done,
            begun: false,
            over: false,
        }
    }

    /// The bytes of all events to come, without chunk framing.
    pub(crate) fn length(beats: &[Beat]) -> usize {
        beats
            .iter()
            .flat_map(|beat| &beat.events)
            .map(|event| event.text.len())
            .sum()
    }
}

impl Iterator for Events {
    type Item = Beat;

    fn next(&mut self) -> Option<Beat> {
        let plain = |text: String, apart| Event {
            text,
            tokens: None,
            apart,
        };
        let Some(step) = self.story.next() else {
            if std::mem::replace(&mut self.over, true) {
                return None;
            }
            let done = (!self.no_done).then(|| DONE.to_owned());
            let events = self
                .writer
                .usage()
                .into_iter()
                .chain(done)
                .map(|text| plain(text, true))
                .collect();
            return Some(Beat {
                wait: Duration::ZERO,
                events,
            });
        };
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            events.extend(
                (0..self.story.choices())
                    .filter_map(|index| self.writer.role(index))
                    .map(|text| plain(text, false)),
            );
        }
        for delta in &step.deltas {
            let text = self.writer.delta(delta);
            events.push(Event {
                text,
                tokens: Some((delta.tokens, delta.finish)),
                apart: false,
            });
            events.extend((0..self.comments).map(|_| plain(KEEP_ALIVE.to_owned(), false)));
        }
        Some(Beat {
            wait: step.wait,
            events,
        })
    }
}
