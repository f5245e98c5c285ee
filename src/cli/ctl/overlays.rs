//! `ctl overlays` and `ctl lift`: what lies on the base of the rules, and how it is taken off.

use http::Method;
use serde_json::Value;

use super::change::{self, Terms};
use super::failure::Failure;
use super::fleet::{Said, hear};
use super::table::{Table, cell, list};
use crate::cli::api::{Api, Ask};

/// Asks what lies on the base.
///
/// # Errors
/// Why that is not known.
pub async fn show(api: &Api) -> Result<Said, Failure> {
    let heard = hear(api, Ask::get("/v1/overlays")).await?;
    let text = table(&heard.value).text_or("nothing lies on the base");
    Ok(heard.said(text))
}

/// Lifts one.
///
/// # Errors
/// Why not.
pub async fn lift(api: &Api, id: &str, terms: &Terms) -> Result<Said, Failure> {
    let ask = Ask::new(Method::DELETE, "/v1/overlays").step(id);
    change::make(api, ask, terms, None).await
}

/// Overlays as columns.
pub fn table(value: &Value) -> Table {
    let mut table = Table::new(&["OVERLAY", "OWNER", "SINCE", "UNTIL", "WHAT", "REASON"]);
    for overlay in list(value, "overlays") {
        table
            .row(["id", "owner", "since", "until", "what", "reason"].map(|key| cell(overlay, key)));
    }
    table
}
