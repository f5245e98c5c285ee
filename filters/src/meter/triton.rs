//! Triton's JSON answers.
//!
//! In: an answer of `infer` or `generate`, or an event of `generate_stream`. Out: what matters to the meter. Each event is
//! what the model gave at once, so each that is no error bears tokens, also one whose text is empty. Which field holds the
//! text is the model's own choice; only `text_output`, the usual one, is known to show it. Neither a count of tokens nor a
//! reason for the end is ever there.

use super::InStreamError;
use super::answer::Answer;
use crate::json::{Cursor, Fault, Flaw, Kind};

pub(super) fn read(json: &[u8]) -> Result<Answer<'_>, Fault> {
    let mut answer = Answer::default();
    let mut cursor = Cursor::new(json);
    match cursor.kind()? {
        Kind::Object => {}
        other @ (Kind::Array | Kind::String | Kind::Number | Kind::Bool | Kind::Null) => {
            return Err(cursor.fault(Flaw::NotObject(other)));
        }
    }
    cursor.object(|cursor, key| {
        match key.raw() {
            b"error" => answer.error = InStreamError::value(cursor)?,
            b"model_name" if cursor.kind()? == Kind::String => {
                answer.model = Some(cursor.string()?);
            }
            b"text_output" if cursor.kind()? == Kind::String => {
                answer.shows_text = !cursor.string()?.is_empty();
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    cursor.end()?;
    answer.bears_tokens = answer.error.is_none();
    answer.shows_text &= answer.bears_tokens;
    Ok(answer)
}
