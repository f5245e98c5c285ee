//! The choices of a chat stream.
//!
//! In: a member of a choice. Out: whether the choice bears a token, by vLLM's own test
//! (`_choice_has_streamed_output`): something in `content`, `reasoning`, `tool_calls` or `function_call`, or an
//! empty `content` without a `role`, which is a special token that decodes to nothing. SGLang's
//! `reasoning_content` and OpenAI's `refusal` count too. The index of a tool call is never looked at: servers
//! repeat it.

use super::super::answer::Answer;
use super::super::past::Past;
use super::openai::{self, Choice};
use super::{Body, Grammar};
use crate::json::{Cursor, Fault, Kind};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    name: "chat",
    read,
    body: Body::Json,
    ends_with_body: false,
    takes_usage_option: true,
    family: Family::OpenAi,
};

fn read<'a>(json: &'a [u8], past: &mut Past) -> Result<Answer<'a>, Fault> {
    openai::read(member, json, past)
}

pub(super) fn member(
    cursor: &mut Cursor<'_>,
    key: &[u8],
    choice: &mut Choice,
) -> Result<(), Fault> {
    if key != b"delta" || cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok(());
    }
    let (mut bears, mut shows, mut role, mut empty) = (false, false, false, false);
    cursor.object(|cursor, key| {
        match key.raw() {
            b"content" => {
                let content = held(cursor)?;
                bears |= content == Held::Something;
                shows |= content == Held::Something;
                empty = content == Held::EmptyText;
            }
            b"refusal" => {
                let refusal = held(cursor)?;
                bears |= refusal == Held::Something;
                shows |= refusal == Held::Something;
            }
            b"reasoning" | b"reasoning_content" | b"tool_calls" | b"function_call" => {
                bears |= held(cursor)? == Held::Something;
            }
            b"role" => {
                role = true;
                cursor.skip()?;
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    *choice = Choice {
        bears_tokens: bears || (empty && !role),
        shows_text: shows,
    };
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    EmptyText,
    Something,
}

/// Reads a value and tells what it holds; numbers, booleans and null hold nothing that could be shown.
fn held(cursor: &mut Cursor<'_>) -> Result<Held, Fault> {
    let start = cursor.at();
    match cursor.kind()? {
        Kind::String if cursor.string()?.is_empty() => Ok(Held::EmptyText),
        Kind::String => Ok(Held::Something),
        Kind::Array | Kind::Object => {
            cursor.skip()?;
            let inside = cursor.since(start).get(1..).unwrap_or_default();
            // Only the closing bracket is left of an empty one.
            match inside.trim_ascii_start().len() {
                0 | 1 => Ok(Held::Nothing),
                _ => Ok(Held::Something),
            }
        }
        Kind::Number | Kind::Bool | Kind::Null => {
            cursor.skip()?;
            Ok(Held::Nothing)
        }
    }
}
