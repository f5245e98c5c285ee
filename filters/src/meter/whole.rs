//! A plain answer: one JSON value, and perhaps tensors after it.
//!
//! In: its bytes. Out: what it says, into the tally, once it is whole. An answer that comes in one piece is read
//! where it lies; one that does not is gathered, up to the limit. Tensors are never gathered.

use super::tally::Tally;
use super::{Dialect, Unmetered};

/// One JSON answer on its way in.
#[derive(Debug)]
pub(super) struct Whole {
    limit: usize,
    /// How many bytes are JSON, if not all are.
    pub(super) json: Option<usize>,
    // All bytes of JSON so far, kept or not.
    size: usize,
    // held.len() <= limit
    held: Vec<u8>,
    stage: Stage,
    // Text or sound is as good an answer.
    or_media: bool,
}

/// ```text
///  Gathering ──a first piece that is whole──► Read ──more──► Spoilt
///      ├────────────more than the limit─────► Spoilt
///      └──what begins as no object, if it may──► Media
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gathering,
    Read,
    Spoilt,
    Media,
}

impl Whole {
    /// `limit`: the longest answer that is read, in bytes.
    pub(super) fn new(limit: usize) -> Whole {
        Whole {
            limit,
            json: None,
            size: 0,
            held: Vec::new(),
            stage: Stage::Gathering,
            or_media: false,
        }
    }

    /// The same, for an answer that may as well be text or sound: what does not begin as an object is not gathered.
    pub(super) fn or_media(limit: usize) -> Whole {
        Whole {
            or_media: true,
            ..Whole::new(limit)
        }
    }

    pub(super) fn feed(&mut self, dialect: Dialect, tally: &mut Tally, bytes: &[u8]) {
        let left = self.json.map(|json| json.saturating_sub(self.size));
        let bytes = left.and_then(|left| bytes.get(..left)).unwrap_or(bytes);
        self.size = self.size.saturating_add(bytes.len());
        if self.stage == Stage::Media {
            return;
        }
        if self.or_media && self.held.is_empty() && self.stage == Stage::Gathering {
            match bytes.trim_ascii_start().first() {
                Some(b'{') => {}
                Some(_) => return self.pass(tally),
                // Nothing yet that could be told; white space before an object means nothing.
                None => return,
            }
        }
        if self.size > self.limit {
            self.spoil(tally, Unmetered::TooLarge);
            return;
        }
        match self.stage {
            Stage::Gathering => {
                let first = self.held.is_empty();
                if first && ends_an_object(bytes) && tally.whole(dialect, bytes) {
                    self.stage = Stage::Read;
                } else {
                    self.held.extend_from_slice(bytes);
                }
            }
            Stage::Read if bytes.iter().all(|byte| b" \t\r\n".contains(byte)) => {}
            Stage::Read => self.spoil(tally, Unmetered::Unparsable),
            Stage::Spoilt | Stage::Media => {}
        }
    }

    /// What is no JSON is let pass.
    fn pass(&mut self, tally: &mut Tally) {
        tally.figures.unmetered = Some(Unmetered::NotJson);
        tally.figures.terminated = true;
        self.stage = Stage::Media;
    }

    pub(super) fn finish(mut self, dialect: Dialect, tally: &mut Tally) {
        if self.stage == Stage::Gathering && self.or_media && self.held.is_empty() {
            self.pass(tally);
        } else if self.stage == Stage::Gathering && !tally.whole(dialect, &self.held) {
            self.spoil(tally, Unmetered::Unparsable);
        }
    }

    fn spoil(&mut self, tally: &mut Tally, why: Unmetered) {
        *tally = Tally::new(tally.n_is_one);
        tally.figures.unmetered = Some(why);
        self.stage = Stage::Spoilt;
        self.held = Vec::new();
    }
}

/// Whether a piece may be a whole answer: only then is it worth a look before the end.
fn ends_an_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().last() == Some(&b'}')
}
