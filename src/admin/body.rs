//! The body of a request that changes something.
//!
//! In: its head, and its bytes or why they did not come. Out: what a reader makes of it, or a problem that says where it is
//! wrong. Nothing but JSON is read.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};

use serde::de::DeserializeOwned;

use super::problem::{Code, Problem, start};

/// Whether the head announces JSON. A form of another site cannot send this type without asking first.
///
/// # Errors
/// Another type, or none.
pub fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let found = headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.to_str().unwrap_or_default());
    let media = found.map(|found| found.split(';').next().unwrap_or(found).trim());
    match media {
        Some(media) if media.eq_ignore_ascii_case("application/json") => Ok(()),
        Some(media) => Err(not_json(&format!("{:?}", start(media)))),
        None => Err(not_json("no content-type")),
    }
}

fn not_json(found: &str) -> Problem {
    Problem::new(
        Code::NotJson,
        format!("found {found}; the content-type must be application/json"),
    )
}

/// A problem with a body that did not come, of which so many bytes are read.
pub fn unreadable(rejection: BytesRejection, longest: usize) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let what = format!("found more than {longest} bytes; up to that many are allowed here");
        return Problem::new(Code::BodyTooLarge, what);
    }
    Problem::new(Code::BadBody, "the body ended before it was whole")
}

/// The thing that a body of JSON is, of which so many bytes are read.
///
/// # Errors
/// It is no JSON, or JSON of another shape, or did not come whole.
pub fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    longest: usize,
) -> Result<T, Problem> {
    is_json(headers)?;
    let body = body.map_err(|rejection| unreadable(rejection, longest))?;
    parse(&body, |body| serde_json::from_slice(body))
}

/// What `read` makes of a body.
///
/// # Errors
/// It is not JSON, or JSON of another shape; where, and what is allowed there.
pub fn parse<T>(
    body: &[u8],
    read: impl FnOnce(&[u8]) -> serde_json::Result<T>,
) -> Result<T, Problem> {
    read(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let suffix = format!(" at line {line} column {column}");
        let what = start(message.strip_suffix(&suffix).unwrap_or(&message));
        let detail = format!("line {line}, column {column}: {what}");
        Problem::new(Code::BadJson, detail).at(line, column)
    })
}
