//! Takes out of a stream the one event that asking for usage has added.
//!
//! In: the bytes of a stream whose request was given `include_usage` by Greylag, in any cutting. Out: the stream as
//! it would have been without: every byte but those of the event with empty `choices` and a `usage` object, unless usage stood
//! beside choices before, which nobody had asked for: such an engine tells it anyway. Holds
//! nothing but an incomplete event, at most `limit` bytes of it: past that it gives up and passes everything on.

use crate::meter::Dialect;
use crate::meter::past::Past;
use crate::sse::{self, Seam};

/// Filters one stream.
#[derive(Debug)]
pub struct Strip {
    limit: usize,
    seam: Seam,
    // The incomplete event: held.len() <= limit.
    held: Vec<u8>,
    joined: Vec<u8>,
    past: Past,
    within: Within,
    // The CR that ended the event taken out may have an LF still to come.
    lf_too: bool,
    removed: u64,
    gave_up: bool,
    // The engine tells usage unasked, beside its choices too: what it tells at the end is then the caller's.
    is_forced: bool,
}

/// What the last byte belongs to.
///
/// ```text
///  Nothing ──":"──► Comment ──line end──► Nothing
///  Nothing ──other──► Event ──blank line──► Nothing
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Nothing,
    Comment,
    Event,
}

impl Strip {
    /// `limit`: the most bytes that are held back.
    pub fn new(limit: usize) -> Strip {
        Strip {
            limit,
            seam: Seam::default(),
            held: Vec::new(),
            joined: Vec::new(),
            past: Past::default(),
            within: Within::Nothing,
            lf_too: false,
            removed: 0,
            gave_up: false,
            is_forced: false,
        }
    }

    /// Appends to `out` what of `bytes`, and of what was held, may go on.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.gave_up || bytes.is_empty() {
            out.extend_from_slice(bytes);
            return;
        }
        let mut rest = bytes;
        loop {
            if !rest.is_empty() && std::mem::take(&mut self.lf_too) {
                rest = self.seam.after_cr(rest);
            }
            let Some(first) = rest.first() else {
                return;
            };
            if self.within == Within::Nothing {
                match first {
                    b'\n' | b'\r' => {
                        let blank = self.seam.line_end(rest).unwrap_or(rest.len());
                        rest = pass(rest, blank, out);
                        continue;
                    }
                    b':' => self.within = Within::Comment,
                    _ => self.within = Within::Event,
                }
            }
            if self.within == Within::Comment {
                let end = self.seam.line_end(rest);
                if end.is_some() {
                    self.within = Within::Nothing;
                }
                rest = pass(rest, end.unwrap_or(rest.len()), out);
                continue;
            }
            let end = self.seam.event_end(rest);
            let (part, after) = end
                .and_then(|end| rest.split_at_checked(end))
                .unwrap_or((rest, &[]));
            if self.held.len().saturating_add(part.len()) > self.limit {
                self.gave_up = true;
                out.append(&mut self.held);
                out.extend_from_slice(rest);
                return;
            }
            rest = after;
            if end.is_none() {
                self.held.extend_from_slice(part);
                return;
            }
            self.within = Within::Nothing;
            self.event(part, out);
        }
    }

    /// The stream is over: what is held goes on, unless it is the added event without its blank line.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        if !self.is_added(&held) {
            out.extend_from_slice(&held);
        }
    }

    /// How many events were taken out.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    /// An event was longer than the limit: from there on nothing is taken out.
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// A whole event: what was held of it, and its last part.
    fn event(&mut self, part: &[u8], out: &mut Vec<u8>) {
        let mut held = std::mem::take(&mut self.held);
        let raw = if held.is_empty() {
            part
        } else {
            held.extend_from_slice(part);
            &held
        };
        let added = self.is_added(raw);
        if !added {
            out.extend_from_slice(raw);
        }
        self.lf_too = added && self.seam.ended_in_cr();
        self.removed += u64::from(added);
        self.held = sse::emptied(held);
    }

    fn is_added(&mut self, raw: &[u8]) -> bool {
        // Looking for the word first spares most events a second reading.
        if self.is_forced || memchr::memmem::find(raw, b"\"usage\"").is_none() {
            return false;
        }
        let event = sse::event(raw, &mut self.joined);
        // The dialects differ inside a choice, and the added event has none.
        let answer = event.and_then(|event| Dialect::Chat.read(event.data, &mut self.past).ok());
        let Some(answer) = answer.filter(|answer| answer.has_usage && answer.has_choices) else {
            return false;
        };
        self.is_forced = answer.beside_choices;
        !answer.beside_choices && answer.error.is_none()
    }
}

fn pass<'a>(bytes: &'a [u8], count: usize, out: &mut Vec<u8>) -> &'a [u8] {
    let (passed, rest) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
    out.extend_from_slice(passed);
    rest
}

#[cfg(test)]
mod tests;
