//! Answers to which nothing is generated: embeddings, scores, ranks, and any other JSON.
//!
//! In: a whole answer. Out: an [`Answer`] with the tokens of the prompt, if it says them. All its tokens are the prompt's,
//! so `total_tokens` will do; a zero that some servers give as `completion_tokens` is no count of an answer.

use super::super::Usage;
use super::super::answer::{Answer, members, text};
use super::super::in_stream_error::{InStreamError, word};
use super::super::past::Past;
use super::{Body, Grammar, silent};
use crate::json::{Cursor, Fault, Kind};
use crate::refusal::Family;

pub(super) const EMBEDDINGS: Grammar = Grammar {
    operation: "embeddings",
    name: "embeddings",
    read,
    speak: silent,
    body: Body::Json,
    ends_with_body: true,
    takes_usage_option: false,
    family: Family::OpenAi,
};

pub(super) const SCORE: Grammar = Grammar {
    operation: "score",
    name: "score",
    ..EMBEDDINGS
};

pub(super) const RERANK: Grammar = Grammar {
    operation: "rerank",
    name: "rerank",
    ..EMBEDDINGS
};

pub(super) const JSON: Grammar = Grammar {
    operation: "other",
    name: "json",
    ..EMBEDDINGS
};

fn read<'a>(json: &'a [u8], _past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    let mut cursor = Cursor::new(json);
    if cursor.kind()? == Kind::Object {
        // SGLang's errors are not wrapped.
        let (mut is_error, mut bare) = (false, InStreamError::default());
        cursor.object(|cursor, key| {
            match key.raw() {
                b"usage" => {
                    answer.has_usage = cursor.kind()? == Kind::Object;
                    answer.usage = usage(cursor)?;
                }
                b"model" => answer.model = text(cursor)?,
                b"error" => answer.error = InStreamError::value(cursor)?,
                b"object" => is_error = text(cursor)?.is_some_and(|object| object.is("error")),
                b"type" => bare.kind = word(cursor)?,
                b"code" => bare.code = word(cursor)?,
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        if is_error && answer.error.is_none() {
            answer.error = Some(bare);
        }
    } else {
        cursor.skip()?;
    }
    cursor.end()?;
    Ok(answer)
}

fn usage(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, Fault> {
    let (mut usage, mut total) = (Usage::default(), None);
    members(cursor, |cursor, key| {
        match key.raw() {
            b"prompt_tokens" => usage.prompt = cursor.count()?,
            b"total_tokens" => total = cursor.count()?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    usage.prompt = usage.prompt.or(total);
    Ok(usage.if_real())
}
