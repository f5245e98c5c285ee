//! What one answer of Triton's over gRPC brings.
//!
//! In: a `ModelInferResponse` or a `ModelStreamInferResponse`. Out: what matters to a meter, borrowed. The text of an error
//! is never kept: it may quote the prompt.

use super::request::map_entry;
use crate::protobuf::{Fault, Fields, Value};

/// One answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    /// The model that answers; empty when absent.
    pub(crate) model: &'a [u8],
    /// The `id` of the request that is answered; empty when absent.
    pub(crate) id: &'a [u8],
    /// `triton_final_response`, where the answer has it.
    pub(crate) is_final: Option<bool>,
    /// It has a tensor, so it is more than the mark of an end.
    pub(crate) bears_output: bool,
    /// Its tensor `text_output`, as Triton's language models call it, holds text.
    pub(crate) shows_text: bool,
    /// It reports an error.
    pub(crate) has_error: bool,
}

/// Reads a `ModelStreamInferResponse`.
pub(crate) fn stream_answer(bytes: &[u8]) -> Result<Answer<'_>, Fault> {
    let (mut answer, mut has_error) = (Answer::default(), false);
    for field in Fields::of(bytes) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Bytes(message)) => has_error = !message.is_empty(),
            (2, Value::Bytes(inner)) => answer = infer_answer(inner)?,
            _ => {}
        }
    }
    Ok(Answer {
        has_error,
        ..answer
    })
}

/// Reads a `ModelInferResponse`.
pub(crate) fn infer_answer(bytes: &[u8]) -> Result<Answer<'_>, Fault> {
    let mut answer = Answer::default();
    // Outputs and their raw contents stand in the same order (KServe v2).
    let (mut outputs, mut text, mut raws) = (0u32, None, 0u32);
    for field in Fields::of(bytes) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Bytes(model)) => answer.model = model,
            (3, Value::Bytes(id)) => answer.id = id,
            (4, Value::Bytes(entry)) => {
                let (key, value) = map_entry(entry)?;
                if key == b"triton_final_response" {
                    answer.is_final = Some(is_true(value)?);
                }
            }
            (5, Value::Bytes(output)) => {
                answer.bears_output = true;
                if is_text(output)? {
                    text = Some(outputs);
                }
                outputs += 1;
            }
            (6, Value::Bytes(raw)) => {
                answer.bears_output = true;
                // Text is four bytes of its length, then itself.
                answer.shows_text |= text == Some(raws) && raw.len() > 4;
                raws += 1;
            }
            _ => {}
        }
    }
    Ok(answer)
}

/// `InferParameter.bool_param`.
fn is_true(parameter: &[u8]) -> Result<bool, Fault> {
    let mut found = false;
    for field in Fields::of(parameter) {
        let field = field?;
        if let (1, Some(value)) = (field.number, field.value.varint()) {
            found = value != 0;
        }
    }
    Ok(found)
}

/// Whether an output is the one that holds text by custom.
fn is_text(output: &[u8]) -> Result<bool, Fault> {
    let mut found = false;
    for field in Fields::of(output) {
        let field = field?;
        if let (1, Value::Bytes(name)) = (field.number, field.value) {
            found = name == b"text_output";
        }
    }
    Ok(found)
}
