//! SGLang's `/generate`, and TGI's answer on the same path.
//!
//! In: an event or a whole answer, which is an array where there are several prompts or choices. Out: an [`Answer`]. The
//! text of an event is all that there is so far, or, with `--incremental-streaming-output`, what is new; so an event bears
//! tokens if its choice has more of them than before. Each choice counts its own tokens, and the prompt's once more. What
//! has a `generated_text` is TGI's.

use super::super::Usage;
use super::super::answer::{Answer, members, objects, says, text};
use super::super::checks::Checks;
use super::super::finish_reason::FinishReason;
use super::super::in_stream_error::InStreamError;
use super::super::past::Past;
use super::{Body, Grammar, tgi};
use crate::json::{Cursor, Fault, Kind};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "text_completion",
    name: "generate",
    read,
    speak,
    body: Body::Json,
    ends_with_body: false,
    takes_usage_option: false,
    family: Family::OpenAi,
};

fn read<'a>(json: &'a [u8], past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    let mut is_tgi = false;
    let mut usage = None;
    objects(json, |cursor, place| {
        let (mut index, mut shows_text, mut output) = (place, false, false);
        let mut meta = Meta::default();
        cursor.object(|cursor, key| {
            match key.raw() {
                b"text" => shows_text = says(cursor)?,
                b"output_ids" => output = holds(cursor)?,
                b"index" => index = cursor.count()?.unwrap_or(place),
                b"meta_info" => meta = Meta::read(cursor)?,
                b"error" => answer.error = InStreamError::value(cursor)?,
                b"generated_text" | b"token" => {
                    is_tgi = true;
                    cursor.skip()?;
                }
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        let grown = past.shares.note(index, meta.usage.completion, false);
        answer.bears_tokens |= grown.unwrap_or(shows_text || output);
        answer.shows_text |= shows_text;
        if let Some(reason) = meta.reason {
            answer.finish_reasons.push(reason);
        }
        answer.has_usage |= meta.is_there;
        usage = Some(meta.usage);
        Ok(())
    })?;
    if is_tgi {
        return tgi::read(json, past);
    }
    answer.several = past.shares.several();
    answer.usage = usage.and_then(Usage::if_real);
    Ok(answer)
}

/// The text of a whole answer. That of an event may be all there is so far or what is new, and nothing says which, so a stream
/// is not judged.
fn speak(json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    let is_event = !checks.is_whole();
    objects(json, |cursor, place| {
        members(cursor, |cursor, key| {
            match key.raw() {
                b"text" | b"generated_text" => {
                    let piece = text(cursor)?;
                    if is_event {
                        checks.lose_text();
                    } else if let Some(piece) = piece {
                        checks.text(place, piece);
                    }
                }
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })
    })
}

/// What stands beside the text.
#[derive(Default)]
struct Meta {
    is_there: bool,
    usage: Usage,
    reason: Option<FinishReason>,
}

impl Meta {
    fn read(cursor: &mut Cursor<'_>) -> Result<Meta, Fault> {
        let mut meta = Meta::default();
        members(cursor, |cursor, key| {
            match key.raw() {
                b"prompt_tokens" => meta.usage.prompt = cursor.count()?,
                b"completion_tokens" => {
                    meta.usage.completion = cursor.count()?;
                    meta.is_there = meta.usage.completion.is_some();
                }
                b"cached_tokens" => meta.usage.cached = cursor.count()?,
                b"reasoning_tokens" => meta.usage.reasoning = cursor.count()?,
                b"finish_reason" if cursor.kind()? == Kind::Object => {
                    cursor.object(|cursor, key| {
                        if key.raw() == b"type" {
                            meta.reason = text(cursor)?.map(FinishReason::of);
                        } else {
                            cursor.skip()?;
                        }
                        Ok(())
                    })?;
                }
                b"finish_reason" => meta.reason = text(cursor)?.map(FinishReason::of),
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(meta)
    }
}

/// Reads a value and tells whether it is an array with something in it.
pub(super) fn holds(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    let mut some = false;
    if cursor.kind()? == Kind::Array {
        cursor.array(|cursor| {
            some = true;
            cursor.skip().map(drop)
        })?;
    } else {
        cursor.skip()?;
    }
    Ok(some)
}
