//! Changes of the rules, whatever noun they are asked of.
//!
//! In: what somebody wants, and on which terms. Out: the version that came of it, with what it changed; or a problem, and nothing was
//! changed. The disk is waited for beside the API's own thread, so that readers wait for nobody's change.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use greylag_filters::layers::{Diff, Unfit};
use greylag_filters::rules::Problem as Misfit;
use greylag_filters::units::{Moment, Period};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::audit::{Note, Trial};
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs, Param, ParamKind};
use super::who::Who;
use super::{LONGEST, body};
use crate::side::Sides;
use crate::snapshot::Snapshot;
use crate::store::{Ask, Author, Done, EntityTags, Refused, Store, Wish, hex};

/// The longest reason, in characters.
const REASON: usize = 500;

/// `?dry_run=`
pub const DRY_RUN: Param = Param {
    name: "dry_run",
    what: "Whether only to say what would be. Default: `false`.",
    kind: ParamKind::Flag,
};
/// `?reason=`
pub const WHY: Param = Param {
    name: "reason",
    what: "Why, for those who look at it later.",
    kind: ParamKind::Text(REASON),
};
/// `?until=`
pub const UNTIL: Param = Param {
    name: "until",
    what: "When it is lifted by itself: a point in time as RFC 3339 has it, in UTC, or how long from now, such as `30m`. Default: never.",
    kind: ParamKind::End,
};

/// The terms on which a base, or what lies on it, is changed.
pub const TERMS: &[Param] = &[DRY_RUN, WHY];
/// The terms on which something is laid on a base.
pub const OVERLAY_TERMS: &[Param] = &[DRY_RUN, WHY, UNTIL];

/// What may become of every change.
pub const PROBLEMS: &[Code] = &[Code::Conflict, Code::InvalidRules, Code::Internal];
/// What may become of a change of something that has a name.
pub const NAMED_PROBLEMS: &[Code] = &[
    Code::Conflict,
    Code::InvalidRules,
    Code::NotFound,
    Code::Internal,
];

/// What somebody said beside what is wanted.
#[derive(Debug)]
pub struct Terms {
    /// Whether only to say what would be.
    pub is_dry: bool,
    /// When it is lifted by itself.
    pub until: Option<Moment>,
    reason: Option<String>,
    expected: Option<EntityTags>,
    now: Moment,
}

impl Terms {
    /// The terms in a query whose keys are [`TERMS`].
    ///
    /// # Errors
    /// A key or value that is not allowed.
    pub fn take(sides: &Sides, pairs: Pairs, headers: &HeaderMap) -> Result<Terms, Problem> {
        let [dry_run, reason] = query::take(pairs, [&DRY_RUN, &WHY])?;
        Terms::of(sides, headers, dry_run, reason, None)
    }

    /// The terms in a query whose keys are [`OVERLAY_TERMS`].
    ///
    /// # Errors
    /// A key or value that is not allowed.
    pub fn of_overlay(sides: &Sides, pairs: Pairs, headers: &HeaderMap) -> Result<Terms, Problem> {
        let [dry_run, reason, until] = query::take(pairs, [&DRY_RUN, &WHY, &UNTIL])?;
        Terms::of(sides, headers, dry_run, reason, until)
    }

    fn of(
        sides: &Sides,
        headers: &HeaderMap,
        dry_run: Option<String>,
        reason: Option<String>,
        until: Option<String>,
    ) -> Result<Terms, Problem> {
        let now = sides.shared.origin.today();
        Ok(Terms {
            is_dry: DRY_RUN.flag(dry_run, false)?,
            until: until.map(|until| read_end(&until, now)).transpose()?,
            reason,
            expected: if_match(headers),
            now,
        })
    }
}

fn read_end(text: &str, now: Moment) -> Result<Moment, Problem> {
    let end = match (text.parse::<Moment>(), text.parse::<Period>()) {
        (Ok(end), _) => end,
        (Err(_), Ok(period)) => now.after(period.get()),
        (Err(_), Err(_)) => {
            let found = start(text);
            return Err(UNTIL.wrong(format!(
                "found {found:?}, allowed are a point in time such as \"2026-12-01T10:30:00Z\" and a length of time such as \"30m\""
            )));
        }
    };
    if end <= now {
        return Err(UNTIL.wrong(format!("found {end}, which is not after now, {now}")));
    }
    Ok(end)
}

// Several fields are one list (RFC 9110 §5.3).
fn if_match(headers: &HeaderMap) -> Option<EntityTags> {
    let values = headers.get_all(header::IF_MATCH).iter();
    let values: Vec<&str> = values
        .map(|value| value.to_str().unwrap_or_default())
        .collect();
    (!values.is_empty()).then(|| EntityTags::parse(&values.join(",")))
}

