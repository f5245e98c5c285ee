//! Anthropic's messages, as vLLM, SGLang and llama.cpp serve them too.
//!
//! In: an event, or a whole message. Out: an [`Answer`]. Text, thinking and the arguments of tools bear tokens; signatures,
//! pings and structure do not. Counts are running totals, so the last of each counts, and what is written to or read from a
//! cache is not among the `input_tokens`. The count with which a message starts is not that of its answer. The stream ends
//! with `message_stop`; there is no `[DONE]`.

use super::super::answer::{Answer, ahead, each_item, members, object, says, text};
use super::super::checks::Checks;
use super::super::finish_reason::FinishReason;
use super::super::in_stream_error::InStreamError;
use super::super::past::Past;
use super::super::{FinishReasons, Usage};
use super::{Body, Grammar};
use crate::json::{Cursor, Fault, Kind};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "chat",
    name: "messages",
    read,
    speak,
    body: Body::Json,
    ends_with_body: false,
    takes_usage_option: false,
    family: Family::Anthropic,
};

/// The running totals of one message.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::meter) struct Counts {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    output: Option<u64>,
}

fn read<'a>(json: &'a [u8], past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    let (mut is_last, mut is_error) = (false, false);
    let mut delta = Delta::default();
    // A message that starts, and one that is whole or has more to say.
    let (mut start, mut rest) = (Counts::default(), Counts::default());
    object(json, |cursor, key| {
        match key.raw() {
            b"type" => {
                let kind = text(cursor)?;
                is_last = kind.is_some_and(|kind| kind.is("message_stop"));
                is_error = kind.is_some_and(|kind| kind.is("error"));
            }
            b"delta" => delta = Delta::read(cursor)?,
            b"message" => members(cursor, |cursor, key| {
                match key.raw() {
                    b"usage" => {
                        answer.has_usage = cursor.kind()? == Kind::Object;
                        start = Counts::read(cursor)?;
                    }
                    b"model" => answer.model = text(cursor)?,
                    _ => {
                        cursor.skip()?;
                    }
                }
                Ok(())
            })?,
            b"usage" => {
                answer.has_usage = cursor.kind()? == Kind::Object;
                rest = Counts::read(cursor)?;
            }
            b"stop_reason" => answer.finish_reasons = FinishReasons::of(reason(cursor)?),
            b"model" => answer.model = text(cursor)?,
            b"error" => answer.error = InStreamError::value(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    if let Some(reason) = delta.stop_reason {
        answer.finish_reasons = FinishReasons::of(Some(reason));
    }
    answer.bears_tokens = delta.bears_tokens;
    answer.shows_text = delta.shows_text;
    answer.ends = is_last.then_some(true);
    if is_error && answer.error.is_none() {
        answer.error = Some(InStreamError::default());
    }
    if answer.has_usage {
        start.output = None;
        past.counts.add(start);
        past.counts.add(rest);
        answer.usage = past.counts.usage();
    }
    Ok(answer)
}

/// What an event adds, or all blocks of a whole message. All text is one; a whole message has the input of its tools as JSON.
fn speak(json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    let call = ahead(&Cursor::new(json), b"index")?.unwrap_or(0);
    object(json, |cursor, key| match key.raw() {
        b"delta" => members(cursor, |cursor, key| {
            match key.raw() {
                b"text" => {
                    if let Some(piece) = text(cursor)? {
                        checks.text(0, piece);
                    }
                }
                b"partial_json" => {
                    if let Some(piece) = text(cursor)? {
                        checks.arguments(0, call, piece);
                    }
                }
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        }),
        b"content" => each_item(cursor, |cursor, _| {
            members(cursor, |cursor, key| {
                match key.raw() {
                    b"text" => {
                        if let Some(piece) = text(cursor)? {
                            checks.text(0, piece);
                        }
                    }
                    b"input" => checks.whole_call(cursor.skip()? == Kind::Object),
                    _ => {
                        cursor.skip()?;
                    }
                }
                Ok(())
            })
        }),
        _ => cursor.skip().map(drop),
    })
}

/// What a `delta` adds.
#[derive(Default)]
struct Delta {
    bears_tokens: bool,
    shows_text: bool,
    stop_reason: Option<FinishReason>,
}

impl Delta {
    fn read(cursor: &mut Cursor<'_>) -> Result<Delta, Fault> {
        let mut delta = Delta::default();
        members(cursor, |cursor, key| {
            match key.raw() {
                b"text" => {
                    delta.shows_text = says(cursor)?;
                    delta.bears_tokens |= delta.shows_text;
                }
                b"thinking" | b"partial_json" => delta.bears_tokens |= says(cursor)?,
                b"stop_reason" => delta.stop_reason = reason(cursor)?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(delta)
    }
}

fn reason(cursor: &mut Cursor<'_>) -> Result<Option<FinishReason>, Fault> {
    let word = text(cursor)?.filter(|word| !word.is_empty());
    Ok(word.map(|word| match word.raw() {
        b"end_turn" | b"stop_sequence" => FinishReason::Stop,
        b"max_tokens" | b"model_context_window_exceeded" => FinishReason::Length,
        b"tool_use" => FinishReason::ToolCalls,
        b"refusal" => FinishReason::ContentFilter,
        _ => FinishReason::of(word),
    }))
}

impl Counts {
    fn read(cursor: &mut Cursor<'_>) -> Result<Counts, Fault> {
        let mut counts = Counts::default();
        members(cursor, |cursor, key| {
            match key.raw() {
                b"input_tokens" => counts.input = cursor.count()?,
                b"output_tokens" => counts.output = cursor.count()?,
                b"cache_read_input_tokens" => counts.cache_read = cursor.count()?,
                b"cache_creation_input_tokens" => counts.cache_creation = cursor.count()?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Later totals take the place of earlier ones.
    fn add(&mut self, later: Counts) {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.cache_creation = later.cache_creation.or(self.cache_creation);
    }

    fn usage(self) -> Option<Usage> {
        let mut parts = [self.cache_read, self.cache_creation].into_iter().flatten();
        let prompt = self
            .input
            .and_then(|input| parts.try_fold(input, u64::checked_add));
        let usage = Usage {
            prompt,
            completion: self.output,
            cached: self.cache_read,
            reasoning: None,
        };
        usage.if_real()
    }
}
