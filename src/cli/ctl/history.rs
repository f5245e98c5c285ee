//! `ctl history` and `ctl restore`: what was in force before, and the way back.

use http::Method;
use serde_json::Value;

use super::change::{self, Terms};
use super::failure::Failure;
use super::fleet::{Said, hear};
use super::plain::{self, said};
use super::table::{Table, cell, list};
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
    let hash = said(value, "hash");
    let mut lines = vec![format!("version {version}, hash {hash}"), told(value)];
    lines.extend(change::differences(value.get("diff")));
    lines.extend(change::dropped(value.get("dropped")));
    for overlay in list(value, "overlays") {
        let (what, owner) = (said(overlay, "what"), said(overlay, "owner"));
        lines.push(format!("on it: {what} by {owner}"));
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
    change::make(api, ask, terms, None).await
}

/// Who published a version, when, what and why.
pub fn told(version: &Value) -> String {
    let reason = match version.get("reason") {
        Some(reason) => format!(" ({})", plain::value(reason)),
        None => String::new(),
    };
    format!(
        "{} by {}: {}{reason}",
        said(version, "at"),
        said(version, "author"),
        said(version, "what")
    )
}
