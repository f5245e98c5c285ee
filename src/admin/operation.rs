//! What can be asked of the API: each operation with all that is said of it, in the document and by the router alike.
//!
//! In: what a noun says of itself. Out: its routes, and its part of the OpenAPI document. What is not in the one is not in the other.

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::problem::Code;
use super::query::Param;
use crate::side::Sides;

/// One method of one path.
pub struct Operation {
    /// The method; GET answers HEAD too.
    pub method: Method,
    /// The path, with `{name}` for what differs.
    pub path: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// The keys of its query.
    pub query: &'static [Param],
    /// What its body is.
    pub body: Option<Form>,
    /// What it answers with 200.
    pub answer: Form,
    /// The problems that it may answer with, beside those of every operation.
    pub problems: &'static [Code],
    /// Whether it takes `If-Match`, and answers with `ETag`.
    pub is_tagged: bool,
    route: MethodRouter<Sides>,
}

/// What is sent: the type of the media, and how the thing looks.
pub struct Form {
    /// Such as `application/json`.
    pub media: &'static str,
    /// Its schema.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Form {
    /// JSON of this type.
    pub fn json<T: JsonSchema>() -> Form {
        Form {
            media: "application/json",
            schema: |generator| generator.subschema_for::<T>(),
        }
    }
}

impl Operation {
    /// Reads something of this type.
    pub fn read<T: JsonSchema>(
        path: &'static str,
        summary: &'static str,
        route: MethodRouter<Sides>,
    ) -> Operation {
        Operation::new(Method::GET, path, summary, Form::json::<T>(), route)
    }

    /// Does something, and answers with this type.
    pub fn act<T: JsonSchema>(
        method: Method,
        path: &'static str,
        summary: &'static str,
        route: MethodRouter<Sides>,
    ) -> Operation {
        Operation::new(method, path, summary, Form::json::<T>(), route)
    }

    fn new(
        method: Method,
        path: &'static str,
        summary: &'static str,
        answer: Form,
        route: MethodRouter<Sides>,
    ) -> Operation {
        Operation {
            method,
            path,
            summary,
            query: &[],
            body: None,
            answer,
            problems: &[],
            is_tagged: false,
            route,
        }
    }

    /// The same, with these keys of its query.
    pub fn query(self, query: &'static [Param]) -> Operation {
        Operation { query, ..self }
    }

    /// The same, which takes this as JSON.
    pub fn takes<T: JsonSchema>(self) -> Operation {
        Operation {
            body: Some(Form::json::<T>()),
            ..self
        }
    }

    /// The same, which answers in another form.
    pub fn answers(self, answer: Form) -> Operation {
        Operation { answer, ..self }
    }

    /// The same, which may answer with these problems too.
    pub fn problems(self, problems: &'static [Code]) -> Operation {
        Operation { problems, ..self }
    }

    /// The same, for something that has a version.
    pub fn tagged(self) -> Operation {
        Operation {
            is_tagged: true,
            ..self
        }
    }

    /// The statuses of the problems that it may answer with, each with the titles of what has it, in order.
    pub fn refusals(&self) -> Vec<(StatusCode, Vec<&'static str>)> {
        let mut codes: Vec<Code> = Code::EVERYWHERE.to_vec();
        if self.body.is_some() {
            codes.extend(Code::OF_BODIES);
        }
        codes.extend(self.problems);
        let mut statuses: Vec<(StatusCode, Vec<&'static str>)> = Vec::new();
        for code in codes {
            let (status, title) = (code.status(), code.title());
            match statuses.iter_mut().find(|(other, _)| *other == status) {
                Some((_, titles)) => titles.push(title),
                None => statuses.push((status, vec![title])),
            }
        }
        statuses.sort_by_key(|(status, _)| *status);
        statuses
    }
}

/// The routes of all of them.
pub fn routes(operations: Vec<Operation>) -> Router<Sides> {
    operations
        .into_iter()
        .fold(Router::new(), |router, operation| {
            router.route(operation.path, operation.route)
        })
}
