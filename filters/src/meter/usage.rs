//! The tokens an engine says an answer has.
//!
//! In: a `usage` value. Out: its counts; one that is missing or no whole number is absent. Never a guess.

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
        let known = [usage.prompt, usage.completion];
        let real = known.iter().flatten().any(|tokens| *tokens > 0);
        Ok(real.then_some(usage))
    }
}

fn detail(cursor: &mut Cursor<'_>, name: &[u8], into: &mut Option<u64>) -> Result<(), Fault> {
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok(());
    }
    cursor.object(|cursor, key| {
        if key.raw() == name {
            *into = cursor.count()?.or(*into);
        } else {
            cursor.skip()?;
        }
        Ok(())
    })
}
