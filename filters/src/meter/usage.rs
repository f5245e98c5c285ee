//! The tokens an engine says an answer has.
//!
//! In: a `usage` value. Out: its counts; one that is missing or no whole number is absent. Never a guess.

use super::answer::members;
use crate::json::{Cursor, Fault, Kind};

/// Tokens as the engine counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: Option<u64>,
    /// Tokens of all choices together.
    pub completion: Option<u64>,
    /// Prompt tokens that came from a cache.
    pub cached: Option<u64>,
    /// Completion tokens spent on reasoning.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Reads a `usage` value. Anything but an object is no usage, and so is an object of zeros: some servers send
    /// one until the real figures are known.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, Fault> {
        if cursor.kind()? != Kind::Object {
            cursor.skip()?;
            return Ok(None);
        }
        let mut usage = Usage::default();
        cursor.object(|cursor, key| {
            match key.raw() {
                b"prompt_tokens" => usage.prompt = cursor.count()?,
                b"completion_tokens" => usage.completion = cursor.count()?,
                b"prompt_tokens_details" => detail(cursor, b"cached_tokens", &mut usage.cached)?,
                b"completion_tokens_details" => {
                    detail(cursor, b"reasoning_tokens", &mut usage.reasoning)?;
                }
                // SGLang has it one level up.
                b"reasoning_tokens" => usage.reasoning = cursor.count()?.or(usage.reasoning),
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(usage.if_real())
    }

    /// Reads a `usage` value by the words of Responses.
    pub(super) fn input_and_output(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, Fault> {
        let mut usage = Usage::default();
        members(cursor, |cursor, key| {
            match key.raw() {
                b"input_tokens" => usage.prompt = cursor.count()?,
                b"output_tokens" => usage.completion = cursor.count()?,
                b"input_tokens_details" => detail(cursor, b"cached_tokens", &mut usage.cached)?,
                b"output_tokens_details" => {
                    detail(cursor, b"reasoning_tokens", &mut usage.reasoning)?;
                }
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(usage.if_real())
    }

    /// Reads a `usage` value by either words.
    pub(super) fn any(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, Fault> {
        let mut again = *cursor;
        let usage = Usage::read(cursor)?;
        match usage {
            Some(usage) => Ok(Some(usage)),
            None => Usage::input_and_output(&mut again),
        }
    }

    /// The usage, unless all that it says is zero.
    pub(super) fn if_real(self) -> Option<Usage> {
        let known = [self.prompt, self.completion];
        let real = known.iter().flatten().any(|tokens| *tokens > 0);
        real.then_some(self)
    }
}

fn detail(cursor: &mut Cursor<'_>, name: &[u8], into: &mut Option<u64>) -> Result<(), Fault> {
    members(cursor, |cursor, key| {
        if key.raw() == name {
            *into = cursor.count()?.or(*into);
        } else {
            cursor.skip()?;
        }
        Ok(())
    })
}