/// What a change came to.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Changed")]
pub struct Changed {
    /// The version in force; of a dry run, the version that it would be.
    version: u64,
    /// The hash of the rules in force, or of what they would be.
    hash: String,
    /// Whether it only was compiled.
    dry_run: bool,
    /// What has changed of the rules in force.
    diff: Diff,
    /// The overlays that have no place any more, and are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<Dropped>,
    /// Whether it outlives the process; absent where there is no state file.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<bool>,
}

/// An overlay that has no place in the rules.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Dropped {
    /// Which.
    id: String,
    /// Why.
    why: Vec<String>,
}

impl Dropped {
    /// As it is told of.
    pub fn of(unfit: &Unfit) -> Dropped {
        Dropped {
            id: unfit.id.to_string(),
            why: unfit.problems.iter().map(Misfit::to_string).collect(),
        }
    }
}

/// What is wanted, as a body of JSON says it.
///
/// # Errors
/// It is no JSON, or JSON of another shape, or did not come whole.
pub fn wanted<T: DeserializeOwned>(
    sides: &Sides,
    terms: &Terms,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Problem> {
    body::json(headers, body, LONGEST).inspect_err(|_| {
        if !terms.is_dry {
            sides.shared.telemetry.metrics.reloaded("invalid");
        }
    })
}

/// Makes a change, or says what would become of it.
///
/// # Errors
/// Why not; nothing was changed then.
pub async fn make(sides: &Sides, who: &Who, terms: Terms, wish: Wish) -> Result<Response, Problem> {
    let is_dry = terms.is_dry;
    let author = Author {
        name: who.name.to_string(),
        reason: terms.reason.clone(),
    };
    let ask = Ask {
        wish,
        author,
        expected: terms.expected,
        at: terms.now,
    };
    // Few at a time: each waits for the disk on a thread of its own.
    let turn = sides.changers.clone().acquire_owned().await;
    let shared = sides.shared.clone();
    let work = move || {
        let _turn = turn;
        match is_dry {
            true => shared.store.try_out(&ask),
            false => shared.store.change(ask),
        }
    };
    // A panic in there would have been told of; what it leaves is as it was, or one version more.
    let done = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Problem::new(Code::Internal, "the change was not finished"))?;
    if !is_dry {
        counted(sides, &done);
    }
    let done = done.map_err(refused)?;
    let mut answer = answer(&sides.shared.store, &done, is_dry);
    if is_dry {
        answer.extensions_mut().insert(Trial);
    } else {
        sides.shared.telemetry.models.learn(&done.snapshot);
        answer.extensions_mut().insert(Note {
            version: Some(done.snapshot.version),
            reason: terms.reason,
        });
    }
    Ok(answer)
}

fn counted(sides: &Sides, done: &Result<Done, Refused>) {
    let result = match done {
        Ok(_) => "ok",
        Err(Refused::Conflict { .. }) => "conflict",
        Err(Refused::Problems(_) | Refused::NoOverlay | Refused::NoVersion | Refused::Nothing) => {
            "invalid"
        }
    };
    sides.shared.telemetry.metrics.reloaded(result);
}

fn answer(store: &Store, done: &Done, is_dry: bool) -> Response {
    let changed = Changed {
        version: done.snapshot.version,
        hash: hex(done.snapshot.rules.hash()),
        dry_run: is_dry,
        diff: done.diff.clone(),
        dropped: done.dropped.iter().map(Dropped::of).collect(),
        saved: done.is_saved,
    };
    // After a dry run what is in force is still what was.
    let in_force = match is_dry {
        true => store.current(),
        false => done.snapshot.clone(),
    };
    (about(store, &in_force), Json(changed)).into_response()
}

/// What is in force, as fields of a head.
pub fn about(store: &Store, snapshot: &Snapshot) -> [(&'static str, String); 3] {
    [
        ("etag", store.entity_tag(snapshot)),
        ("x-greylag-rules-version", snapshot.version.to_string()),
        ("x-greylag-rules-hash", hex(snapshot.rules.hash())),
    ]
}

fn refused(refused: Refused) -> Problem {
    match refused {
        Refused::Conflict { current } => Problem::new(
            Code::Conflict,
            format!(
                "If-Match does not name what is in force, which is {current}; read it again and edit that"
            ),
        ),
        Refused::Problems(problems) => invalid(problems),
        Refused::Nothing => invalid(Vec::new()),
        Refused::NoOverlay => Problem::new(
            Code::NotFound,
            "there is no such overlay; /v1/overlays lists them",
        ),
        Refused::NoVersion => Problem::new(
            Code::NotFound,
            "this version is not among the last ones; /v1/history lists them",
        ),
    }
}

fn invalid(problems: Vec<Misfit>) -> Problem {
    let found = match problems.len() {
        1 => "there is 1 problem".to_owned(),
        many => format!("there are {many} problems"),
    };
    Problem::new(Code::InvalidRules, format!("{found}; nothing was changed")).with(problems)
}
