//! The form that OpenAI's chat and completions share: `choices`, and `usage` beside or after them.
//!
//! In: an event's data or a whole answer, and a reader for what a choice holds. Out: an [`Answer`]. One pass, no tree,
//! nothing allocated but for an error.

use super::super::answer::{Answer, ahead, each_item, members, object};
use super::super::finish_reason::FinishReason;
use super::super::in_stream_error::{InStreamError, word};
use super::super::past::Past;
use super::super::{EngineTimes, Usage};
use crate::json::{Cursor, Fault, Flaw, Kind, Text};

/// What one choice of an event brings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choice {
    pub(super) bears_tokens: bool,
    pub(super) shows_text: bool,
}

/// How the event before began, up to the value of its `choices`.
///
/// The events of one stream differ in what they bear, not in their id, time and model: an event that begins as the
/// one before did need not be read twice up to there. Holds at most [`Opening::LONGEST`] bytes.
#[derive(Debug, Default)]
pub(in crate::meter) struct Opening {
    bytes: Vec<u8>,
}

impl Opening {
    const LONGEST: usize = 1024;

    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        if bytes.len() <= Opening::LONGEST {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// Reads a member of a choice. A trait, so that each dialect's reader is compiled into the walk.
pub(super) trait Member:
    Fn(&mut Cursor<'_>, &[u8], &mut Choice) -> Result<(), Fault> + Copy
{
}

impl<F: Fn(&mut Cursor<'_>, &[u8], &mut Choice) -> Result<(), Fault> + Copy> Member for F {}

/// Reads one event's data, or a whole answer. The model is absent when the opening was that of the event before.
#[inline]
pub(super) fn read<'a>(
    of_choice: impl Member,
    json: &'a [u8],
    past: &mut Past,
) -> Result<Answer<'a>, Fault> {
    let Past {
        opening,
        engine_times,
        ..
    } = past;
    let mut answer = Answer::default();
    // SGLang's errors are not wrapped: {"object":"error","message":…,"type":…,"code":…}.
    let (mut is_error, mut bare) = (false, InStreamError::default());
    let mut ends = None;
    let mut member = |cursor: &mut Cursor<'a>, key: Text<'a>| {
        match key.raw() {
            b"choices" => {
                // Nothing before it has said anything that an event of the same beginning would have to say again.
                let silent = !answer.has_choices && !answer.has_usage && answer.error.is_none();
                if silent && !is_error && bare == InStreamError::default() {
                    ends = Some(cursor.at());
                }
                choices(of_choice, cursor, &mut answer)?;
            }
            b"usage" => {
                answer.has_usage = cursor.kind()? == Kind::Object;
                answer.usage = Usage::read(cursor)?;
            }
            b"metrics" => *engine_times = EngineTimes::read(cursor)?,
            b"error" => answer.error = InStreamError::value(cursor)?,
            b"model" if cursor.kind()? == Kind::String => answer.model = Some(cursor.string()?),
            b"object" if cursor.kind()? == Kind::String => {
                is_error = cursor.string()?.is("error");
            }
            b"type" => bare.kind = word(cursor)?,
            b"code" => bare.code = word(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    };
    let known = !opening.bytes.is_empty() && json.starts_with(&opening.bytes);
    let mut cursor = if known {
        let mut cursor = Cursor::from(json, opening.bytes.len());
        member(&mut cursor, Text::word("choices"))?;
        cursor.rest_of_object(&mut member)?;
        cursor
    } else {
        let mut cursor = Cursor::new(json);
        match cursor.kind()? {
            Kind::Object => cursor.object(&mut member)?,
            other @ (Kind::Array | Kind::String | Kind::Number | Kind::Bool | Kind::Null) => {
                return Err(cursor.fault(Flaw::NotObject(other)));
            }
        }
        cursor
    };
    cursor.end()?;
    if let Some(end) = ends.filter(|_| !known) {
        opening.keep(json.get(..end).unwrap_or_default());
    }
    if is_error && answer.error.is_none() {
        answer.error = Some(bare);
    }
    Ok(answer)
}

/// Calls `each` with every member of every choice and the choice's index, the cursor at the member's value, which it must
/// read.
pub(super) fn each_member<'a>(
    json: &'a [u8],
    mut each: impl FnMut(u64, &mut Cursor<'a>, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    object(json, |cursor, key| {
        if key.raw() != b"choices" {
            return cursor.skip().map(drop);
        }
        each_item(cursor, |cursor, place| {
            let index = ahead(cursor, b"index")?.unwrap_or(place);
            members(cursor, |cursor, key| each(index, cursor, key.raw()))
        })
    })
}

/// Reads the value of `choices`.
pub(super) fn choices<'a>(
    of_choice: impl Member,
    cursor: &mut Cursor<'a>,
    answer: &mut Answer<'a>,
) -> Result<(), Fault> {
    if cursor.kind()? != Kind::Array {
        cursor.skip()?;
        return Ok(());
    }
    answer.has_choices = true;
    cursor.array(|cursor| {
        answer.beside_choices = true;
        if cursor.kind()? != Kind::Object {
            cursor.skip()?;
            return Ok(());
        }
        let mut choice = Choice::default();
        cursor.object(|cursor, key| {
            match key.raw() {
                b"index" => {
                    answer.several |= cursor.count()?.is_some_and(|index| index > 0);
                }
                b"finish_reason" if cursor.kind()? == Kind::String => {
                    let reason = cursor.string()?;
                    if !reason.is_empty() {
                        answer.finish_reasons.push(FinishReason::of(reason));
                    }
                }
                key => of_choice(cursor, key, &mut choice)?,
            }
            Ok(())
        })?;
        answer.bears_tokens |= choice.bears_tokens;
        answer.shows_text |= choice.shows_text;
        Ok(())
    })
}
