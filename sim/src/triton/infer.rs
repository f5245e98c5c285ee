//! Inference requests and responses as Triton's protobuf messages.
//!
//! In: a `ModelInferRequest`. Out: what it asks for, and `ModelInferResponse`s. Field numbers are those of
//! `grpc_service.proto`; what does not change an answer is not looked at.

use super::proto::{Malformed, Value, Writer, fields, packed};
use super::{Data, Fault, Model, Tensor, VERSION};

/// What a `ModelInferRequest` asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Infer {
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) id: String,
    pub(crate) inputs: Vec<Tensor>,
    /// A final response without outputs is wanted.
    pub(crate) empty_final: bool,
}

pub(super) const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

impl Infer {
    pub(crate) fn read(message: &[u8]) -> Result<Infer, Fault> {
        let mut infer = Infer::default();
        let (mut inputs, mut raw) = (Vec::new(), Vec::new());
        for (number, value) in fields(message)? {
            match (number, value) {
                (1, Value::Bytes(name)) => infer.model = text(name),
                (2, Value::Bytes(version)) => infer.version = text(version),
                (3, Value::Bytes(id)) => infer.id = text(id),
                (4, Value::Bytes(entry)) => infer.empty_final |= is_set(entry, EMPTY_FINAL)?,
                (5, Value::Bytes(input)) => inputs.push(Input::read(input)?),
                (7, Value::Bytes(bytes)) => raw.push(bytes),
                _ => {}
            }
        }
        if !raw.is_empty() && raw.len() != inputs.len() {
            return Err(Fault::invalid(format!(
                "unexpected number of raw input contents, got {} for {} inputs",
                raw.len(),
                inputs.len()
            )));
        }
        let mut raw = raw.into_iter();
        for input in inputs {
            infer.inputs.push(input.tensor(raw.next())?);
        }
        Ok(infer)
    }
}

#[derive(Default)]
struct Input {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    /// From typed contents.
    data: Option<Data>,
}

impl Input {
    fn read(message: &[u8]) -> Result<Input, Fault> {
        let mut input = Input::default();
        for (number, value) in fields(message)? {
            match (number, value) {
                (1, Value::Bytes(name)) => input.name = text(name),
                (2, Value::Bytes(datatype)) => input.datatype = text(datatype),
                (3, Value::Bytes(shape)) => input.shape = packed(shape)?,
                (3, Value::Varint(size)) => input.shape.push(size.cast_signed()),
                (5, Value::Bytes(contents)) => input.data = Some(contents_of(contents)?),
                _ => {}
            }
        }
        Ok(input)
    }

    fn tensor(self, raw: Option<&[u8]>) -> Result<Tensor, Fault> {
        let data = match (raw, self.data) {
            (Some(raw), _) => Data::raw(&self.datatype, raw)?,
            (None, Some(data)) => data,
            (None, None) => Data::raw(&self.datatype, &[])?,
        };
        let elements = self
            .shape
            .iter()
            .try_fold(1_i64, |all, size| all.checked_mul(*size));
        if elements.and_then(|all| usize::try_from(all).ok()) != Some(data.len()) {
            return Err(Fault::invalid(format!(
                "input '{}' got unexpected elements count {} for its shape",
                self.name,
                data.len()
            )));
        }
        Ok(Tensor {
            name: self.name,
            shape: self.shape,
            data,
        })
    }
}

/// Reads `InferTensorContents`, one list of which is filled.
fn contents_of(message: &[u8]) -> Result<Data, Fault> {
    let mut texts = Vec::new();
    for (number, value) in fields(message)? {
        match (number, value) {
            (1, Value::Bytes(flags)) => {
                return Ok(Data::Bool(
                    packed(flags)?.iter().map(|flag| *flag != 0).collect(),
                ));
            }
            (2, Value::Bytes(numbers)) => {
                let numbers = packed(numbers)?.into_iter().map(i32::try_from);
                return Ok(Data::Int32(
                    numbers.collect::<Result<_, _>>().map_err(|_| Malformed)?,
                ));
            }
            (6, Value::Bytes(numbers)) => return Data::raw("FP32", numbers),
            (8, Value::Bytes(text)) => texts.push(text.to_vec()),
            _ => {}
        }
    }
    Ok(Data::Bytes(texts))
}

/// Whether a parameter has this name and is true.
fn is_set(entry: &[u8], name: &str) -> Result<bool, Malformed> {
    let entry = fields(entry)?;
    let named = entry.contains(&(1, Value::Bytes(name.as_bytes())));
    let parameter = entry.iter().find_map(|(number, value)| match value {
        Value::Bytes(parameter) if *number == 2 => Some(*parameter),
        Value::Bytes(_) | Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => None,
    });
    Ok(named && fields(parameter.unwrap_or_default())?.contains(&(1, Value::Varint(1))))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Fault {
        Fault::new(super::Kind::Internal, "failed to parse the request message")
    }
}

/// A `ModelInferResponse`. `last` is told where responses stream.
pub(crate) fn response(model: Model, id: &str, outputs: &[Tensor], last: Option<bool>) -> Vec<u8> {
    let mut message = Writer::default().bytes(1, model.name());
    if !outputs.is_empty() {
        message = message.bytes(2, VERSION);
    }
    message = message.bytes(3, id);
    if let Some(last) = last {
        let value = Writer::default().chosen(1, last.into()).done();
        let entry = Writer::default()
            .bytes(1, "triton_final_response")
            .entry(2, &value);
        message = message.entry(4, &entry.done());
    }
    for output in outputs {
        let described = Writer::default()
            .bytes(1, &output.name)
            .bytes(2, output.data.datatype())
            .packed(3, &output.shape);
        message = message.entry(5, &described.done());
    }
    for output in outputs {
        message = message.entry(6, &output.data.to_raw());
    }
    message.done()
}

/// A `ModelStreamInferResponse` with a response in it.
pub(crate) fn streamed(response: &[u8]) -> Vec<u8> {
    Writer::default().entry(2, response).done()
}

/// A `ModelStreamInferResponse` with an error, and whose it is.
pub(crate) fn failed(fault: &Fault, model: Option<Model>, id: &str) -> Vec<u8> {
    let whose = match model {
        Some(model) => response(model, id, &[], Some(false)),
        // Not even the model is known.
        None => Writer::default().bytes(3, id).done(),
    };
    Writer::default()
        .bytes(1, &fault.message)
        .entry(2, &whose)
        .done()
}
