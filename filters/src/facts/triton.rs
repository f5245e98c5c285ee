//! The facts of requests to Triton.
//!
//! In: a body, and what the path and the head say of it. Out: a [`Body`] with its [`triton`](Body::triton), or the first
//! fault. JSON is walked once, tensors and all; a message's tensors are stepped over.

use super::Body;
use crate::json::{Expected, Fault, Flaw};
use crate::protobuf;
use crate::triton::{self, Request};

/// Reads the body of `infer`, `generate` or `generate_stream`.
///
/// `model`: what the path names (see [`crate::route::model`]), which is the model whatever the body says; `json`: how many
/// bytes at the start are JSON, by `Inference-Header-Content-Length` (see [`triton::json_length`]), all of them if the head
/// does not say; `wanted`: keys of the outer object. The spans are those of the JSON.
///
/// # Errors
/// The first fault of the JSON; [`Flaw::End`] for a body that is shorter than its JSON is said to be.
pub fn scan(
    model: Option<&str>,
    json: Option<usize>,
    body: &[u8],
    wanted: &[Box<str>],
) -> Result<Body, Fault> {
    let text = body.get(..json.unwrap_or(body.len())).ok_or(Fault {
        what: Flaw::End(Expected::Value),
        at: body.len(),
    })?;
    let mut request = Request::default();
    let body = super::read(text, wanted, |cursor, key| {
        triton::json_member(&mut request, cursor, key)
    })?;
    Ok(Body {
        model: model.map(Box::from),
        triton: Some(Box::new(request)),
        ..body
    })
}

/// Reads a `ModelInferRequest`, which is what `ModelInfer` and `ModelStreamInfer` carry. It has no spans and none of the
/// wanted keys.
///
/// # Errors
/// The first fault of the message.
pub fn message(bytes: &[u8], wanted: &[Box<str>]) -> Result<Body, protobuf::Fault> {
    let asked = triton::message(bytes)?;
    Ok(Body {
        model: triton::text(asked.model),
        keys: vec![None; wanted.len()],
        triton: Some(Box::new(asked.request)),
        ..Body::default()
    })
}

#[cfg(test)]
mod tests;
