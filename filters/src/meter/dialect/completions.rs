//! The choices of a legacy completions stream.
//!
//! In: a member of a choice. Out: whether the choice bears a token. There is no role event; a choice with an empty
//! `text` is a token that decodes to nothing and counts, as `vllm bench serve` has it.

use super::super::answer::{Answer, text};
use super::super::checks::Checks;
use super::super::past::Past;
use super::openai::{self, Choice};
use super::{Body, Grammar};
use crate::json::{Cursor, Fault, Kind};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "text_completion",
    name: "completions",
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

fn speak(json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    openai::each_member(json, |choice, cursor, key| {
        if key != b"text" {
            return cursor.skip().map(drop);
        }
        if let Some(piece) = text(cursor)? {
            checks.text(choice, piece);
        }
        Ok(())
    })
}

pub(super) fn member(
    cursor: &mut Cursor<'_>,
    key: &[u8],
    choice: &mut Choice,
) -> Result<(), Fault> {
    if key != b"text" || cursor.kind()? != Kind::String {
        cursor.skip()?;
        return Ok(());
    }
    let text = cursor.string()?;
    *choice = Choice {
        bears_tokens: true,
        shows_text: !text.is_empty(),
    };
    Ok(())
}
