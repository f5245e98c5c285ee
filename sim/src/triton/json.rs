//! Inference over HTTP: KServe's `infer`, with its binary extension, and Triton's `generate` and `generate_stream`.
//!
//! In: a path, a head, a body. Out: what is asked of which model, or the page that refuses it; answers as pages and
//! events. Statuses, content types and shapes are as recorded, also where they differ between the routes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::page::{bare, error};
use super::{Data, Fault, Kind, Model, Tensor, VERSION};
use crate::page::Page;
use crate::request::Head;

/// What is asked of a model by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    model: String,
    version: String,
    verb: Verb,
}

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Infer,
    Generate,
    GenerateStream,
}

/// What is asked, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) model: Model,
    pub(crate) verb: Verb,
    pub(crate) id: String,
    pub(crate) inputs: Vec<Tensor>,
    /// Names of outputs wanted raw; `None` is all.
    raw: Vec<Option<String>>,
}

/// What Triton says in a stream whose model fails.
pub(crate) const ERROR_EVENT: &str =
    "data: {\"error\":\"made-up failure in the middle of a stream\"}\n\n";

impl Asked {
    pub(crate) fn of(path: &str) -> Option<Asked> {
        let (target, verb) = path.strip_prefix("/v2/models/")?.rsplit_once('/')?;
        let verb = match verb {
            "infer" => Verb::Infer,
            "generate" => Verb::Generate,
            "generate_stream" => Verb::GenerateStream,
            _ => return None,
        };
        let (model, version) = target.split_once("/versions/").unwrap_or((target, ""));
        Some(Asked {
            model: model.to_owned(),
            version: version.to_owned(),
            verb,
        })
    }

    /// Reads the body; else the page that refuses it.
    pub(crate) fn read(&self, head: &Head, body: &[u8]) -> Result<Call, Page> {
        let model = Model::find(&self.model, &self.version);
        match self.verb {
            Verb::Infer => {
                let model = model.map_err(|fault| refused(&fault))?;
                if model.decoupled() {
                    let message =
                        "HTTP end point doesn't support models with decoupled transaction policy";
                    return Err(refused(&Fault::new(Kind::Unimplemented, message)));
                }
                self.infer(model, head, body).map_err(|fault| told(&fault))
            }
            Verb::Generate | Verb::GenerateStream => model
                .and_then(|model| self.generate(model, body))
                .map_err(|fault| told(&fault)),
        }
    }

    fn infer(&self, model: Model, head: &Head, body: &[u8]) -> Result<Call, Fault> {
        let length = match head.header("inference-header-content-length") {
            Some(length) => length.parse().ok(),
            None => Some(body.len()),
        };
        let (json, mut tail) = length
            .and_then(|length| body.split_at_checked(length))
            .ok_or_else(|| Fault::invalid("Unable to parse Inference-Header-Content-Length"))?;
        let fields = object(json)?;
        let missing = || {
            let message =
                "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'";
            Fault::new(Kind::Internal, message)
        };
        let listed = fields
            .get("inputs")
            .and_then(Value::as_array)
            .ok_or_else(missing)?;
        let inputs: Vec<Tensor> = listed
            .iter()
            .map(|input| tensor(input, &mut tail))
            .collect::<Result<_, _>>()?;
        let id = text(&fields, "id");
        model.check(&id, &inputs)?;
        let mut raw = Vec::new();
        if set(fields.get("parameters"), "binary_data_output") {
            raw.push(None);
        }
        let outputs = fields.get("outputs").and_then(Value::as_array);
        for output in outputs.into_iter().flatten().filter_map(Value::as_object) {
            if set(output.get("parameters"), "binary_data") {
                raw.push(Some(text(output, "name")));
            }
        }
        Ok(Call {
            model,
            verb: self.verb,
            id,
            inputs,
            raw,
        })
    }

    fn generate(&self, model: Model, body: &[u8]) -> Result<Call, Fault> {
        let fields = object(body)?;
        let parameters = fields.get("parameters").and_then(Value::as_object);
        let mut inputs = Vec::new();
        for (name, datatype, _) in model.inputs() {
            let value = fields.get(*name).or_else(|| parameters?.get(*name));
            if let Some(value) = value {
                let data = Data::json(datatype, value)?;
                inputs.push(Tensor {
                    name: (*name).to_owned(),
                    shape: vec![i64::try_from(data.len()).unwrap_or(i64::MAX)],
                    data,
                });
            }
        }
        Ok(Call {
            model,
            verb: self.verb,
            id: text(&fields, "id"),
            inputs,
            raw: Vec::new(),
        })
    }
}

fn object(json: &[u8]) -> Result<Map<String, Value>, Fault> {
    serde_json::from_slice(json).map_err(|error| {
        let message = format!("failed to parse the request JSON buffer: {error}");
        Fault::new(Kind::Internal, message)
    })
}

