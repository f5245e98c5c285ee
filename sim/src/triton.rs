//! A Triton with three models, as the recorded one has them: `affine`, `words` and `boom`.
//!
//! In: a model and its input tensors, however they came. Out: replies, each with the wait before it. Never reads or
//! writes a wire format itself: that is done by the modules below. What holds of them was recorded from Triton 2.51.

mod ask;
pub(crate) mod grpc;
mod infer;
mod json;
mod message;
mod page;
mod proto;
mod replies;
mod tensor;

pub use ask::{WordsRequest, grpc_messages};
pub(crate) use json::{Asked, Call, ERROR_EVENT, Verb, generated, inferred, one_expected};
pub(crate) use page::{beside, error};
pub(crate) use replies::{Replies, Reply};
pub(crate) use tensor::{Data, Tensor};

/// A model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// `Y = 2 X + 1`, element by element.
    Affine,
    /// Fails always.
    Boom,
    /// Decoupled: one word a response.
    Words,
}

/// The only version of each model.
pub(crate) const VERSION: &str = "1";

/// Inputs or outputs of a model: name, type, shape.
type Signature = &'static [(&'static str, &'static str, &'static [i64])];

impl Model {
    pub(crate) const ALL: [Model; 3] = [Model::Affine, Model::Boom, Model::Words];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Model::Affine => "affine",
            Model::Boom => "boom",
            Model::Words => "words",
        }
    }

    /// The model of that name, in that version; an empty one is any.
    pub(crate) fn find(name: &str, version: &str) -> Result<Model, Fault> {
        let found = Model::ALL.into_iter().find(|model| model.name() == name);
        match found {
            Some(model) if version.is_empty() || version == VERSION => Ok(model),
            Some(_) => Err(Fault::not_found(format!("'{name}' version {version}"))),
            None => Err(Fault::not_found(format!("'{name}'"))),
        }
    }

    /// Whether it may answer a request with any number of responses.
    pub(crate) fn decoupled(self) -> bool {
        match self {
            Model::Words => true,
            Model::Affine | Model::Boom => false,
        }
    }

    pub(crate) fn inputs(self) -> Signature {
        match self {
            Model::Affine => &[("X", "FP32", &[-1, -1])],
            Model::Boom => &[("X", "FP32", &[-1])],
            Model::Words => &[
                ("text_input", "BYTES", &[1]),
                ("max_tokens", "INT32", &[1]),
                ("stream", "BOOL", &[1]),
                ("delay_ms", "INT32", &[1]),
                ("fail_after", "INT32", &[1]),
            ],
        }
    }

    pub(crate) fn outputs(self) -> Signature {
        match self {
            Model::Affine => &[("Y", "FP32", &[-1, -1])],
            Model::Boom => &[("Y", "FP32", &[-1])],
            Model::Words => &[("text_output", "BYTES", &[1]), ("index", "INT32", &[1])],
        }
    }

    /// Refuses inputs that the model does not take.
    pub(crate) fn check(self, id: &str, inputs: &[Tensor]) -> Result<(), Fault> {
        let name = self.name();
        let id = if id.is_empty() { "<id_unknown>" } else { id };
        for input in inputs {
            let found = self
                .inputs()
                .iter()
                .find(|(known, ..)| *known == input.name);
            let Some((_, datatype, shape)) = found else {
                let message = format!(
                    "unexpected inference input '{}' for model '{name}'",
                    input.name
                );
                return Err(Fault::invalid(format!("[request id: {id}] {message}")));
            };
            let message = if input.data.datatype() != *datatype {
                format!(
                    "inference input '{}' data-type is '{}', but model '{name}' expects '{datatype}'",
                    input.name,
                    input.data.datatype()
                )
            } else if input.shape.len() != shape.len() {
                format!(
                    "unexpected shape for input '{}' for model '{name}'. Expected [{}], got [{}]. NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.",
                    input.name,
                    joined(shape),
                    joined(&input.shape)
                )
            } else if self == Model::Affine && input.shape.first().is_some_and(|batch| *batch > 8) {
                format!("inference request batch-size must be <= 8 for '{name}'")
            } else {
                continue;
            };
            return Err(Fault::invalid(format!("[request id: {id}] {message}")));
        }
        Ok(())
    }
}

fn joined(shape: &[i64]) -> String {
    let sizes: Vec<String> = shape.iter().map(i64::to_string).collect();
    sizes.join(",")
}

/// An error of the server or of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

/// What is wrong, in the words of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    InvalidArgument,
    NotFound,
    Unimplemented,
    Internal,
}

impl Fault {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Fault {
        Fault {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(Kind::InvalidArgument, message)
    }

    fn not_found(what: String) -> Fault {
        let message = format!("Request for unknown model: {what} is not found");
        Fault::new(Kind::NotFound, message)
    }
}

impl Kind {
    /// The `grpc-status`.
    pub(crate) fn code(self) -> u8 {
        match self {
            Kind::InvalidArgument => 3,
            Kind::NotFound => 5,
            Kind::Unimplemented => 12,
            Kind::Internal => 13,
        }
    }

    /// The status over HTTP.
    pub(crate) fn status(self) -> u16 {
        match self {
            Kind::InvalidArgument => 400,
            Kind::NotFound => 404,
            Kind::Unimplemented => 501,
            Kind::Internal => 500,
        }
    }
}
