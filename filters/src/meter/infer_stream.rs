//! Reads the requests and the answers of one `ModelStreamInfer` call, in which many run at once.
//!
//! In: the messages of both ways in the order in which they passed, each with the time it was read. Out: the figures of
//! each request when it is over. An answer belongs to the request whose `id` it repeats; of several with one id, the empty
//! one too, to the one that came first. Holds an id and figures for each open request, so many and no more, and nothing of
//! what messages carry.
//!
//! A request is over when an answer says so (`triton_final_response`), when it fails before its model ran, and at the
//! latest when the call is. Where two open requests have one id and the end of the first is not marked, the wire does not
//! tell their answers apart: both are then marked as [`Unmetered::Ambiguous`].

use std::collections::VecDeque;
use std::time::Duration;

use super::tally::model;
use super::{Fed, Figures, InStreamError, Offset, Unmetered};
use crate::grpc::Message;
use crate::triton::{self, Answer};

/// The requests of one call.
#[derive(Debug)]
pub struct InferStream {
    most: usize,
    // The requests that are not over, in the order in which they came: open.len() <= most.
    open: VecDeque<Open>,
    tally: StreamTally,
    // A request that may have had no id is not among the open ones, so answers without an id cannot be told apart.
    nameless_lost: bool,
}

#[derive(Debug)]
struct Open {
    metered: Metered,
    // Another with this id was open when this one came, or came while it was open.
    shares_id: bool,
}

impl Open {
    fn is_named(&self, id: &[u8]) -> bool {
        self.metered.id.as_bytes() == id
    }

    fn mark(&mut self, why: Unmetered) {
        self.metered.figures.unmetered.get_or_insert(why);
    }
}

/// One request of a call, with what has come for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metered {
    /// Its id, up to [`Metered::LONGEST_ID`] bytes; may be empty.
    pub id: Box<str>,
    /// When it was read.
    pub asked: Offset,
    /// What came for it. `events` are its answers, `terminated` says that the last of them was marked or that it failed
    /// for good. Offsets are those of the exchange, as `asked` is.
    pub figures: Figures,
}

impl Metered {
    /// The longest id that is held, in bytes; a request with a longer one is not metered.
    pub const LONGEST_ID: usize = 256;

    /// From the request to its first token event.
    pub fn first_token_after(&self) -> Option<Duration> {
        let first = self.figures.first_token?;
        Some(first.saturating_sub(self.asked))
    }
}

/// A request of a sequence, whose requests must all reach one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSequence {
    /// The model that it names.
    pub model: Option<Box<str>>,
    /// What it says beside its tensors.
    pub request: triton::Request,
}

/// What is counted of a call beside its metered requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTally {
    /// Requests that were read or missed, metered or not.
    pub requests: u64,
    /// Requests without figures: too many were open, their id was too long, or they could not be read.
    pub unmetered: u64,
    /// Answers to no request that is open.
    pub strays: u64,
    /// Of these, the ones that report an error.
    pub stray_errors: u64,
    /// Answers that could not be read. Each request that was open then has its figures marked.
    pub unread: u64,
}

/// What one answer brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Its token event, if it bears one, and the gap from the one before of the same request.
    pub fed: Fed,
    /// The request that is over with it.
    pub finished: Option<Metered>,
}

impl InferStream {
    /// `most`: how many requests may be open at once and still be metered.
    pub fn new(most: usize) -> InferStream {
        InferStream {
            most,
            open: VecDeque::new(),
            tally: StreamTally::default(),
            nameless_lost: false,
        }
    }

    /// Reads a request, which was read at `at`. Some: it belongs to a sequence.
    pub fn request(&mut self, at: Offset, message: Message<'_>) -> Option<InSequence> {
        if message.compressed {
            self.skipped_request();
            return None;
        }
        let Ok(asked) = triton::message(message.bytes) else {
            self.skipped_request();
            return None;
        };
        self.begin(at, &asked);
        asked.request.sequence.is_some().then(|| InSequence {
            model: triton::text(asked.model),
            request: asked.request,
        })
    }

