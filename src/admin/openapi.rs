//! `/openapi.json`: the API, for programs that make clients of it or test it.
//!
//! In: the operations. Out: one OpenAPI 3.1 document, whose schemas come from the types that handlers take and give.

use std::sync::OnceLock;

use axum::extract::Query;
use axum::http::{Method, header};
use axum::response::IntoResponse;
use axum::routing::get;
use schemars::generate::SchemaSettings;
use schemars::{SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::operation::{Form, Operation};
use super::problem::{Document, Problem};
use super::query::{self, Pairs, Param};

/// What can be asked of it.
pub fn operations() -> Vec<Operation> {
    vec![Operation::read::<Map<String, Value>>(
        "/openapi.json",
        "This document",
        get(read),
    )]
}

async fn read(Query(pairs): Query<Pairs>) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    // It is the same for as long as the program is.
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document(&super::operations()).to_string());
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((media, text.as_str()))
}

/// The document.
pub fn document(operations: &[Operation]) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = SchemaGenerator::new(settings);
    let problem = generator.subschema_for::<Document<'static>>().to_value();
    let mut paths = Map::new();
    for operation in operations {
        let described = described(operation, &problem, &mut generator);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Greylag's admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What people and programs ask and change while Greylag runs. A GET never changes anything. Unknown keys of queries and bodies are refused.",
        },
        "paths": paths,
        "security": [{}, { "token": [] }],
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of admin.token_file; needed wherever that is given.",
                },
            },
        },
    })
}

fn described(operation: &Operation, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = path_parameters(operation.path);
    parameters.extend(operation.query.iter().map(query_parameter));
    if operation.is_tagged && operation.method != Method::GET {
        parameters.push(json!({
            "name": "If-Match",
            "in": "header",
            "description": "Only if what has this ETag is still in force. Default: whatever is.",
            "schema": { "type": "string" },
            "example": "*",
        }));
    }
    let mut responses = Map::new();
    let mut answer = json!({
        "description": "Done.",
        "content": content(&operation.answer, generator),
    });
    if operation.is_tagged {
        answer["headers"] = json!({
            "ETag": {
                "description": "The version in force, of this process.",
                "schema": { "type": "string" },
            },
        });
    }
    responses.insert("200".into(), answer);
    for (status, titles) in operation.refusals() {
        responses.insert(
            status.as_str().into(),
            json!({
                "description": format!("{}.", titles.join(", or: ")),
                "content": { "application/problem+json": { "schema": problem } },
            }),
        );
    }
    let mut described = json!({
        "operationId": id(operation),
        "summary": operation.summary,
        "responses": responses,
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = &operation.body {
        described["requestBody"] = json!({
            "required": true,
            "content": content(body, generator),
        });
    }
    described
}

fn content(form: &Form, generator: &mut SchemaGenerator) -> Value {
    let schema = (form.schema)(generator).to_value();
    json!({ form.media: { "schema": schema } })
}

// `GET /v1/splits/{name}/weights` is `get_v1_splits_name_weights`.
fn id(operation: &Operation) -> String {
    let words = operation.path.split(['/', '{', '}', '.']);
    let words = words.filter(|word| !word.is_empty());
    let method = operation.method.as_str().to_ascii_lowercase();
    words.fold(method, |id, word| format!("{id}_{word}"))
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|step| step.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| {
            let schema = match name {
                "version" => json_schema!({ "type": "integer", "minimum": 1 }),
                _ => json_schema!({ "type": "string", "minLength": 1 }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect()
}

fn query_parameter(param: &Param) -> Value {
    json!({
        "name": param.name,
        "in": "query",
        "description": param.what,
        "schema": param.kind.schema(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::admin::operations;

    #[test]
    fn every_operation_is_there_once_with_an_id_of_its_own() {
        let operations = operations();
        let document = document(&operations);
        let mut ids = HashSet::new();
        for operation in &operations {
            let method = operation.method.as_str().to_ascii_lowercase();
            let described = &document["paths"][operation.path][&method];
            let id = described["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is there twice");
            assert!(described["responses"]["200"]["content"].is_object(), "{id}");
        }
        let paths = document["paths"].as_object().unwrap().values();
        let there: usize = paths.map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(there, operations.len());
    }

    #[test]
    fn what_a_schema_refers_to_is_in_the_document() {
        fn check(document: &Value, value: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(to)) = map.get("$ref") {
                        let pointer = to.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{to}");
                    }
                    map.values().for_each(|value| check(document, value));
                }
                Value::Array(list) => list.iter().for_each(|value| check(document, value)),
                _ => {}
            }
        }
        let document = document(&operations());
        check(&document, &document);
    }
}
