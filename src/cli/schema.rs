//! `greylag schema`: the JSON Schema of the configuration, for editors and reviews; and of a line of the access log, for those
//! who read it.

use crate::config::Config;
use crate::telemetry::log::line;

use super::{Exit, print};

/// Prints the schema; `log`: that of a line.
pub(super) fn schema(log: bool) -> Result<(), Exit> {
    let schema = match log {
        true => line::schema(),
        false => Config::schema(),
    };
    let text = serde_json::to_string_pretty(&schema);
    print(&text.map_err(|_| Exit::Output)?)
}
