//! What the environment says instead of the file.
//!
//! In: variables, by name. Out: values for the tree of a configuration (`GREYLAG_…`), and what OpenTelemetry's variables say
//! (`OTEL_…`); or everything that is wrong with them. An empty variable counts as none. Nothing else reads the environment of a server, but for
//! `RUST_LOG` in the command line; `greylag ctl` has variables of its own.

mod keys;
mod otel;

use std::collections::BTreeMap;

pub(super) use keys::name;

/// Variables that were set to something.
#[derive(Default, Clone)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// This process's. What is not UTF-8 counts as text whose wrong bytes are marks.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    pub fn of_process() -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Environment::of(std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))))
    }

    /// Those of these that are for Greylag.
    pub fn of(all: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        let all = all.into_iter().map(|(name, value)| {
            let value: String = value.into();
            (name.into(), value.trim().to_owned())
        });
        let is_meant = |name: &str, value: &str| {
            otel::KNOWN.contains(&name)
                || (name.starts_with(keys::PREFIX) && !keys::is_of_others(name, value))
        };
        Environment(
            all.filter(|(name, value)| !value.is_empty() && is_meant(name, value))
                .collect(),
        )
    }

    /// The names of those that may count before the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        // A pod's UID is no key.
        let names = self.0.keys().map(String::as_str);
        names.filter(|name| *name != "POD_UID")
    }

    fn entry(&self, name: &str) -> Option<(&str, &str)> {
        let (name, value) = self.0.get_key_value(name)?;
        Some((name, value))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

// A value may be a token.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
