//! How an engine is asked whether it is well.
//!
//! In: `health` of an engine. Out: a [`Probe`] whose every field is decided, or problems.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Kind;
use crate::rules::problem::{Place, Problems};
use crate::units::Period;
use crate::written::start;

/// How an engine is asked whether it is well. Three failures in a row take it down, two successes bring it back.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Health")]
pub struct HealthRule {
    /// How long after an answer it is asked again; longer than 0 and at most 365 days. Default: `5s`.
    pub interval: Period,
    /// How long its answer is waited for; longer than 0 and at most 365 days. Default: `3s`.
    pub timeout: Period,
    /// The path that is asked, which begins with a slash. 2xx is a success, but for `kind: openai`, where every answer is
    /// one. Default: `/health`; `/v2/health/ready` for Triton, `/v1/models` for `openai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Default for HealthRule {
    fn default() -> HealthRule {
        HealthRule {
            interval: Duration::from_secs(5).into(),
            timeout: Duration::from_secs(3).into(),
            path: None,
        }
    }
}

/// How an engine is asked, as it is done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Probe {
    /// What kind of server it is: that says what its answers mean.
    pub kind: Kind,
    /// How long after an answer it is asked again; not zero.
    pub interval: Duration,
    /// How long its answer is waited for; not zero.
    pub timeout: Duration,
    /// The path that is asked.
    pub path: Arc<str>,
}

pub(super) fn compile(
    kind: Kind,
    rule: &HealthRule,
    place: Place<'_>,
    problems: &mut Problems,
) -> Probe {
    let place = place.key("health");
    let mut length = |key: &str, period: Period| {
        let length = period.get();
        if length.is_zero() || length > Period::LONGEST {
            problems.add(
                place.key(key),
                format_args!("it is longer than 0s and at most 365d; found {period}"),
            );
        }
        length
    };
    let (interval, timeout) = (
        length("interval", rule.interval),
        length("timeout", rule.timeout),
    );
    let usual = match kind {
        Kind::Vllm | Kind::Sglang | Kind::Llamacpp => "/health",
        Kind::Triton => "/v2/health/ready",
        Kind::Openai => "/v1/models",
    };
    let path = rule.path.as_deref().unwrap_or(usual);
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        problems.add(
            place.key("path"),
            format_args!(
                "a path begins with a slash and is of visible ASCII characters; found {:?}",
                start(path)
            ),
        );
    }
    Probe {
        kind,
        interval,
        timeout,
        path: path.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::rules::{Problem, Ruleset, compile};

    fn read(engine: serde_json::Value) -> Result<Ruleset, Vec<Problem>> {
        let rules = json!({ "engines": { "a": engine }, "default_engine": "a" });
        compile(&serde_json::from_value(rules).unwrap())
    }

    #[test]
    fn each_kind_is_asked_where_it_answers() {
        for (kind, path) in [
            ("vllm", "/health"),
            ("sglang", "/health"),
            ("llamacpp", "/health"),
            ("triton", "/v2/health/ready"),
            ("openai", "/v1/models"),
        ] {
            let ruleset = read(json!({ "kind": kind, "url": "http://a" })).unwrap();
            assert_eq!(&*ruleset.engines()[0].probe.path, path);
        }
    }

    #[test]
    fn what_cannot_be_asked_is_a_problem() {
        for health in [
            json!({ "interval": "0s" }),
            json!({ "timeout": "366d" }),
            json!({ "path": "health" }),
            json!({ "path": "/a b" }),
            json!({ "path": "" }),
        ] {
            let engine = json!({ "kind": "vllm", "url": "http://a", "health": health });
            let problems = read(engine).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].path.starts_with("rules.engines.a.health."));
        }
    }
}
