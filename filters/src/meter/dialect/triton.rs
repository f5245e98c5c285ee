//! Triton's JSON answers.
//!
//! In: an answer of `infer` or `generate`, or an event of `generate_stream`. Out: what matters to the meter. Each event is
//! what the model gave at once, so each that is no error bears tokens, also one whose text is empty. Which field holds the
//! text is the model's own choice; only `text_output`, the usual one, is known to show it. Neither a count of tokens nor a
//! reason for the end is ever there.

use super::super::answer::{Answer, object};
use super::super::in_stream_error::InStreamError;
use super::super::past::Past;
use super::{Body, Grammar, silent};
use crate::json::{Fault, Kind};
use crate::refusal::Family;

pub(super) const INFER: Grammar = Grammar {
    operation: "infer",
    name: "triton_infer",
    read,
    speak: silent,
    body: Body::Json,
    ends_with_body: true,
    takes_usage_option: false,
    family: Family::Triton,
};

pub(super) const GENERATE: Grammar = Grammar {
    operation: "text_completion",
    name: "triton_generate",
    ..INFER
};

/// What is a message over gRPC has the same form in JSON as over HTTP (KServe v2).
pub(super) const MODEL_INFER: Grammar = Grammar {
    operation: "infer",
    name: "model_infer",
    body: Body::Message,
    family: Family::Grpc,
    ..INFER
};

fn read<'a>(json: &'a [u8], _past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    object(json, |cursor, key| {
        match key.raw() {
            b"error" => answer.error = InStreamError::value(cursor)?,
            b"model_name" if cursor.kind()? == Kind::String => {
                answer.model = Some(cursor.string()?);
            }
            b"text_output" if cursor.kind()? == Kind::String => {
                answer.shows_text = !cursor.string()?.is_empty();
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    answer.bears_tokens = answer.error.is_none();
    answer.shows_text &= answer.bears_tokens;
    Ok(answer)
}
