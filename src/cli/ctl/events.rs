//! `ctl events`: what happens, as it happens.
//!
//! In: the API's stream of events. Out: a line each. After a lost connection it goes on behind the last event that came, as often as
//! it must; what was missed for good is told of.

mod sse;

use clap::Args;
use http::header::{HeaderName, HeaderValue};
use serde_json::Value;

use super::failure::Failure;
use super::fleet::Fleet;
use super::follow::{Ended, Followed, Line, Teller};
use super::history::told;
use super::plain;
use super::table::cell;
use crate::cli::Exit;
use crate::cli::api::{Api, Ask, Streamed};
use sse::{Event, Lines};

/// Which events.
#[derive(Debug, Args)]
pub struct Wanted {
    /// Go on with those to come, until interrupted
    #[arg(long)]
    follow: bool,
    /// Only those after this one; 0 for all that are kept. Default: all, or with --follow those to come
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

/// Shows events.
///
/// # Errors
/// How the command ends.
pub async fn show(fleet: &Fleet, wanted: &Wanted) -> Result<(), Exit> {
    let teller = Teller::of(fleet);
    let one = async |api: &Api| {
        let reader = Reader {
            followed: Followed::new(api, &teller),
            last: wanted.after.clone().unwrap_or_else(|| "0".to_owned()),
        };
        match (wanted.follow, &wanted.after) {
            (true, Some(_)) => reader.follow().await,
            (true, None) => reader.at_the_end().await?.follow().await,
            (false, _) => reader.all().await,
        }
    };
    teller.follow(one).await
}

// Why a stream has ended.
enum Why {
    // there is no stream, or it broke
    Lost(Failure),
    Ended(Ended),
}

impl Why {
    fn ended(self) -> Ended {
        match self {
            Why::Lost(failure) => Ended::Failed(failure),
            Why::Ended(ended) => ended,
        }
    }
}

// Reads the events of one Greylag.
struct Reader<'a> {
    followed: Followed<'a>,
    // the id of the event that came last
    last: String,
}

impl Reader<'_> {
    async fn all(mut self) -> Result<(), Ended> {
        self.read(false, true).await.map_err(Why::ended)
    }

    // Behind all that is kept: where those to come begin, so that none is missed should the connection be lost before the first.
    async fn at_the_end(mut self) -> Result<Self, Ended> {
        self.read(false, false).await.map_err(Why::ended)?;
        Ok(self)
    }

    async fn follow(mut self) -> Result<(), Ended> {
        loop {
            let failure = match self.read(true, true).await {
                // It ends when the Greylag does.
                Ok(()) => Failure::odd(self.followed.api, "its events ended"),
                Err(Why::Lost(failure)) => failure,
                Err(Why::Ended(ended)) => return Err(ended),
            };
            self.followed.lost(failure).await?;
        }
    }

    // Reads events until they end; those that came are told, if they are to be.
    async fn read(&mut self, goes_on: bool, is_told: bool) -> Result<(), Why> {
        let api = self.followed.api;
        let lost = |fault| Why::Lost(Failure::unanswered(api, fault));
        let mut stream = match api.stream(self.asked(goes_on)).await.map_err(lost)? {
            Streamed::Stream(stream) => stream,
            Streamed::Answer(answer) => return Err(Why::Lost(Failure::refused(api, &answer))),
        };
        self.followed.found();
        let mut lines = Lines::default();
        while let Some(bytes) = stream.next().await.map_err(lost)? {
            for event in lines.feed(&bytes) {
                let odd = |why| Why::Ended(Ended::Failed(Failure::odd(api, why)));
                let event = event.map_err(odd)?;
                if let Some(id) = &event.id {
                    self.last.clone_from(id);
                    self.followed.came();
                }
                if is_told {
                    let told = self.followed.teller.tell(api, &line(&event));
                    told.map_err(Why::Ended)?;
                }
            }
        }
        Ok(())
    }

    fn asked(&self, goes_on: bool) -> Ask {
        let ask = Ask::get("/v1/events").query("follow", (!goes_on).then_some("false"));
        match HeaderValue::try_from(self.last.as_str()) {
            Ok(id) => ask.field(HeaderName::from_static("last-event-id"), id),
            // What is no field is refused as an id.
            Err(_) => ask.query("after", Some(&self.last)),
        }
    }
}

fn line(event: &Event) -> Line {
    let data: Option<Value> = serde_json::from_str(&event.data).ok();
    let id = event.id.as_deref().unwrap_or("-");
    let kind = event.kind.as_deref().unwrap_or("message");
    let text = match (kind, &data) {
        ("version", Some(data)) => format!("version {} {}", cell(data, "version"), told(data)),
        ("engine", Some(data)) => {
            let reason = match data.get("reason") {
                None | Some(Value::Null) => String::new(),
                Some(reason) => format!(": {}", plain::value(reason)),
            };
            format!(
                "{} is {}{reason}",
                cell(data, "engine"),
                cell(data, "state")
            )
        }
        ("gap", Some(data)) => match data.get("missed").and_then(Value::as_u64) {
            Some(missed) => format!("{missed} events are no longer kept"),
            None => "it is another process than before; what it keeps follows".to_owned(),
        },
        (_, Some(Value::Object(map))) => {
            let pairs = map
                .iter()
                .map(|(key, value)| format!("{key}={}", plain::value(value)));
            pairs.collect::<Vec<_>>().join(" ")
        }
        (_, _) => event.data.clone(),
    };
    let data = data.unwrap_or_else(|| Value::from(event.data.as_str()));
    let json = serde_json::json!({ "id": event.id, "event": kind, "data": data });
    Line {
        text: format!("{id}  {kind:<7}  {text}"),
        json: json.to_string(),
    }
}
