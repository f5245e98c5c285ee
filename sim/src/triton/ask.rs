//! Requests to the model `words` over gRPC, and their answers taken apart: for clients in tests.
//!
//! In: what to ask for. Out: the bytes of a message with gRPC's prefix. Never a client: how the bytes travel is the
//! caller's.

use super::infer::EMPTY_FINAL;
use super::message::framed;
use super::proto::Writer;
use super::{Data, Model};

/// One `ModelInferRequest` for `words`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordsRequest {
    /// Told again in each response.
    pub id: String,
    /// How many words, one a response.
    pub words: i32,
    /// Milliseconds before each word; `None`: as the engine's settings have it.
    pub delay_ms: Option<i32>,
    /// The model fails instead of saying this word, counted from 0.
    pub fail_after: Option<i32>,
    /// Whether a response without outputs is wanted at the end.
    pub empty_final: bool,
}

impl WordsRequest {
    /// The message with its prefix of five bytes.
    pub fn framed(&self) -> Vec<u8> {
        let mut message = Writer::default()
            .bytes(1, Model::Words.name())
            .bytes(3, &self.id);
        if self.empty_final {
            let value = Writer::default().chosen(1, 1).done();
            let entry = Writer::default().bytes(1, EMPTY_FINAL).entry(2, &value);
            message = message.entry(4, &entry.done());
        }
        let inputs = [
            ("text_input", Some(Data::Bytes(vec![b"hello".to_vec()]))),
            ("max_tokens", Some(Data::Int32(vec![self.words]))),
            ("delay_ms", self.delay_ms.map(|ms| Data::Int32(vec![ms]))),
            (
                "fail_after",
                self.fail_after.map(|word| Data::Int32(vec![word])),
            ),
        ];
        let inputs = inputs.map(|(name, data)| data.map(|data| (name, data)));
        for (name, data) in inputs.iter().flatten() {
            let input = Writer::default()
                .bytes(1, name)
                .bytes(2, data.datatype())
                .packed(3, &[1]);
            message = message.entry(5, &input.done());
        }
        for (_, data) in inputs.iter().flatten() {
            message = message.entry(7, &data.to_raw());
        }
        framed(&message.done())
    }
}

/// The whole messages at the start of a body, without their prefixes.
pub fn grpc_messages(mut body: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let Some((&[_, length @ ..], rest)) = body.split_first_chunk::<5>() {
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let Some((message, rest)) = rest.split_at_checked(length) else {
            break;
        };
        messages.push(message);
        body = rest;
    }
    messages
}
