//! `ctl reset`: all faults and mirrors off at once.

use http::Method;

use super::failure::Failure;
use super::fleet::{Said, hear};
use super::plain::said;
use super::table::list;
use crate::cli::api::{Api, Ask};

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
