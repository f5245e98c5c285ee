//! What Triton tells of itself and its models.
//!
//! In: a model. Out: the same over HTTP, as JSON, and over gRPC, as protobuf messages. Never a figure that changes.

use serde_json::{Value, json};

use super::proto::Writer;
use super::{Model, Signature, VERSION};

const EXTENSIONS: [&str; 13] = [
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
];
const RELEASE: &str = "2.51.0";

/// The page of `/v2`.
pub(crate) fn server() -> String {
    let extensions = json!(EXTENSIONS);
    format!("{{\"name\":\"triton\",\"version\":\"{RELEASE}\",\"extensions\":{extensions}}}")
}

/// The page of `/v2/models/MODEL`.
pub(crate) fn model(model: Model) -> String {
    let tensors = |signature: Signature| {
        let listed: Vec<String> = signature
            .iter()
            .map(|(name, datatype, shape)| {
                let shape = json!(shape);
                format!("{{\"name\":\"{name}\",\"datatype\":\"{datatype}\",\"shape\":{shape}}}")
            })
            .collect();
        listed.join(",")
    };
    format!(
        "{{\"name\":\"{}\",\"versions\":[\"{VERSION}\"],\"platform\":\"python\",\"inputs\":[{}],\"outputs\":[{}]}}",
        model.name(),
        tensors(model.inputs()),
        tensors(model.outputs())
    )
}

/// The page of `/v2/repository/index`.
pub(crate) fn index() -> String {
    let listed = Model::ALL.map(|model| {
        let name = model.name();
        format!("{{\"name\":\"{name}\",\"version\":\"{VERSION}\",\"state\":\"READY\"}}")
    });
    format!("[{}]", listed.join(","))
}

/// An error.
pub(crate) fn error(message: &str) -> String {
    format!("{{\"error\":{}}}", Value::from(message))
}

/// A `ServerMetadataResponse`.
pub(crate) fn server_message() -> Vec<u8> {
    let start = Writer::default().bytes(1, "triton").bytes(2, RELEASE);
    EXTENSIONS
        .iter()
        .fold(start, |message, extension| message.bytes(3, extension))
        .done()
}

/// A `ModelMetadataResponse`.
pub(crate) fn model_message(model: Model) -> Vec<u8> {
    let start = Writer::default()
        .bytes(1, model.name())
        .bytes(2, VERSION)
        .bytes(3, "python");
    let tensors = |message: Writer, field, signature: Signature| {
        signature
            .iter()
            .fold(message, |message, (name, datatype, shape)| {
                let tensor = Writer::default()
                    .bytes(1, name)
                    .bytes(2, datatype)
                    .packed(3, shape);
                message.entry(field, &tensor.done())
            })
    };
    let inputs = tensors(start, 4, model.inputs());
    tensors(inputs, 5, model.outputs()).done()
}
