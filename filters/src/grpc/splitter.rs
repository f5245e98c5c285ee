//! Cuts a gRPC body into its messages: a flag, a big-endian length of four bytes, and so many bytes.
//!
//! In: bytes, in any cutting. Out: whole messages, in order, borrowed from those bytes where they came whole. Never holds
//! more than `limit` bytes; a message longer than that is skipped and counted, and those after it are read. Bytes that are
//! passed on go never through here.

use crate::sse::emptied;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Whether `bytes` are compressed, by what `grpc-encoding` names.
    pub compressed: bool,
    /// The message, as it stands on the wire.
    pub bytes: &'a [u8],
}

/// Finds the messages of one direction of one call.
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    stage: Stage,
    // The message that is cut between feeds: held.len() <= limit.
    held: Vec<u8>,
    skipped: u64,
}

/// ```text
///  Prefix ──five bytes──► Inside or Skipping ──all its bytes──► Prefix
///     └──a flag that does not exist──► Broken
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    // so many bytes of a prefix, and how many they are: fewer than five
    Prefix([u8; PREFIX], usize),
    // so many bytes of a message are missing, at least one
    Inside { compressed: bool, missing: usize },
    // the same of a message that is too long
    Skipping { missing: usize },
    Broken,
}

const PREFIX: usize = 5;
const START: Stage = Stage::Prefix([0; PREFIX], 0);

impl Splitter {
    /// `limit`: the most bytes a message may have, and so the most that is ever held.
    pub fn new(limit: usize) -> Splitter {
        Splitter {
            limit,
            stage: START,
            held: Vec::new(),
            skipped: 0,
        }
    }

    /// Calls `each` for every message that ends in `bytes`.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Message<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stage {
                Stage::Prefix(prefix, have) => {
                    rest = self.prefix(prefix, have, rest, &mut each);
                }
                Stage::Inside {
                    compressed,
                    missing,
                } => {
                    let (here, after) = part(rest, missing);
                    rest = after;
                    if here.len() < missing {
                        self.held.extend_from_slice(here);
                        let missing = missing - here.len();
                        self.stage = Stage::Inside {
                            compressed,
                            missing,
                        };
                        return;
                    }
                    self.stage = START;
                    if self.held.is_empty() {
                        each(Message {
                            compressed,
                            bytes: here,
                        });
                        continue;
                    }
                    let mut held = std::mem::take(&mut self.held);
                    held.extend_from_slice(here);
                    each(Message {
                        compressed,
                        bytes: &held,
                    });
                    self.held = emptied(held);
                }
                Stage::Skipping { missing } => {
                    let (here, after) = part(rest, missing);
                    rest = after;
                    self.stage = match missing - here.len() {
                        0 => START,
                        missing => Stage::Skipping { missing },
                    };
                }
                Stage::Broken => return,
            }
        }
    }

    /// How many messages were longer than the limit.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether the last byte ended a message, or none has come: a body may end here.
    pub fn is_between(&self) -> bool {
        self.stage == START
    }

    /// Whether what came is no gRPC body. Where its next message begins cannot be known, so nothing more is read.
    pub fn is_broken(&self) -> bool {
        self.stage == Stage::Broken
    }

    /// Reads on in a prefix, and gives what follows it.
    fn prefix<'a>(
        &mut self,
        mut prefix: [u8; PREFIX],
        have: usize,
        bytes: &'a [u8],
        each: &mut impl FnMut(Message<'_>),
    ) -> &'a [u8] {
        let (here, rest) = part(bytes, PREFIX - have);
        for (kept, byte) in prefix.iter_mut().skip(have).zip(here) {
            *kept = *byte;
        }
        let [flag, length @ ..] = prefix;
        let have = have + here.len();
        if flag > 1 {
            self.stage = Stage::Broken;
            return &[];
        }
        if have < PREFIX {
            self.stage = Stage::Prefix(prefix, have);
            return rest;
        }
        let compressed = flag == 1;
        self.stage = match usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX) {
            0 => {
                each(Message {
                    compressed,
                    bytes: &[],
                });
                START
            }
            missing if missing > self.limit => {
                self.skipped += 1;
                Stage::Skipping { missing }
            }
            missing => Stage::Inside {
                compressed,
                missing,
            },
        };
        rest
    }
}

/// The first `length` bytes, or all if there are fewer, and the rest.
fn part(bytes: &[u8], length: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(length).unwrap_or((bytes, &[]))
}

/// Any bytes, the first of which says how they are cut: the cutting makes no difference, no more than the limit is held,
/// and all bytes of a body that can be read are in its messages and their prefixes.
#[cfg(any(test, fuzzing))]
pub fn fuzz_grpc(bytes: &[u8]) {
    let Some((step, body)) = bytes.split_first() else {
        return;
    };
    let limit = 8 + usize::from(step % 3) * 1000;
    let read = |step: usize| {
        let mut splitter = Splitter::new(limit);
        let mut found = Vec::new();
        for piece in body.chunks(step.max(1)) {
            splitter.feed(piece, |message| {
                found.push((message.compressed, message.bytes.to_vec()));
            });
            assert!(splitter.held.len() <= limit);
        }
        (splitter.skipped(), splitter.stage, splitter.held, found)
    };
    let (skipped, stage, held, found) = read(usize::from(*step));
    if skipped == 0 && stage == START {
        let size: usize = found.iter().map(|(_, bytes)| bytes.len() + PREFIX).sum();
        assert_eq!(size, body.len());
    }
    assert_eq!((skipped, stage, held, found), read(body.len()));
}

#[cfg(test)]
pub(crate) mod tests;
