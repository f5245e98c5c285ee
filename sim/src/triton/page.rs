//! What Triton tells of itself and its models.
//!
//! In: a model. Out: the same over HTTP, as JSON, and over gRPC, as protobuf messages. Never a figure that changes.

use serde_json::{Value, json};

use super::proto::Writer;
use super::{Asked, Model, Signature, VERSION};
use crate::page::Page;
use crate::request::Head;
use crate::settings::Settings;

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

/// The answer to what is not inference.
pub(crate) fn beside(head: &Head, settings: &Settings) -> Page {
    let path = head.path().strip_prefix("/v2").unwrap_or_default();
    let reads = head.method == "GET" || head.method == "HEAD";
    let health = |well: bool| bare(if well { 200 } else { 400 }, String::new());
    let not_found = || bare(404, error("Not Found"));
    if Asked::of(head.path()).is_some() {
        return bare(405, error("Method Not Allowed"));
    }
    match path {
        "" if reads => Page::json(200, server()),
        "/health/live" if reads => health(true),
        "/health/ready" if reads => health(settings.healthy),
        "/repository/index" if head.method == "POST" => Page::json(200, index()),
        _ => match path.strip_prefix("/models/") {
            Some(target) if reads => of_a_model(target, settings),
            Some(_) | None => not_found(),
        },
    }
}

/// The answer to `MODEL`, `MODEL/ready` and both with a version.
fn of_a_model(target: &str, settings: &Settings) -> Page {
    let (target, ready) = match target.strip_suffix("/ready") {
        Some(target) => (target, true),
        None => (target, false),
    };
    let (name, version) = target.split_once("/versions/").unwrap_or((target, ""));
    match (Model::find(name, version), ready) {
        (Ok(found), false) => Page::json(200, model(found)),
        (Err(fault), false) => Page::json(fault.kind.status(), error(&fault.message)),
        (Ok(_), true) if settings.healthy => bare(200, String::new()),
        (Ok(_) | Err(_), true) => bare(400, error("Model version not ready")),
    }
}

/// A page of the web server under Triton.
pub(super) fn bare(status: u16, body: String) -> Page {
    Page {
        content_type: "text/plain",
        ..Page::json(status, body)
    }
}

/// The page of `/v2`.
fn server() -> String {
    let extensions = json!(EXTENSIONS);
    format!("{{\"name\":\"triton\",\"version\":\"{RELEASE}\",\"extensions\":{extensions}}}")
}

/// The page of `/v2/models/MODEL`.
fn model(model: Model) -> String {
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
fn index() -> String {
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
