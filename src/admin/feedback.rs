//! `/v1/feedback`: what callers say of the answers that they got.
//!
//! In: POST, with one judgement as JSON. Out: what is known of the exchange by now. A judgement that is not taken changes
//! nothing. None is logged: they may be as many as exchanges.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, Method};
use axum::response::IntoResponse;
use axum::routing::post;
use greylag_filters::feedback::{self, Feedback, Heard};
use schemars::JsonSchema;
use serde::Serialize;

use super::body;
use super::operation::Operation;
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs};
use crate::side::Sides;
use crate::telemetry::line::Judged;
use crate::telemetry::ring::NotTaken;

/// The longest body, in bytes: room for the longest id and name, every character escaped.
const LONGEST: usize = 4096;

/// What can be asked of it.
pub fn operations() -> Vec<Operation> {
    let route = post(hear).layer(DefaultBodyLimit::max(LONGEST));
    vec![
        Operation::act::<Known<'_>>(
            Method::POST,
            super::FEEDBACK,
            "What a caller says of an answer",
            route,
        )
        .takes::<Feedback>()
        .problems(&[Code::NotFound, Code::TooManyMetrics]),
    ]
}

async fn hear(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    body::is_json(&headers)?;
    let body = body.map_err(|rejection| body::unreadable(rejection, LONGEST))?;
    let feedback = body::parse(&body, feedback::read)?;
    let (id, metric) = (feedback.request_id.clone(), feedback.metric.clone());
    let entry = sides
        .shared
        .telemetry
        .feedback(feedback)
        .map_err(|not_taken| match not_taken {
            NotTaken::Unknown => unknown(id.as_str()),
            NotTaken::Full(heard) => full(metric.as_str(), &heard),
        })?;
    let known = Known {
        id: &entry.record.id,
        judged: Judged::of(&entry),
    };
    Ok(Json(known).into_response())
}

// The exchange by now.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Known")]
struct Known<'a> {
    id: &'a str,
    #[serde(flatten)]
    judged: Judged<'a>,
}

fn unknown(id: &str) -> Problem {
    let id = start(id);
    let what = format!(
        "exchange {id:?} is not among the last ones that asked for inference: it has not ended, or others needed its room, which limits.ring bounds"
    );
    Problem::new(Code::NotFound, what)
}

fn full(metric: &str, heard: &Heard) -> Problem {
    let known: Vec<&str> = heard.iter().map(|(metric, _)| metric).collect();
    let (most, known) = (Heard::MOST, known.join(", "));
    let what = format!(
        "found the metric {metric:?}; an exchange may have {most}, and this one has: {known}"
    );
    Problem::new(Code::TooManyMetrics, what)
}
