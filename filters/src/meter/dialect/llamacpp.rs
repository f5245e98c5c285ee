//! llama.cpp's `/completion`.
//!
//! In: an event or a whole answer, which is an array where there are several prompts. Out: an [`Answer`]. Each event says
//! how many tokens its choice has so far; the one with `stop` is the choice's last, and the stream is whole when each
//! choice has had it. There is no `[DONE]`.

use super::super::Usage;
use super::super::answer::{Answer, ahead, members, objects, says, text};
use super::super::checks::Checks;
use super::super::finish_reason::FinishReason;
use super::super::in_stream_error::InStreamError;
use super::super::past::Past;
use super::sglang::holds;
use super::{Body, Grammar};
use crate::json::Fault;
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "text_completion",
    name: "completion",
    read,
    speak,
    body: Body::Json,
    ends_with_body: false,
    takes_usage_option: false,
    family: Family::OpenAi,
};

fn speak(json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    objects(json, |cursor, place| {
        let choice = ahead(cursor, b"index")?.unwrap_or(place);
        members(cursor, |cursor, key| {
            if key.raw() != b"content" {
                return cursor.skip().map(drop);
            }
            if let Some(piece) = text(cursor)? {
                checks.text(choice, piece);
            }
            Ok(())
        })
    })
}

fn read<'a>(json: &'a [u8], past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    let mut usage = Usage::default();
    objects(json, |cursor, place| {
        let (mut index, mut stop, mut truncated, mut tokens) = (place, false, false, false);
        let (mut shows_text, mut reason) = (false, None);
        usage = Usage::default();
        cursor.object(|cursor, key| {
            match key.raw() {
                b"content" => shows_text = says(cursor)?,
                b"tokens" => tokens = holds(cursor)?,
                b"index" => index = cursor.count()?.unwrap_or(place),
                b"stop" => stop = cursor.is_true()?,
                b"truncated" => truncated = cursor.is_true()?,
                b"stop_type" => {
                    reason = text(cursor)?.and_then(|word| match word.raw() {
                        b"eos" | b"word" => Some(FinishReason::Stop),
                        b"limit" => Some(FinishReason::Length),
                        b"none" | b"" => None,
                        _ => Some(FinishReason::of(word)),
                    });
                }
                // Older builds say it in three words.
                b"stopped_eos" | b"stopped_word" if cursor.is_true()? => {
                    reason = Some(FinishReason::Stop);
                }
                b"stopped_limit" if cursor.is_true()? => reason = Some(FinishReason::Length),
                b"stopped_eos" | b"stopped_word" | b"stopped_limit" => {}
                b"tokens_predicted" => usage.completion = cursor.count()?,
                b"tokens_evaluated" => usage.prompt = cursor.count()?,
                b"timings" => members(cursor, |cursor, key| {
                    if key.raw() == b"cache_n" {
                        usage.cached = cursor.count()?;
                    } else {
                        cursor.skip()?;
                    }
                    Ok(())
                })?,
                b"model" => answer.model = text(cursor)?,
                b"error" => answer.error = InStreamError::value(cursor)?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        past.shares.note(index, usage.completion, stop);
        answer.bears_tokens |= shows_text || tokens;
        answer.shows_text |= shows_text;
        answer.has_usage |= usage.completion.is_some();
        // Its context was full.
        let reason = reason.or(truncated.then_some(FinishReason::Length));
        if let Some(reason) = reason.filter(|_| stop) {
            answer.finish_reasons.push(reason);
        }
        if stop {
            answer.ends = Some(true);
        }
        Ok(())
    })?;
    answer.several = past.shares.several();
    answer.ends = answer.ends.map(|_| past.shares.ended());
    answer.usage = usage.if_real();
    Ok(answer)
}
