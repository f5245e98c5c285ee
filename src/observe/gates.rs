//! What rollout controllers ask about gates: verdicts and hooks.
//!
//! In: GET or POST, as each controller asks. Out: a problem document. The rules define no gates, so no gate is ever said to
//! have passed.

use axum::extract::Request;

use crate::admin::problem::{Code, Problem, start};

/// A gate that the rules do not define.
pub async fn unknown(request: Request) -> Problem {
    let path = request.uri().path();
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    let name = match steps.as_slice() {
        ["verdict", name] | ["hooks", _, name, ..] => name,
        _ => path,
    };
    let name = start(name);
    let what = format!("gate {name:?} is not defined: the rules define no gate");
    Problem::new(Code::NotFound, what)
}
