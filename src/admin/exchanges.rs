//! `/v1/exchanges`: the last exchanges, with the timeline of their tokens.
//!
//! In: GET, with filters. Out: what the log says of each and what was judged of it, newest first. What has left the ring is not found.

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use greylag_filters::outcome::Outcome;
use schemars::JsonSchema;

use super::operation::Operation;
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs, Param, ParamKind};
use super::step::Step;
use crate::record::Record;
use crate::side::Sides;
use crate::telemetry::line;

const USUAL: usize = 100;
const MOST: usize = 1000;

const LIMIT: Param = Param {
    name: "limit",
    what: "The most exchanges that are listed. Default: 100.",
    kind: ParamKind::UpTo(MOST),
};
const ENGINE: Param = Param {
    name: "engine",
    what: "Only those of the engine of this name.",
    kind: ParamKind::Text(64),
};
const OUTCOME: Param = Param {
    name: "outcome",
    what: "Only those with this outcome.",
    kind: ParamKind::Word(|| OUTCOMES.map(Outcome::label).to_vec()),
};
const ID: Param = Param {
    name: "id",
    what: "Only those of this id.",
    kind: ParamKind::Text(256),
};

/// What can be asked of them.
pub fn operations() -> Vec<Operation> {
    vec![
        Operation::read::<Exchanges<'_>>(
            "/v1/exchanges",
            "The last exchanges, newest first",
            get(list),
        )
        .query(&[LIMIT, ENGINE, OUTCOME, ID]),
        Operation::read::<line::Shown<'_>>("/v1/exchanges/{id}", "One of them", get(one))
            .problems(&[Code::NotFound]),
    ]
}

// What is listed is written piece by piece; this says how it looks.
#[derive(JsonSchema)]
struct Exchanges<'a> {
    #[expect(dead_code, reason = "it is there for its schema")]
    exchanges: Vec<line::Shown<'a>>,
}

async fn list(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [limit, engine, outcome, id] = query::take(pairs, [&LIMIT, &ENGINE, &OUTCOME, &ID])?;
    let limit = LIMIT.up_to(limit, MOST)?.unwrap_or(USUAL);
    let outcome = outcome.as_deref().and_then(read_outcome);
    let wanted = |record: &Record| {
        engine
            .as_deref()
            .is_none_or(|engine| record.engine.as_deref() == Some(engine))
            && outcome.is_none_or(|outcome| record.outcome == outcome)
            && id.as_deref().is_none_or(|id| *record.id == *id)
    };
    let entries = sides.shared.telemetry.ring.entries(limit, wanted);
    // One by one, so that only one is held as a tree at a time.
    let mut json = String::from("{\"exchanges\":[");
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push_str(&line::entry(entry).to_string());
    }
    json.push_str("]}");
    Ok((JSON, Body::from(json)))
}

const JSON: [(HeaderName, HeaderValue); 1] = [(
    header::CONTENT_TYPE,
    HeaderValue::from_static("application/json"),
)];

// The newest of that id, since callers choose ids and may repeat them.
async fn one(
    State(sides): State<Sides>,
    Step(id): Step,
    Query(pairs): Query<Pairs>,
) -> Result<impl IntoResponse, Problem> {
    let [] = query::take(pairs, [])?;
    let found = sides
        .shared
        .telemetry
        .ring
        .entries(1, |record| *record.id == *id);
    match found.first() {
        Some(entry) => Ok(Json(line::entry(entry))),
        None => {
            let id = start(&id);
            let what =
                format!("exchange {id:?} is not among the last ones, which limits.ring bounds");
            Err(Problem::new(Code::NotFound, what))
        }
    }
}

// Of a word that is one.
fn read_outcome(text: &str) -> Option<Outcome> {
    let mut all = OUTCOMES.into_iter();
    all.find(|outcome| outcome.label() == text)
}

const OUTCOMES: [Outcome; 9] = [
    Outcome::Ok,
    Outcome::Truncated,
    Outcome::ErrorInStream,
    Outcome::EngineError,
    Outcome::EngineReset,
    Outcome::Timeout,
    Outcome::ClientGone,
    Outcome::Refused,
    Outcome::Drained,
];

#[cfg(test)]
mod tests {
    use super::*;

    // A new outcome fails to compile here until it is named, and then fails the test until it can be asked for.
    fn place(outcome: Outcome) -> usize {
        match outcome {
            Outcome::Ok => 0,
            Outcome::Truncated => 1,
            Outcome::ErrorInStream => 2,
            Outcome::EngineError => 3,
            Outcome::EngineReset => 4,
            Outcome::Timeout => 5,
            Outcome::ClientGone => 6,
            Outcome::Refused => 7,
            Outcome::Drained => 8,
        }
    }

    #[test]
    fn every_outcome_can_be_asked_for() {
        for (index, outcome) in OUTCOMES.into_iter().enumerate() {
            assert_eq!(place(outcome), index);
            assert_eq!(read_outcome(outcome.label()), Some(outcome));
        }
        assert_eq!(read_outcome("OK"), None);
    }
}
