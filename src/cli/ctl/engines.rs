//! `ctl engines`: whether they are up, where they are.

use serde_json::Value;

use super::failure::Failure;
use super::fleet::{Said, hear};
use super::table::{Table, cell, list};
use crate::cli::api::{Api, Ask};

/// Asks of the engines.
///
/// # Errors
/// Why that is not known.
pub async fn show(api: &Api) -> Result<Said, Failure> {
    let heard = hear(api, Ask::get("/v1/engines")).await?;
    let mut table = Table::new(&[
        "ENGINE", "TAG", "KIND", "STATE", "FOR", "REQUESTS", "URL", "REASON",
    ]);
    for engine in list(&heard.value, "engines") {
        engine_rows(engine, &mut table);
    }
    Ok(heard.said(table.text()))
}

/// Engines with their states, as columns.
pub fn states(value: &Value) -> Table {
    let mut table = Table::new(&["ENGINE", "STATE"]);
    for engine in list(value, "engines") {
        table.row([cell(engine, "name"), cell(engine, "state")]);
    }
    table
}

// Of its gRPC address too, which may be well when the other is not.
fn engine_rows(engine: &Value, table: &mut Table) {
    let mut row = |name: String, place: &Value, is_first: bool| {
        let first = |key: &str| match is_first {
            true => cell(engine, key),
            false => String::new(),
        };
        table.row([
            name,
            first("tag"),
            first("kind"),
            cell(place, "state"),
            seconds(place.get("since")),
            cell(place, "requests"),
            cell(place, "url"),
            cell(place, "reason"),
        ]);
    };
    let name = cell(engine, "name");
    row(name.clone(), engine, true);
    if let Some(grpc) = engine.get("grpc") {
        row(format!("{name} (gRPC)"), grpc, false);
    }
}

fn seconds(value: Option<&Value>) -> String {
    let seconds = value
        .and_then(Value::as_f64)
        .filter(|seconds| *seconds >= 0.0);
    let whole =
        seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds.floor()).ok());
    whole.map_or(String::new(), |whole| {
        humantime::format_duration(whole).to_string()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_told_in_words() {
        for (value, expected) in [
            (json!(12.4), "12s"),
            (json!(3725.9), "1h 2m 5s"),
            (json!(0.3), "0s"),
            (json!(-1), ""),
            (json!(1e300), ""),
            (json!("x"), ""),
        ] {
            assert_eq!(seconds(Some(&value)), expected);
        }
    }
}
