//! `ctl exchanges`: the last exchanges, one of them, or those to come.
//!
//! In: what the API's ring holds. Out: a row each, oldest last where they are listed, in their order where they are followed. To follow
//! is to look every second at the last 1000: what more than those has pushed out of sight between two looks is not shown.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::time::sleep;

use super::failure::Failure;
use super::fleet::{Fleet, Said, hear};
use super::follow::{Ended, Followed, Line, Teller};
use super::plain;
use super::table::{Table, cell, list};
use crate::cli::api::{Api, Ask};

/// How long between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// As many as the API lists at most.
const MOST: &str = "1000";

/// Which exchanges.
#[derive(Debug, Args)]
pub struct Wanted {
    /// The id of one
    #[arg(conflicts_with_all = ["engine", "outcome", "limit", "follow"])]
    id: Option<String>,
    /// Only those of this engine
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Only those with this outcome
    #[arg(long, value_name = "WORD")]
    outcome: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Show those to come, until interrupted
    #[arg(long)]
    follow: bool,
}

/// Shows exchanges.
///
/// # Errors
/// How the command ends.
pub async fn show(fleet: &Fleet, args: &Wanted) -> Result<(), crate::cli::Exit> {
    match &args.id {
        Some(id) => fleet.each(async |api: &Api| one(api, id).await).await,
        None if args.follow => {
            let teller = Teller::of(fleet);
            teller
                .follow(async |api: &Api| follow(api, args, &teller).await)
                .await
        }
        None => fleet.each(async |api: &Api| several(api, args).await).await,
    }
}

async fn one(api: &Api, id: &str) -> Result<Said, Failure> {
    let heard = hear(api, Ask::get("/v1/exchanges").step(id)).await?;
    let mut lines = Vec::new();
    flat("", &heard.value, &mut lines);
    let width = lines
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or_default();
    let lines: Vec<String> = lines
        .iter()
        .map(|(name, value)| format!("{name:<width$}  {value}"))
        .collect();
    Ok(heard.said(lines.join("\n")))
}

// A line for each thing that is no map.
fn flat(above: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = plain::line(key);
                let name = match above {
                    "" => key.into_owned(),
                    above => format!("{above}.{key}"),
                };
                flat(&name, value, lines);
            }
        }
        other => lines.push((above.to_owned(), plain::value(other))),
    }
}

fn asked(args: &Wanted, limit: &str) -> Ask {
    Ask::get("/v1/exchanges")
        .query("limit", Some(limit))
        .query("engine", args.engine.as_deref())
        .query("outcome", args.outcome.as_deref())
}

async fn several(api: &Api, args: &Wanted) -> Result<Said, Failure> {
    let heard = hear(api, asked(args, &args.limit.to_string())).await?;
    let mut table = Table::new(&HEADINGS);
    for exchange in list(&heard.value, "exchanges") {
        table.row(cells(exchange));
    }
    let text = table.text_or("none so far");
    Ok(heard.said(text))
}

const HEADINGS: [&str; 9] = [
    "TIME", "ID", "ENGINE", "ROUTE", "STATUS", "OUTCOME", "TTFT", "E2E", "TOKENS",
];

fn cells(exchange: &Value) -> [String; 9] {
    let times = exchange.get("times").unwrap_or(&Value::Null);
    let tokens = exchange.get("tokens").unwrap_or(&Value::Null);
    [
        cell(exchange, "time"),
        cell(exchange, "id"),
        cell(exchange, "engine"),
        cell(exchange, "route"),
        cell(exchange, "status"),
        cell(exchange, "outcome"),
        milliseconds(times.get("ttft")),
        milliseconds(times.get("e2e").or(times.get("ended"))),
        cell(tokens, "output"),
    ]
}

fn milliseconds(value: Option<&Value>) -> String {
    let seconds = value.and_then(Value::as_f64);
    seconds.map_or(String::new(), |seconds| format!("{:.1}ms", seconds * 1e3))
}

// What was there at the last look is not shown again. Callers may repeat ids, so an exchange is known by its time too.
async fn follow(api: &Api, args: &Wanted, teller: &Teller<'_>) -> Result<(), Ended> {
    let mut seen: Option<HashSet<(String, String)>> = None;
    let mut followed = Followed::new(api, teller);
    loop {
        let heard = match hear(api, asked(args, MOST)).await {
            Ok(heard) => heard,
            Err(failure) => {
                followed.lost(failure).await?;
                continue;
            }
        };
        followed.found();
        followed.came();
        let exchanges = list(&heard.value, "exchanges");
        let key = |exchange: &Value| (cell(exchange, "id"), cell(exchange, "time"));
        let now: HashSet<(String, String)> = exchanges.iter().map(key).collect();
        if let Some(before) = &seen {
            for exchange in exchanges
                .iter()
                .rev()
                .filter(|one| !before.contains(&key(one)))
            {
                let [time, id, rest @ ..] = cells(exchange);
                let rest = rest.map(|cell| {
                    if cell.is_empty() {
                        "-".to_owned()
                    } else {
                        cell
                    }
                });
                teller.tell(
                    api,
                    &Line {
                        text: format!("{time}  {id}  {}", rest.join("  ")),
                        json: exchange.to_string(),
                    },
                )?;
            }
        }
        seen = Some(now);
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_a_row_and_one_alone_a_line_for_each_thing() {
        let exchange = serde_json::json!({
            "time": "t", "id": "i", "engine": "e", "route": "chat", "status": 200, "outcome": "ok",
            "times": { "ttft": 0.0123, "ended": 1.5 }, "tokens": { "output": 7 },
        });
        let expected = [
            "t", "i", "e", "chat", "200", "ok", "12.3ms", "1500.0ms", "7",
        ];
        assert_eq!(cells(&exchange), expected);
        let mut lines = Vec::new();
        flat("", &exchange, &mut lines);
        assert!(
            lines.contains(&("times.ttft".into(), "0.0123".into())),
            "{lines:?}"
        );
        assert!(
            lines.contains(&("tokens.output".into(), "7".into())),
            "{lines:?}"
        );
    }
}
