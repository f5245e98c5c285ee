//! `greylag schema`: the JSON Schema of the configuration, for editors and reviews.

use crate::config::Config;

use super::{Exit, print};

/// Prints the schema.
pub(super) fn schema() -> Result<(), Exit> {
    let schema = schemars::schema_for!(Config);
    let text = serde_json::to_string_pretty(&schema).map_err(|_| Exit::Output)?;
    print(&text)
}
