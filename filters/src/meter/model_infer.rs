//! The answer of a unary gRPC call: one message.
//!
//! In: its body, in any cutting. Out: what the message says, into the tally. A call that fails has no message; its status
//! stands in the trailers, which are not read here.

use super::Unmetered;
use super::tally::{Tally, model};
use crate::grpc::{Message, Splitter};
use crate::triton;

/// One answer on its way in.
#[derive(Debug)]
pub(super) struct ModelInfer {
    splitter: Splitter,
}

impl ModelInfer {
    /// `limit`: the longest message that is read, in bytes.
    pub(super) fn new(limit: usize) -> ModelInfer {
        ModelInfer {
            splitter: Splitter::new(limit),
        }
    }

    pub(super) fn feed(&mut self, tally: &mut Tally, bytes: &[u8]) {
        self.splitter.feed(bytes, |message| take(tally, message));
    }

    pub(super) fn finish(self, tally: &mut Tally) {
        if self.splitter.skipped() > 0 {
            spoil(tally, Unmetered::TooLarge);
        } else if self.splitter.is_broken() {
            spoil(tally, Unmetered::Unparsable);
        }
    }
}

fn take(tally: &mut Tally, message: Message<'_>) {
    if message.compressed {
        spoil(tally, Unmetered::Compressed);
        return;
    }
    match triton::infer_answer(message.bytes) {
        // A second answer is none to this call.
        Ok(answer) if !tally.figures.terminated => {
            tally.figures.terminated = true;
            tally.figures.model = model(answer.model);
        }
        Ok(_) | Err(_) => spoil(tally, Unmetered::Unparsable),
    }
}

/// The first reason stands.
fn spoil(tally: &mut Tally, why: Unmetered) {
    let why = tally.figures.unmetered.unwrap_or(why);
    *tally = Tally::new(tally.n_is_one);
    tally.figures.unmetered = Some(why);
}
