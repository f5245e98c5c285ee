//! TGI's own stream, and its plain answer.
//!
//! In: an event, one token each, or a whole answer. Out: an [`Answer`]. The last event has the whole text, and what there
//! is to say of it, if `details` were asked for; an error has an `error_type`. There is no `[DONE]`.

use super::super::answer::{Answer, members, objects, says, text};
use super::super::checks::Checks;
use super::super::finish_reason::FinishReason;
use super::super::in_stream_error::{InStreamError, word};
use super::super::past::Past;
use super::super::{FinishReasons, Usage};
use super::{Body, Grammar};
use crate::json::{Cursor, Fault, Kind};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "text_completion",
    name: "generate_stream",
    read,
    speak,
    body: Body::Json,
    ends_with_body: false,
    takes_usage_option: false,
    family: Family::OpenAi,
};

pub(super) fn read<'a>(json: &'a [u8], _past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    let mut kind = None;
    objects(json, |cursor, _| {
        cursor.object(|cursor, key| {
            match key.raw() {
                b"token" => {
                    answer.bears_tokens = cursor.kind()? == Kind::Object;
                    answer.shows_text = is_shown(cursor)?;
                }
                b"generated_text" => answer.ends = text(cursor)?.map(|_| true).or(answer.ends),
                b"details" => details(cursor, &mut answer)?,
                b"error" => answer.error = InStreamError::value(cursor)?,
                b"error_type" => kind = word(cursor)?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })
    })?;
    if let Some(error) = &mut answer.error {
        error.kind = kind.or_else(|| error.kind.take());
    }
    Ok(answer)
}

fn speak(json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    objects(json, |cursor, _| {
        members(cursor, |cursor, key| match key.raw() {
            b"token" => {
                let shown = is_shown(&mut cursor.clone())?;
                members(cursor, |cursor, key| {
                    if key.raw() != b"text" {
                        return cursor.skip().map(drop);
                    }
                    if let Some(piece) = text(cursor)?.filter(|_| shown) {
                        checks.text(0, piece);
                    }
                    Ok(())
                })
            }
            _ => cursor.skip().map(drop),
        })
    })
}

/// Whether a token shows text: marks such as the end of the text do not.
fn is_shown(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    let (mut shows, mut special) = (false, false);
    members(cursor, |cursor, key| {
        match key.raw() {
            b"text" => shows = says(cursor)?,
            b"special" => special = cursor.is_true()?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(shows && !special)
}

fn details(cursor: &mut Cursor<'_>, answer: &mut Answer<'_>) -> Result<(), Fault> {
    let mut usage = Usage::default();
    answer.has_usage |= cursor.kind()? == Kind::Object;
    members(cursor, |cursor, key| {
        match key.raw() {
            b"finish_reason" => {
                let word = text(cursor)?;
                let reason = word.map(|word| match word.raw() {
                    b"eos_token" | b"stop_sequence" => FinishReason::Stop,
                    _ => FinishReason::of(word),
                });
                answer.finish_reasons.add(&FinishReasons::of(reason));
            }
            b"generated_tokens" => usage.completion = cursor.count()?,
            b"input_length" => usage.prompt = cursor.count()?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    answer.usage = usage.if_real().or(answer.usage);
    Ok(())
}
