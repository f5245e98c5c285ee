//! Finds where lines and events end, across any cutting.
//!
//! In: bytes. Out: lengths. Nothing is held or read: two bits say where the last feed stopped.

/// Where in a line a stream stands between two feeds.
///
/// ```text
///  start ──other──► inside ──LF, CR──► start      LF or CR at start: the event ends
/// ```
/// An LF right after a CR belongs to that CR.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seam {
    inside: bool,
    cr: bool,
}

impl Seam {
    /// Drops an LF that completes a CR of the feed before.
    pub(crate) fn after_cr<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.cr && !bytes.is_empty() {
            self.cr = false;
            return bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        bytes
    }

    /// Whether the last byte was a CR, so that an LF may still belong to it.
    pub(crate) fn ended_in_cr(&self) -> bool {
        self.cr
    }

    /// The length of what is left of the line in `bytes`, its end included; nothing if it does not end there.
    #[inline]
    pub(crate) fn line_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
            self.inside |= !bytes.is_empty();
            return None;
        };
        self.inside = false;
        let cr = bytes.get(end) == Some(&b'\r');
        let crlf = cr && bytes.get(end + 1) == Some(&b'\n');
        self.cr = cr && end + 1 == bytes.len();
        Some(end + 1 + usize::from(crlf))
    }

    /// The length of what is left of the event in `bytes`, its blank line included; nothing if it does not end
    /// there. A blank line that ends in CRLF counts up to its CR, whether the LF is there or still to come, so
    /// that an event has one length in any cutting.
    #[inline]
    pub(crate) fn event_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut done = bytes.len() - self.after_cr(bytes).len();
        loop {
            let rest = bytes.get(done..).unwrap_or_default();
            match rest.first() {
                Some(end @ (b'\n' | b'\r')) if !self.inside => {
                    self.cr = *end == b'\r';
                    return Some(done + 1);
                }
                _ => done += self.line_end(rest)?,
            }
        }
    }
}
