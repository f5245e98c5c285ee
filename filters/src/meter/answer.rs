//! Reads one JSON value of an answer: an event of a stream, or all of it.
//!
//! In: its bytes. Out: what matters to the meter, borrowed. One pass, no tree, nothing allocated but for an error.
//! A key counts only at its own depth: the same word inside a string or deeper down is skipped.

use super::in_stream_error::word;
use super::{
    Dialect, FinishReason, FinishReasons, InStreamError, Usage, chat, completions, triton,
};
use crate::json::{Cursor, Fault, Flaw, Kind, Text};

/// What one JSON value of an answer says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    /// `choices` is an array.
    pub(crate) has_choices: bool,
    /// … and is not empty, so that `usage` stands beside choices.
    pub(crate) beside_choices: bool,
    /// The highest `index` of its choices.
    pub(super) highest_index: u64,
    /// Some choice bears a token.
    pub(super) bears_tokens: bool,
    /// Some choice shows text.
    pub(super) shows_text: bool,
    pub(super) finish_reasons: FinishReasons,
    /// `usage` is an object, whatever it holds.
    pub(crate) has_usage: bool,
    pub(super) usage: Option<Usage>,
    pub(crate) error: Option<InStreamError>,
    pub(super) model: Option<Text<'a>>,
}

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
pub(crate) struct Opening {
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

/// Reads one event's data, or a whole answer. The model is absent when the opening was that of the event before.
pub(crate) fn read<'a>(
    dialect: Dialect,
    json: &'a [u8],
    opening: &mut Opening,
) -> Result<Answer<'a>, Fault> {
    match dialect {
        Dialect::Chat => openai(chat::member, json, opening),
        Dialect::Completions => openai(completions::member, json, opening),
        // What is a message over gRPC has the same form in JSON as over HTTP (KServe v2).
        Dialect::TritonInfer | Dialect::TritonGenerate | Dialect::ModelInfer => triton::read(json),
    }
}

/// Reads a member of a choice. A trait, so that each dialect's reader is compiled into the walk.
trait Member: Fn(&mut Cursor<'_>, &[u8], &mut Choice) -> Result<(), Fault> + Copy {}

impl<F: Fn(&mut Cursor<'_>, &[u8], &mut Choice) -> Result<(), Fault> + Copy> Member for F {}

#[inline]
fn openai<'a>(
    of_choice: impl Member,
    json: &'a [u8],
    opening: &mut Opening,
) -> Result<Answer<'a>, Fault> {
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

fn choices<'a>(
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
                    let index = cursor.count()?.unwrap_or_default();
                    answer.highest_index = answer.highest_index.max(index);
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
