//! Walks over a value that nobody asks about.
//!
//! In: a cursor at any value. Out: the cursor after it, or the fault. Depth costs a bit, not a stack frame.

use super::{Cursor, DEEPEST, Expected, Fault, Flaw, Kind};

impl Cursor<'_> {
    /// Reads over any value, however deep, and says what it was.
    #[inline]
    pub fn skip(&mut self) -> Result<Kind, Fault> {
        let kind = self.kind()?;
        match kind {
            Kind::Object | Kind::Array => self.skip_nested()?,
            Kind::String => {
                self.string()?;
            }
            Kind::Number => {
                self.number()?;
            }
            Kind::Bool | Kind::Null => self.word()?,
        }
        Ok(kind)
    }

    fn skip_nested(&mut self) -> Result<(), Fault> {
        let mut nest = Nest::default();
        loop {
            // The cursor is at the start of a value.
            match self.kind()? {
                Kind::Object => {
                    self.step();
                    self.space();
                    if !self.eat(b'}') {
                        nest.push(true).ok_or_else(|| self.fault(Flaw::Deep))?;
                        self.key()?;
                        continue;
                    }
                }
                Kind::Array => {
                    self.step();
                    self.space();
                    if !self.eat(b']') {
                        nest.push(false).ok_or_else(|| self.fault(Flaw::Deep))?;
                        continue;
                    }
                }
                Kind::String => {
                    self.string()?;
                }
                Kind::Number => {
                    self.number()?;
                }
                Kind::Bool | Kind::Null => self.word()?,
            }
            // The cursor is after a value: close what ends here, until another value begins.
            loop {
                let Some(object) = nest.top() else {
                    return Ok(());
                };
                let more = if object {
                    self.more(b'}', Expected::CommaOrBrace)?
                } else {
                    self.more(b']', Expected::CommaOrBracket)?
                };
                if more {
                    if object {
                        self.key()?;
                    }
                    break;
                }
                nest.pop();
            }
        }
    }
}

/// The open containers of a value, one bit each: set is an object.
#[derive(Default)]
struct Nest {
    // depth <= DEEPEST
    depth: usize,
    bits: [u64; DEEPEST / 64],
}

impl Nest {
    fn push(&mut self, object: bool) -> Option<()> {
        let word = self.bits.get_mut(self.depth / 64)?;
        let bit = 1u64 << (self.depth % 64);
        *word = if object { *word | bit } else { *word & !bit };
        self.depth += 1;
        Some(())
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn top(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        let word = self.bits.get(last / 64)?;
        Some(word & (1u64 << (last % 64)) != 0)
    }
}
