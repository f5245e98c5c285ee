//! Answers of the API that say what is wrong (RFC 9457).
//!
//! In: a code, a sentence, and where there are several things wrong, all of them. Out: a problem document. It never
//! holds anything of the rules in force, only of what was asked.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use greylag_filters::rules;
use schemars::JsonSchema;
use serde::Serialize;

/// What kind of problem it is. The code is stable: programs may depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The query has a key or a value that is not allowed.
    BadQuery,
    /// The body is not JSON, or JSON of another shape.
    BadJson,
    /// The body could not be read to its end.
    BadBody,
    /// `Host` names somebody else.
    HostNotAllowed,
    /// `Origin` is another site.
    OriginNotAllowed,
    /// There is nothing at this path.
    NotFound,
    /// Something is at this path, but it does not take this method.
    MethodNotAllowed,
    /// What was edited is not what is in force.
    Conflict,
    /// An exchange has as many metrics as it may have.
    TooManyMetrics,
    /// The body is longer than is read.
    BodyTooLarge,
    /// The body is not `application/json`.
    NotJson,
    /// The rules do not compile.
    InvalidRules,
    /// As many follow events as may.
    TooManyFollowers,
    /// Greylag has made a mistake.
    Internal,
}

impl Code {
    /// What every operation may answer with.
    pub const EVERYWHERE: [Code; 3] =
        [Code::BadQuery, Code::HostNotAllowed, Code::OriginNotAllowed];
    /// What every operation with a body may answer with.
    pub const OF_BODIES: [Code; 4] = [
        Code::BadJson,
        Code::BadBody,
        Code::BodyTooLarge,
        Code::NotJson,
    ];

    /// The status that goes with it.
    pub fn status(self) -> StatusCode {
        self.parts().1
    }

    /// What it is called for people.
    pub fn title(self) -> &'static str {
        self.parts().2
    }

    // The end of the document's `type`, after `urn:greylag:problem:`; the status; the title.
    fn parts(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Code::BadQuery => (
                "bad_query",
                StatusCode::BAD_REQUEST,
                "The query is not understood",
            ),
            Code::BadJson => (
                "bad_json",
                StatusCode::BAD_REQUEST,
                "The body is not understood",
            ),
            Code::BadBody => (
                "bad_body",
                StatusCode::BAD_REQUEST,
                "The body cannot be read",
            ),
            Code::HostNotAllowed => (
                "host_not_allowed",
                StatusCode::FORBIDDEN,
                "The host is not allowed",
            ),
            Code::OriginNotAllowed => (
                "origin_not_allowed",
                StatusCode::FORBIDDEN,
                "The origin is not allowed",
            ),
            Code::NotFound => ("not_found", StatusCode::NOT_FOUND, "There is no such thing"),
            Code::MethodNotAllowed => (
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "The method is not allowed here",
            ),
            Code::TooManyMetrics => (
                "too_many_metrics",
                StatusCode::CONFLICT,
                "The exchange takes no more metrics",
            ),
            Code::Conflict => (
                "conflict",
                StatusCode::PRECONDITION_FAILED,
                "Other rules are in force by now",
            ),
            Code::BodyTooLarge => (
                "body_too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is too large",
            ),
            Code::NotJson => (
                "not_json",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body is of another type",
            ),
            Code::InvalidRules => (
                "invalid_rules",
                StatusCode::UNPROCESSABLE_ENTITY,
                "The rules do not compile",
            ),
            Code::TooManyFollowers => (
                "too_many_followers",
                StatusCode::TOO_MANY_REQUESTS,
                "No more may follow events",
            ),
            Code::Internal => (
                "internal",
                StatusCode::INTERNAL_SERVER_ERROR,
                "Greylag has made a mistake",
            ),
        }
    }
}

/// A problem document.
#[derive(Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    // line and column of the body, both from 1
    place: Option<(usize, usize)>,
    problems: Vec<rules::Problem>,
}

impl Problem {
    /// A problem; `detail` says what was found and what is allowed.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            code,
            detail: detail.into(),
            place: None,
            problems: Vec::new(),
        }
    }

    /// What kind of problem it is.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The same, at a place of the body: line and column, both from 1.
    pub fn at(self, line: usize, column: usize) -> Problem {
        Problem {
            place: Some((line, column)),
            ..self
        }
    }

    /// The same, with everything that is wrong.
    pub fn with(self, problems: Vec<rules::Problem>) -> Problem {
        Problem { problems, ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (_, status, _) = self.code.parts();
        let mut response = (status, axum::Json(Document::of(&self))).into_response();
        let media = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response
    }
}

/// The members of RFC 9457, and ours.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Problem")]
pub struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    problems: Vec<Item<'a>>,
}

// One of several things that are wrong.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Misfit")]
struct Item<'a> {
    path: &'a str,
    what: &'a str,
}

impl<'a> Document<'a> {
    fn of(problem: &'a Problem) -> Document<'a> {
        let (name, status, title) = problem.code.parts();
        let items = problem.problems.iter().map(|problem| Item {
            path: &problem.path,
            what: &problem.what,
        });
        Document {
            r#type: format!("urn:greylag:problem:{name}"),
            title,
            status: status.as_u16(),
            detail: &problem.detail,
            line: problem.place.map(|(line, _)| line),
            column: problem.place.map(|(_, column)| column),
            problems: items.collect(),
        }
    }
}

/// The beginning of what somebody sent, for a message that must not grow with it.
pub fn start(text: &str) -> &str {
    const MOST: usize = 200;
    text.char_indices()
        .nth(MOST)
        .and_then(|(end, _)| text.get(..end))
        .unwrap_or(text)
}
