//! Writing a body with the marks of its framing.
//!
//! In: the lengths of its pieces. Out: what goes before and after each, and at the end. Nothing is formatted on the heap.

use super::Framing;

/// A body that is being written.
#[derive(Debug, Clone)]
pub struct Marked {
    framing: Framing,
}

/// What goes around one piece.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    // the size's line, at the end of the array
    line: [u8; LINE],
    start: usize,
    /// So many bytes of the piece belong to the body: all but those past a length that was promised.
    pub take: usize,
    /// What goes after it.
    pub after: &'static [u8],
}

/// A body ended before the length that was promised for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short;

// sixteen digits, CR, LF
const LINE: usize = 18;

impl Mark {
    /// What goes before the piece.
    pub fn before(&self) -> &[u8] {
        self.line.get(self.start..).unwrap_or_default()
    }
}

impl Marked {
    /// A body with this framing.
    pub fn new(framing: Framing) -> Self {
        Marked { framing }
    }

    /// The marks of the next piece, of `length` bytes. An empty piece has none: an empty chunk would end the body.
    pub fn mark(&mut self, length: usize) -> Mark {
        let mut mark = Mark {
            line: [0; LINE],
            start: LINE,
            take: length,
            after: b"",
        };
        match &mut self.framing {
            Framing::None => mark.take = 0,
            Framing::Length(left) => {
                mark.take = usize::try_from(*left).map_or(length, |left| left.min(length));
                *left -= mark.take as u64;
            }
            Framing::Chunked if length > 0 => {
                mark.after = b"\r\n";
                mark.start = size_line(&mut mark.line, length);
            }
            Framing::Chunked | Framing::UntilClose => {}
        }
        mark
    }

    /// What ends the body.
    ///
    /// # Errors
    /// [`Short`]: there should have been more.
    pub fn end(&self) -> Result<&'static [u8], Short> {
        match self.framing {
            Framing::Chunked => Ok(b"0\r\n\r\n"),
            Framing::Length(1..) => Err(Short),
            Framing::None | Framing::Length(0) | Framing::UntilClose => Ok(b""),
        }
    }
}

// Writes the size and the line's end to the array's end; returns where it begins.
fn size_line(line: &mut [u8; LINE], size: usize) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut places = line.iter_mut().enumerate().rev();
    let (mut left, mut start) = (size, LINE);
    for byte in [b'\n', b'\r'] {
        if let Some((_, place)) = places.next() {
            *place = byte;
        }
    }
    for (index, place) in places {
        *place = HEX.get(left & 15).copied().unwrap_or(b'0');
        start = index;
        left >>= 4;
        if left == 0 {
            break;
        }
    }
    start
}
