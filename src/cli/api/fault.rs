//! Why there is no answer of an API.

use std::time::Duration;

use super::ask::Unfit;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// What was to be asked cannot be, so there is no connection.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// There is no connection, so nothing was asked.
    #[error("{name} cannot be reached: {why}")]
    Unreachable {
        /// Who was to be asked.
        name: String,
        /// What the system said.
        why: String,
    },
    /// The connection broke before the answer's end.
    #[error("{name} broke off: {why}")]
    Broken {
        /// Who was asked.
        name: String,
        /// What happened.
        why: String,
    },
    /// Nothing came in time.
    #[error("{name} did not answer within {}", humantime::format_duration(*.patience))]
    Silent {
        /// Who was asked.
        name: String,
        /// How long was waited.
        patience: Duration,
    },
    /// What came is no answer of HTTP, or too long.
    #[error("{name} did not answer in HTTP: {why}")]
    Nonsense {
        /// Who was asked.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Fault {
    pub(super) fn unreachable(name: &str, why: &dyn std::fmt::Display) -> Fault {
        Fault::Unreachable {
            name: name.to_owned(),
            why: why.to_string(),
        }
    }

    pub(super) fn broken(name: &str, error: &hyper::Error) -> Fault {
        let name = name.to_owned();
        // hyper says what, and the error beneath it why.
        let cause = std::error::Error::source(error);
        let why = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        match error.is_parse() {
            true => Fault::Nonsense { name, why },
            false => Fault::Broken { name, why },
        }
    }

    /// Whether it was asked, so that what was asked for may have been done.
    pub fn was_asked(&self) -> bool {
        match self {
            Fault::Unfit(_) | Fault::Unreachable { .. } => false,
            Fault::Broken { .. } | Fault::Silent { .. } | Fault::Nonsense { .. } => true,
        }
    }
}
