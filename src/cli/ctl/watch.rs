//! `ctl watch`: how things stand, again and again.
//!
//! In: what the API answers, every few seconds. Out: one picture, drawn over the one before on a terminal, and below it elsewhere. A
//! Greylag that is away has that in its place.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::failure::{Failure, worst};
use super::fleet::{Fleet, hear};
use super::status::first_line;
use super::table::list;
use super::{engines, history, splits};
use crate::cli::api::{Api, Ask};
use crate::cli::period::between;
use crate::cli::{Exit, print};

/// How it is watched.
#[derive(Debug, Args)]
pub struct Wanted {
    /// How long between two looks
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = pause)]
    every: Duration,
    /// End after so many looks
    #[arg(long, value_name = "N")]
    times: Option<u32>,
}

fn pause(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_millis(100)..=Duration::from_secs(3600))
}

/// Watches.
///
/// # Errors
/// How the command ends.
pub async fn watch(fleet: &Fleet, wanted: &Wanted) -> Result<(), Exit> {
    let mut looks = 0;
    loop {
        let pictures = join_all(fleet.all.iter().map(picture)).await;
        draw(fleet, &pictures)?;
        looks += 1;
        if wanted.times.is_some_and(|times| looks >= times) {
            let failures = pictures.iter().filter_map(|picture| picture.as_ref().err());
            return worst(failures).map_or(Ok(()), Err);
        }
        sleep(wanted.every).await;
    }
}

fn draw(fleet: &Fleet, pictures: &[Result<Picture, Failure>]) -> Result<(), Exit> {
    if fleet.is_json {
        let lines = fleet.all.iter().zip(pictures).map(|(api, picture)| {
            let told = match picture {
                Ok(picture) => {
                    json!({ "status": picture.status, "splits": picture.splits["splits"] })
                }
                Err(failure) => json!({ "problem": failure.problem() }),
            };
            fleet.line(api, &told.to_string())
        });
        return print(&lines.collect::<Vec<_>>().join("\n"));
    }
    let shown = fleet.all.iter().zip(pictures).map(|(api, picture)| {
        let text = match picture {
            Ok(picture) => picture.text(),
            Err(failure) => failure.text(),
        };
        format!("{}{text}", fleet.heading(api))
    });
    let shown: Vec<String> = shown.collect();
    // The screen is cleared by a sequence of ours; none of others is among the rest.
    let clear = match std::io::stdout().is_terminal() {
        true => "\x1b[H\x1b[2J",
        false => "",
    };
    print(&format!("{clear}{}\n", shown.join("\n\n")))
}

// What one Greylag says.
#[derive(Debug)]
struct Picture {
    status: Value,
    splits: Value,
    history: Value,
}

async fn picture(api: &Api) -> Result<Picture, Failure> {
    const CHANGES: &str = "3";
    let status = hear(api, Ask::get("/v1/status")).await?;
    let splits = hear(api, Ask::get("/v1/splits")).await?;
    let history = Ask::get("/v1/history").query("limit", Some(CHANGES));
    let history = hear(api, history).await?;
    Ok(Picture {
        status: status.value,
        splits: splits.value,
        history: history.value,
    })
}

impl Picture {
    fn text(&self) -> String {
        let parts = [
            first_line(&self.status),
            splits::table(list(&self.splits, "splits")).text_or("no splits"),
            engines::states(&self.status).text(),
            history::table(&self.history).text(),
        ];
        parts.join("\n\n")
    }
}
