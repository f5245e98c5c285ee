//! The choices of a chat stream.
//!
//! In: a member of a choice. Out: whether the choice bears a token, by vLLM's own test
//! (`_choice_has_streamed_output`): something in `content`, `reasoning`, `tool_calls` or `function_call`, or an
//! empty `content` without a `role`, which is a special token that decodes to nothing. SGLang's
//! `reasoning_content` and OpenAI's `refusal` count too. The index of a tool call says nothing of
//! tokens, since servers repeat it; it only keeps apart what is judged.

use super::super::answer::{Answer, ahead, each_item, members, says, text};
use super::super::checks::Checks;
use super::super::past::Past;
use super::openai::{self, Choice};
use super::{Body, Grammar};
use crate::json::{Cursor, Fault, Kind};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "chat",
    name: "chat",
    read,
    speak,
    body: Body::Json,
    ends_with_body: false,
    takes_usage_option: true,
    family: Family::OpenAi,
};

fn read<'a>(json: &'a [u8], past: &mut Past) -> Result<Answer<'a>, Fault> {
    openai::read(member, json, past)
}

/// What a choice adds to its text and to its tool calls. Their index is looked at here, since arguments have no other place;
/// it may be repeated, so an id begins a call.
fn speak(json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    openai::each_member(json, |choice, cursor, key| match key {
        b"delta" | b"message" => members(cursor, |cursor, key| match key.raw() {
            b"content" => {
                if let Some(piece) = text(cursor)? {
                    checks.text(choice, piece);
                }
                Ok(())
            }
            b"tool_calls" => each_item(cursor, |cursor, place| {
                let call = ahead(cursor, b"index")?.unwrap_or(place);
                tool_call(cursor, choice, call, checks)
            }),
            b"function_call" => function(cursor, choice, 0, checks),
            _ => cursor.skip().map(drop),
        }),
        _ => cursor.skip().map(drop),
    })
}

fn tool_call(
    cursor: &mut Cursor<'_>,
    choice: u64,
    call: u64,
    checks: &mut Checks,
) -> Result<(), Fault> {
    let mut begins = false;
    members(&mut cursor.clone(), |cursor, key| {
        if key.raw() == b"id" {
            begins = says(cursor)?;
        } else {
            cursor.skip()?;
        }
        Ok(())
    })?;
    if begins {
        checks.begin(choice, call);
    }
    members(cursor, |cursor, key| match key.raw() {
        b"function" => function(cursor, choice, call, checks),
        _ => cursor.skip().map(drop),
    })
}

fn function(
    cursor: &mut Cursor<'_>,
    choice: u64,
    call: u64,
    checks: &mut Checks,
) -> Result<(), Fault> {
    members(cursor, |cursor, key| {
        if key.raw() != b"arguments" {
            return cursor.skip().map(drop);
        }
        if let Some(piece) = text(cursor)? {
            checks.arguments(choice, call, piece);
        }
        Ok(())
    })
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
