//! What Triton's requests and gRPC messages say, as far as Greylag asks (`grpc_service.proto` of
//! triton-inference-server/common, and Triton's protocol extensions).
//!
//! In: a JSON member or a protobuf message. Out: a [`Request`], or what one answer brings. Tensors are walked over and never
//! looked into. A parameter is read by its own kind alone: a `sequence_start` of 1 starts nothing.

mod answer;
mod request;

#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz_triton;
pub use request::{Request, SequenceId};

pub(crate) use answer::{Answer, infer_answer, stream_answer};
pub(crate) use request::{Asked, json_member, message, text};

#[cfg(any(test, fuzzing))]
mod fuzz;

/// The field that says how many bytes at the start of a body are its JSON; tensors follow them.
pub const JSON_LENGTH: &str = "inference-header-content-length";

/// Reads the value of a [`JSON_LENGTH`] field: digits alone.
pub fn json_length(value: &[u8]) -> Option<usize> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;
