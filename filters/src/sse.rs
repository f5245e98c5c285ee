//! Cuts a byte stream into server-sent events (WHATWG HTML, section 9.2.6).
//!
//! In: bytes, in any cutting. Out: whole events, in order, borrowed from those bytes where they came whole.
//! Never holds more than `limit` bytes; an event longer than that is skipped and counted. Bytes that are passed on
//! to a client never go through here.

mod seam;

pub(crate) use seam::Seam;

/// One event, as far as the inference servers use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event:` field, empty when absent.
    pub event: &'a [u8],
    /// The `data:` lines, joined by LF.
    pub data: &'a [u8],
    /// The value of a field named `error`, which older llama.cpp sends in place of `data`; empty when absent.
    pub error: &'a [u8],
}

/// Finds the events of one stream.
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    seam: Seam,
    // The event that is cut between feeds: held.len() <= limit.
    held: Vec<u8>,
    // Several data lines of one event, joined.
    joined: Vec<u8>,
    began: bool,
    skipping: bool,
    skipped: u64,
    recognised: bool,
}

impl Splitter {
    /// `limit`: the most bytes an event may have, and so the most that is ever held.
    pub fn new(limit: usize) -> Splitter {
        Splitter {
            limit,
            seam: Seam::default(),
            held: Vec::new(),
            joined: Vec::new(),
            began: false,
            skipping: false,
            skipped: 0,
            recognised: false,
        }
    }

    /// Calls `each` for every event that ends in `bytes`.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Event<'_>)) {
        let mut bytes = bytes;
        loop {
            if self.held.is_empty() {
                bytes = self.seam.after_cr(bytes);
            }
            if bytes.is_empty() {
                return;
            }
            let Some(end) = self.seam.event_end(bytes) else {
                self.hold(bytes);
                return;
            };
            let (raw, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            bytes = rest;
            if self.skipping || self.held.len().saturating_add(raw.len()) > self.limit {
                self.skip();
                self.skipping = false;
            } else if self.held.is_empty() {
                self.deliver(raw, &mut each);
            } else {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(raw);
                self.deliver(&held, &mut each);
                self.held = emptied(held);
            }
        }
    }

    /// The stream is over: calls `each` for an event that was not ended by a blank line.
    ///
    /// The standard drops such an event; servers forget the last blank line, so a caller who can tell a whole
    /// value from half of one should look at it.
    pub fn finish(&mut self, mut each: impl FnMut(Event<'_>)) {
        let held = std::mem::take(&mut self.held);
        if !self.skipping && !held.is_empty() {
            self.deliver(&held, &mut each);
        }
    }

    /// How many events were longer than the limit.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether any line so far was a comment or a field of the standard.
    pub fn recognised(&self) -> bool {
        self.recognised
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.held.len().saturating_add(bytes.len()) > self.limit {
            self.skip();
            self.skipping = true;
            return;
        }
        self.held.extend_from_slice(bytes);
    }

    fn skip(&mut self) {
        if !self.skipping {
            self.skipped += 1;
        }
        self.began = true;
        self.held.clear();
    }

    fn deliver(&mut self, raw: &[u8], each: &mut impl FnMut(Event<'_>)) {
        let raw = match std::mem::replace(&mut self.began, true) {
            true => raw,
            // A byte order mark may stand once, before the first line.
            false => raw.strip_prefix(BOM).unwrap_or(raw),
        };
        let lines = read(raw, &mut self.joined);
        self.recognised |= lines.recognised;
        if let Some(event) = lines.event {
            each(event);
        }
        if self.joined.capacity() > KEPT {
            self.joined = Vec::new();
        }
    }
}

/// The buffer for the next event. One that a long event has stretched is let go, so that a stream does not hold to
/// its end what one event needed.
pub(crate) fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > KEPT {
        return Vec::new();
    }
    buffer.clear();
    buffer
}

/// The largest buffer that is kept from event to event, in bytes.
const KEPT: usize = 64 << 10;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads one event from its bytes, the blank line included or not; nothing if it has no data and no error.
pub(crate) fn event<'a>(raw: &'a [u8], joined: &'a mut Vec<u8>) -> Option<Event<'a>> {
    read(raw, joined).event
}

struct Lines<'a> {
    event: Option<Event<'a>>,
    recognised: bool,
}

fn read<'a>(raw: &'a [u8], joined: &'a mut Vec<u8>) -> Lines<'a> {
    let (mut event, mut data, mut error) = (&[][..], None, None);
    let mut several = false;
    let mut recognised = false;
    let mut rest = raw;
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        rest = after.split_first().map_or(&[], |(_, rest)| rest);
        if line.is_empty() {
            continue;
        }
        let (name, value) = field(line);
        match name {
            b"data" => {
                match data {
                    None => data = Some(value),
                    Some(first) => {
                        if !several {
                            several = true;
                            joined.clear();
                            joined.extend_from_slice(first);
                        }
                        joined.push(b'\n');
                        joined.extend_from_slice(value);
                    }
                }
                recognised = true;
            }
            b"event" => {
                event = value;
                recognised = true;
            }
            b"error" => {
                error = Some(value);
                recognised = true;
            }
            b"" | b"id" | b"retry" => recognised = true,
            _ => {}
        }
    }
    let there = data.is_some() || error.is_some();
    Lines {
        event: there.then_some(Event {
            event,
            data: if several {
                joined
            } else {
                data.unwrap_or_default()
            },
            error: error.unwrap_or_default(),
        }),
        recognised,
    }
}

/// Parts a line into its name and its value; a comment has an empty name.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let (name, value) = match line.strip_prefix(b"data:") {
        Some(value) => (&b"data"[..], value),
        None => match memchr::memchr(b':', line).and_then(|colon| line.split_at_checked(colon)) {
            Some((name, value)) => (name, value.get(1..).unwrap_or_default()),
            None => return (line, &[]),
        },
    };
    (name, value.strip_prefix(b" ").unwrap_or(value))
}

/// Any bytes, the first of which says how they are cut: the cutting makes no difference, and no more than the
/// limit is held.
#[cfg(any(test, fuzzing))]
pub fn fuzz_sse(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else {
        return;
    };
    let limit = 40 + usize::from(step % 3) * 1000;
    let read = |step: usize| {
        let mut splitter = Splitter::new(limit);
        let mut found = Vec::new();
        let mut keep = |event: Event<'_>| {
            found.push([event.event, event.data, event.error].map(<[u8]>::to_vec));
        };
        for piece in stream.chunks(step.max(1)) {
            splitter.feed(piece, &mut keep);
            assert!(splitter.held.len() <= limit);
        }
        splitter.finish(&mut keep);
        (splitter.skipped(), splitter.recognised(), found)
    };
    assert_eq!(read(usize::from(*step)), read(stream.len()));
}

#[cfg(test)]
mod tests;
