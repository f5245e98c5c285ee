//! The step of a path that names a thing.
//!
//! In: a request to a path with one `{…}`. Out: what stands there, or a problem: nothing is called by what is no text.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::problem::{Code, Problem};

/// What stands in the path, percent signs decoded.
#[derive(Debug)]
pub struct Step(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Step {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Step, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(step)) => Ok(Step(step)),
            Err(_) => Err(Problem::new(
                Code::NotFound,
                "a name in a path is UTF-8 text, and this one is not",
            )),
        }
    }
}