fn text(fields: &Map<String, Value>, key: &str) -> String {
    fields
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn set(parameters: Option<&Value>, key: &str) -> bool {
    parameters
        .and_then(|found| found.get(key))
        .and_then(Value::as_bool)
        == Some(true)
}

/// Reads one input; a raw one takes its bytes from the front of the tail.
fn tensor(input: &Value, tail: &mut &[u8]) -> Result<Tensor, Fault> {
    let none = Map::new();
    let fields = input.as_object().unwrap_or(&none);
    let sizes = fields
        .get("shape")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let shape: Vec<i64> = sizes.filter_map(Value::as_i64).collect();
    let datatype = text(fields, "datatype");
    let size = fields
        .get("parameters")
        .and_then(|found| found.get("binary_data_size"));
    let data = match size.and_then(Value::as_u64) {
        Some(size) => {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let raw = tail.split_off(..size).ok_or_else(|| {
                Fault::invalid("unexpected size of the binary data of the request")
            })?;
            Data::raw(&datatype, raw)?
        }
        None => Data::json(&datatype, fields.get("data").unwrap_or(&Value::Null))?,
    };
    let elements = shape
        .iter()
        .try_fold(1_i64, |all, size| all.checked_mul(*size));
    if elements.and_then(|all| usize::try_from(all).ok()) != Some(data.len()) {
        let message = "Unable to parse 'data': Shape does not match true shape of 'data' field";
        return Err(Fault::new(Kind::Internal, message));
    }
    Ok(Tensor {
        name: text(fields, "name"),
        shape,
        data,
    })
}

/// An error as Triton's own code tells it.
fn told(fault: &Fault) -> Page {
    Page::json(fault.kind.status(), error(&fault.message))
}

/// An error as the web server under Triton tells it.
fn refused(fault: &Fault) -> Page {
    bare(fault.kind.status(), error(&fault.message))
}

/// The answer to `infer`.
pub(crate) fn inferred(call: &Call, said: &Result<Vec<Tensor>, Fault>) -> Page {
    let outputs = match said {
        Ok(outputs) => outputs,
        Err(fault) => return refused(fault),
    };
    let mut tail = Vec::new();
    let listed: Vec<String> = outputs
        .iter()
        .map(|output| {
            let shape = json!(output.shape);
            let start = format!(
                "{{\"name\":\"{}\",\"datatype\":\"{}\",\"shape\":{shape}",
                output.name,
                output.data.datatype()
            );
            let raw =
                |wanted: &Option<String>| wanted.as_ref().is_none_or(|name| *name == output.name);
            if call.raw.iter().any(raw) {
                let bytes = output.data.to_raw();
                let size = bytes.len();
                tail.extend(bytes);
                format!("{start},\"parameters\":{{\"binary_data_size\":{size}}}}}")
            } else {
                format!("{start},\"data\":{}}}", json!(output.data.to_json()))
            }
        })
        .collect();
    let id = if call.id.is_empty() {
        String::new()
    } else {
        format!("\"id\":{},", json!(call.id))
    };
    let json = format!(
        "{{{id}\"model_name\":\"{}\",\"model_version\":\"{VERSION}\",\"outputs\":[{}]}}",
        call.model.name(),
        listed.join(",")
    );
    if tail.is_empty() {
        return Page::json(200, json);
    }
    let mut page = Page::json(200, String::new());
    page.content_type = "application/octet-stream";
    page.fields = vec![format!("Inference-Header-Content-Length: {}", json.len())];
    page.body = [json.into_bytes(), tail].concat();
    page
}

/// One response as `generate` and the events of `generate_stream` have it, and the status it means when it is the first.
pub(crate) fn generated(
    model: Model,
    id: &str,
    said: &Result<Vec<Tensor>, Fault>,
) -> (u16, String) {
    let outputs = match said {
        Ok(outputs) => outputs,
        Err(fault) => return (400, error(&fault.message)),
    };
    let mut fields = BTreeMap::from([
        ("model_name", json!(model.name())),
        ("model_version", json!(VERSION)),
    ]);
    if !id.is_empty() {
        fields.insert("id", json!(id));
    }
    for output in outputs {
        let mut values = output.data.to_json();
        let value = match values.as_mut_slice() {
            [only] => only.take(),
            _ => values.into(),
        };
        fields.insert(&output.name, value);
    }
    (200, json!(fields).to_string())
}

/// The answer of `generate` for a model that gave none or several.
pub(crate) fn one_expected() -> Page {
    let message = "generate expects model to produce exactly 1 response, use generate stream for model that generates various number of responses";
    Page {
        chunked: true,
        ..Page::json(200, error(message))
    }
}
