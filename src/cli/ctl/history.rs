//! `ctl history`, `ctl restore`, `ctl lift` and `ctl reset`: what was in force before, and the ways back.

use http::Method;
use serde_json::Value;

use super::change::{self, Terms};
use super::failure::Failure;
use super::fleet::{Said, hear};
use super::plain;
use super::status::{cell, list, told};
use super::table::Table;
use crate::cli::api::{Api, Ask};

/// Asks for the last versions, at most so many.
///
/// # Errors
/// Why they are not known.
pub async fn versions(api: &Api, limit: Option<u32>) -> Result<Said, Failure> {
    let limit = limit.map(|limit| limit.to_string());
    let ask = Ask::get("/v1/history").query("limit", limit.as_deref());
    let heard = hear(api, ask).await?;
    let text = table(&heard.value).text();
    Ok(heard.said(text))
}

/// Versions as columns.
pub fn table(value: &Value) -> Table {
    let keys = ["version", "at", "author", "changes", "what", "reason"];
    let mut table = Table::new(&["VERSION", "AT", "AUTHOR", "CHANGES", "WHAT", "REASON"]);
    for version in list(value, "versions") {
        table.row(keys.map(|key| cell(version, key)));
    }
    table
}

/// Asks for one version.
///
/// # Errors
/// Why it is not known.
pub async fn version(api: &Api, version: u64) -> Result<Said, Failure> {
    let ask = Ask::get("/v1/history").step(&version.to_string());
    let heard = hear(api, ask).await?;
    let value = &heard.value;
    let hash = value.get("hash").map(plain::value).unwrap_or_default();
    let mut lines = vec![format!("version {version}, hash {hash}"), told(value)];
    lines.extend(change::differences(value.get("diff")));
    lines.extend(change::dropped(value.get("dropped")));
    for overlay in list(value, "overlays") {
        let said = |key: &str| overlay.get(key).map(plain::value).unwrap_or_default();
        lines.push(format!("on it: {} by {}", said("what"), said("owner")));
    }
    Ok(heard.said(lines.join("\n")))
}

/// Puts a version in force again.
///
/// # Errors
/// Why not.
pub async fn restore(api: &Api, version: u64, terms: &Terms) -> Result<Said, Failure> {
    let ask = Ask::new(Method::POST, "/v1/history");
    let ask = ask.step(&version.to_string()).step("restore");
    change::make(api, ask, terms, None, None).await
}

/// Lifts an overlay.
///
/// # Errors
/// Why not.
pub async fn lift(api: &Api, id: &str, terms: &Terms) -> Result<Said, Failure> {
    let ask = Ask::new(Method::DELETE, "/v1/overlays").step(id);
    change::make(api, ask, terms, None, None).await
}

/// Turns all faults and mirrors off.
///
/// # Errors
/// Why not.
pub async fn reset(api: &Api, reason: Option<&str>) -> Result<Said, Failure> {
    let ask = Ask::new(Method::POST, "/v1/reset").query("reason", reason);
    let heard = hear(api, ask).await?;
    let off = list(&heard.value, "off").iter();
    let off: Vec<String> = off
        .map(|one| format!("{} {} is off", said(one, "kind"), said(one, "name")))
        .collect();
    let text = match off.is_empty() {
        true => "nothing was on".to_owned(),
        false => off.join("\n"),
    };
    Ok(heard.said(text))
}

fn said(value: &Value, key: &str) -> String {
    value.get(key).map(plain::value).unwrap_or_default()
}