    fn begin(&mut self, at: Offset, asked: &triton::Asked<'_>) {
        self.tally.requests += 1;
        let nameless = asked.id.is_empty();
        let id = std::str::from_utf8(asked.id)
            .ok()
            .filter(|id| id.len() <= Metered::LONGEST_ID)
            .filter(|_| self.open.len() < self.most && !(nameless && self.nameless_lost));
        let Some(id) = id else {
            self.tally.unmetered += 1;
            self.nameless_lost |= nameless;
            return;
        };
        let mut shares_id = false;
        for open in &mut self.open {
            if open.is_named(asked.id) {
                (open.shares_id, shares_id) = (true, true);
            }
        }
        let figures = Figures {
            one_choice: true,
            ends_with_body: !asked.request.wants_final,
            ..Figures::default()
        };
        self.open.push_back(Open {
            metered: Metered {
                id: id.into(),
                asked: at,
                figures,
            },
            shares_id,
        });
    }

    /// A request passed that could not be looked at: longer than what is read, or unreadable.
    pub fn skipped_request(&mut self) {
        self.tally.requests += 1;
        self.tally.unmetered += 1;
        self.nameless_lost = true;
    }

    /// Reads an answer, which was read at `at`.
    pub fn answer(&mut self, at: Offset, message: Message<'_>) -> Heard {
        if message.compressed {
            self.skipped_answer(Unmetered::Compressed);
            return Heard::default();
        }
        let Ok(answer) = triton::stream_answer(message.bytes) else {
            self.skipped_answer(Unmetered::Unparsable);
            return Heard::default();
        };
        let Some(place) = self.place(&answer) else {
            self.tally.strays += 1;
            self.tally.stray_errors += u64::from(answer.has_error);
            return Heard::default();
        };
        let Some(Open { metered, shares_id }) = self.open.get_mut(place) else {
            return Heard::default();
        };
        let fed = metered.figures.hear(at, &answer);
        if metered.figures.terminated {
            let finished = self.open.remove(place).map(|open| open.metered);
            return Heard { fed, finished };
        }
        if *shares_id && metered.figures.ends_with_body {
            self.doubt(place);
        }
        Heard {
            fed,
            finished: None,
        }
    }

    /// The request at `place` has had an answer that was not its last, or was and did not say so. Those behind it with the
    /// same id cannot be told from it any more.
    fn doubt(&mut self, place: usize) {
        let Some(first) = self.open.get_mut(place) else {
            return;
        };
        // Lent, so that nothing is copied for each answer.
        let id = std::mem::take(&mut first.metered.id);
        let mut others = false;
        for open in self.open.iter_mut().skip(place + 1) {
            if open.is_named(id.as_bytes()) {
                open.mark(Unmetered::Ambiguous);
                others = true;
            }
        }
        if let Some(first) = self.open.get_mut(place) {
            first.metered.id = id;
            if others {
                first.mark(Unmetered::Ambiguous);
            }
        }
    }

    /// An answer passed that could not be looked at. Whose it was is not known, so every open request is marked with `why`.
    pub fn skipped_answer(&mut self, why: Unmetered) {
        self.tally.unread += 1;
        for open in &mut self.open {
            open.mark(why);
        }
    }

    /// How many requests are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The call is over: the requests that are still open, in the order in which they came, and what else was counted.
    pub fn finish(self) -> (impl Iterator<Item = Metered>, StreamTally) {
        let open = self.open.into_iter().map(|open| open.metered);
        (open, self.tally)
    }

    /// Which of the open requests an answer is for. An error without an id is for the only one there is, if so.
    fn place(&self, answer: &Answer<'_>) -> Option<usize> {
        let found = self.open.iter().position(|open| open.is_named(answer.id));
        let only = answer.id.is_empty() && answer.has_error && self.open.len() == 1;
        found.or(only.then_some(0))
    }
}

impl Figures {
    /// Adds one answer to those of its request.
    fn hear(&mut self, at: Offset, answer: &Answer<'_>) -> Fed {
        self.events += 1;
        if self.model.is_none() {
            self.model = model(answer.model);
        }
        // What fails before its model ran has no more to come, and nothing says so.
        self.terminated = answer.is_final.unwrap_or(answer.has_error);
        if answer.has_error {
            self.error.get_or_insert(InStreamError::default());
            return Fed::default();
        }
        if !answer.bears_output {
            return Fed::default();
        }
        let gap = self.last_token.map(|before| at.saturating_sub(before));
        self.token_events += 1;
        self.first_token.get_or_insert(at);
        self.first_token_event.get_or_insert(self.events);
        self.last_token = Some(at);
        if answer.shows_text {
            self.first_output.get_or_insert(at);
        }
        Fed {
            token_events: 1,
            gap,
        }
    }
}
