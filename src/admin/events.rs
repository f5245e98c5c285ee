//! `/v1/events`: what happens, as it happens: versions that are published, engines that go down or come up, switches that are turned.
//!
//! In: GET. Out: server-sent events, each with an id. Who was away says the last one that was seen, in `Last-Event-ID` or `?after=`, and
//! gets what came since; what is no longer kept is told of as a gap.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use schemars::json_schema;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::operation::{Form, Operation};
use super::problem::{Code, Problem, start};
use super::query::{self, Pairs, Param, ParamKind};
use crate::events::{Event, Events};
use crate::side::{FOLLOWERS, Sides};

/// How often a follower hears that nothing has happened.
const SILENCE: Duration = Duration::from_secs(15);

const FOLLOW: Param = Param {
    name: "follow",
    what: "Whether to go on once all that is kept was sent. Default: `true`.",
    kind: ParamKind::Flag,
};
const AFTER: Param = Param {
    name: "after",
    what: "The id of the last event that was seen, or `0` for all that are kept; the header Last-Event-ID counts before it. Default: the newest.",
    kind: ParamKind::Text(64),
};

/// What can be asked of them.
pub fn operations() -> Vec<Operation> {
    let stream = Form {
        media: "text/event-stream",
        schema: |_| json_schema!({ "type": "string" }),
    };
    vec![
        Operation::read::<String>("/v1/events", "What happens, as it happens", get(follow))
            .query(&[FOLLOW, AFTER])
            .answers(stream)
            .problems(&[Code::TooManyFollowers]),
    ]
}

async fn follow(
    State(sides): State<Sides>,
    Query(pairs): Query<Pairs>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let [goes_on, after] = query::take(pairs, [&FOLLOW, &AFTER])?;
    let goes_on = FOLLOW.flag(goes_on, true)?;
    let seen = match headers.get("last-event-id") {
        Some(id) => Some(id.to_str().unwrap_or_default().to_owned()),
        None => after,
    };
    let events = sides.shared.store.events().clone();
    let boot = sides.shared.origin.boot();
    let (from, is_other) = match seen.as_deref() {
        None => (events.newest(), false),
        Some("0") => (0, false),
        Some(id) => read_id(id, boot, events.newest())?,
    };
    let follower = Follower {
        _seat: sides
            .followers
            .clone()
            .try_acquire_owned()
            .map_err(|_| too_many())?,
        events,
        boot,
        // Who has seen another process's events cannot know what is missing.
        gap: is_other.then_some(None),
        from,
        waiting: Vec::new().into_iter(),
        goes_on,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    let silence = KeepAlive::new().interval(SILENCE);
    Ok(Sse::new(events).keep_alive(silence).into_response())
}

// An id is the process's number and the event's: `1f3a-17`. Those of another process are no longer known, so all that is kept follows.
fn read_id(id: &str, boot: u64, newest: u64) -> Result<(u64, bool), Problem> {
    let read = || {
        let (process, number) = id.split_once('-')?;
        let process = u64::from_str_radix(process, 16).ok()?;
        Some((process, number.parse().ok()?))
    };
    match read() {
        Some((process, number)) if process == boot && number <= newest => Ok((number, false)),
        Some((process, _)) if process != boot => Ok((0, true)),
        Some(_) | None => {
            let found = start(id);
            Err(query::bad(format!(
                "after, or Last-Event-ID: found {found:?}, allowed are the id of an event and 0"
            )))
        }
    }
}

fn too_many() -> Problem {
    Problem::new(
        Code::TooManyFollowers,
        format!("{FOLLOWERS} follow already, and no more may at a time"),
    )
}

struct Follower {
    events: Arc<Events>,
    boot: u64,
    // the number of the last event that was taken
    from: u64,
    // what is missing, to be told first: how many, where that is known
    gap: Option<Option<u64>>,
    waiting: std::vec::IntoIter<Arc<Event>>,
    goes_on: bool,
    _seat: OwnedSemaphorePermit,
}

impl Follower {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(missed) = self.gap.take() {
                let data = json!({ "missed": missed }).to_string();
                return Some(sse::Event::default().event("gap").data(data));
            }
            if let Some(event) = self.waiting.next() {
                let id = format!("{:x}-{}", self.boot, event.number);
                let sent = sse::Event::default().id(id).event(event.kind.label());
                return Some(sent.data(&*event.data));
            }
            let after = self.events.after(self.from);
            if after.events.is_empty() {
                if !self.goes_on {
                    return None;
                }
                self.events.is_after(self.from).await;
                continue;
            }
            self.from = self.events_end(&after.events);
            self.gap = (after.missed > 0).then_some(Some(after.missed));
            self.waiting = after.events.into_iter();
        }
    }

    fn events_end(&self, events: &[Arc<Event>]) -> u64 {
        events.last().map_or(self.from, |event| event.number)
    }
}
