//! An engine: what a person writes about it, and what the relay reads.
//!
//! In: one entry of `rules.engines`. Out: an [`Engine`] whose every field is decided, or problems.

mod fields;
mod pool;
mod probe;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::literal::Literal;
use super::name::{Name, Tag};
use super::ordered::Ordered;
use super::problem::{Place, Problems, list};
use super::secret::Secret;
use crate::units::Period;

pub use fields::bearer;
pub use pool::{Pool, PoolRule};
pub use probe::{HealthRule, Probe};

/// An inference server that exchanges can be sent to.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Engine")]
pub struct Rule {
    /// What the server is.
    pub kind: Kind,
    /// Where it listens: `http://HOST:PORT` or `https://HOST:PORT` (DNS name, IPv4, or IPv6 in brackets; default port:
    /// 80 or 443), or `unix:/PATH`. A path after the port, a query and user info are refused. Over https HTTP/2 is spoken
    /// where the engine offers it, else HTTP/1.1.
    pub url: Address,
    /// Where it listens for gRPC, written like `url`; HTTP/2 is spoken there. Default: it has no gRPC, and gRPC calls that
    /// would go to it are answered UNAVAILABLE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Address>,
    /// The tag sent upstream, given back to callers and used as the metric label `gray_tag`: 1 to 64
    /// visible ASCII characters, not another engine's name or tag. Default: the engine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// Top-level fields of JSON request bodies that are set to a value on the way to this engine, such as
    /// `model`. Not allowed: `stream`, `stream_options`, `messages`, `prompt` and `n`, since they would change
    /// what the meter measures. Default: none.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub set: Ordered<String, Literal>,
    /// Whether streams that did not ask for usage are made to ask, so that tokens can be counted.
    /// What an engine puts into the event that is taken out goes with it: llama.cpp's `timings`, vLLM's `system_fingerprint`.
    /// Nothing is taken out where an engine tells usage unasked. Default: `pass`.
    #[serde(default)]
    pub usage: Usage,
    /// Fields that are set on the heads of requests to this engine, in place of the caller's. Values are hidden wherever
    /// rules are shown. Not allowed: fields of one connection, `host`, `content-length` and `x-gray-tag`. Default: none.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub headers: Ordered<String, Secret>,
    /// A file that holds the engine's API key. It is sent as `authorization: Bearer KEY` in place of the caller's field,
    /// and read anew when it has changed. Default: the caller's field is passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// How TLS is spoken to it, where its address says https. Default: its certificate must be one for its host, from an
    /// authority that the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsRule>,
    /// Which `Host` the engine is told. Default: `keep`.
    #[serde(default)]
    pub host: Host,
    /// How long the relay waits for this engine.
    #[serde(default)]
    pub timeouts: TimeoutRule,
    /// What may be open to it, and what is kept open between requests.
    #[serde(default)]
    pub pool: PoolRule,
    /// How it is asked whether it is well.
    #[serde(default)]
    pub health: HealthRule,
}

/// What kind of server an engine is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// vLLM's OpenAI-compatible server.
    Vllm,
    /// SGLang.
    Sglang,
    /// llama.cpp's server.
    Llamacpp,
    /// NVIDIA Triton.
    Triton,
    /// Any other server that speaks OpenAI's API.
    Openai,
}

/// What is done about usage, the token counts at the end of a stream.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Usage {
    /// Requests are passed as they are; tokens are counted where the caller asked for usage.
    #[default]
    Pass,
    /// `stream_options.include_usage` is added where the caller did not ask, and the event that it adds to
    /// the answer is taken out again. llama.cpp puts its `timings` into that event, so they go with it.
    Inject,
}

/// Which `Host` an engine is told.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// The one the caller sent.
    #[default]
    Keep,
    /// The host and port of the engine's `url`.
    Engine,
}

/// How TLS is spoken to an engine. Files are PEM, and are read when a connection is made, if they have changed.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "EngineTls")]
pub struct TlsRule {
    /// The file of the authorities that may have signed its certificate. Default: those that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The file of the certificate that it is shown, with what leads up to its authority; needs `key`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The file of that certificate's private key; needs `cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The name that its certificate must be for, and that it is asked for (SNI): a DNS name or an IP address, not
    /// empty. Default: the host of its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Takes any certificate, from whoever answers: for tests alone. Default: `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

/// How long the relay waits for an engine. Each is longer than 0 and at most 365 days.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Timeouts")]
pub struct TimeoutRule {
    /// For a connection. Default: `5s`.
    pub connect: Period,
    /// From the request's last byte to the answer's first. Default: `10m`, since an engine may queue.
    pub first_byte: Period,
    /// Between two bytes of the answer. Default: `2m`.
    pub idle: Period,
    /// For the whole exchange; since it is the engine's, it ends nothing before the engine is known. Default: no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Period>,
}

impl Default for TimeoutRule {
    fn default() -> TimeoutRule {
        TimeoutRule {
            connect: Duration::from_secs(5).into(),
            first_byte: Duration::from_secs(10 * 60).into(),
            idle: Duration::from_secs(2 * 60).into(),
            total: None,
        }
    }
}

/// Fields of a body that decide what is measured, so that they must reach every engine as they came.
const NOT_SET: [&str; 5] = ["stream", "stream_options", "messages", "prompt", "n"];

/// An engine as the relay reads it.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Its name in the rules.
    pub name: Arc<str>,
    /// What kind of server it is.
    pub kind: Kind,
    /// Where it listens.
    pub address: Address,
    /// Where it listens for gRPC, if it does.
    pub grpc: Option<Address>,
    /// Its tag: the one given, else its name. Visible ASCII, so always a valid header value.
    pub tag: Arc<str>,
    /// Fields of the body to set, each with its value as JSON text.
    pub set: Vec<(Box<str>, Vec<u8>)>,
    /// What is done about usage.
    pub usage: Usage,
    /// The fields that are set on requests.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The file of its API key.
    pub api_key_file: Option<PathBuf>,
    /// How TLS is spoken to it.
    pub tls: TlsRule,
    /// Which `Host` it is told.
    pub host: Host,
    /// How long the relay waits for it.
    pub timeouts: Timeouts,
    /// What may be open to it.
    pub pool: Pool,
    /// How it is asked whether it is well.
    pub probe: Probe,
}

/// How long the relay waits for an engine; none is zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// From the request's last byte to the answer's first.
    pub first_byte: Duration,
    /// Between two bytes of the answer.
    pub idle: Duration,
    /// For the whole exchange, if that is limited.
    pub total: Option<Duration>,
}

/// Compiles one engine; what is wrong with it goes to `problems`.
pub(super) fn compile(
    name: &Name,
    rule: &Rule,
    place: Place<'_>,
    problems: &mut Problems,
) -> Engine {
    let set_place = place.key("set");
    for key in rule.set.keys() {
        if key.is_empty() {
            problems.add(
                set_place.key(key),
                "a field of the body has a name of at least one character; found none",
            );
        } else if NOT_SET.contains(&key.as_str()) {
            problems.add(
                set_place.key(key),
                format_args!(
                    "{key:?} may not be set, since that would change what the meter measures (not allowed: {})",
                    list(NOT_SET.into_iter())
                ),
            );
        }
    }
    check_tls(rule, place, problems);
    let headers = fields::compile(rule, place, problems);
    let probe = probe::compile(rule.kind, &rule.health, place, problems);
    let pool = pool::compile(&rule.pool, place, problems);
    let timeouts = place.key("timeouts");
    let mut limit = |key: &str, period: Period| {
        let length = period.get();
        if length.is_zero() || length > Period::LONGEST {
            problems.add(
                timeouts.key(key),
                format_args!("a timeout is longer than 0s and at most 365d; found {period}"),
            );
        }
        length
    };
    Engine {
        name: name.as_str().into(),
        kind: rule.kind,
        address: rule.url.clone(),
        grpc: rule.grpc.clone(),
        tag: rule.tag.as_ref().map_or(name.as_str(), Tag::as_str).into(),
        set: rule
            .set
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.json()))
            .collect(),
        usage: rule.usage,
        headers,
        api_key_file: rule.api_key_file.clone(),
        tls: rule.tls.clone().unwrap_or_default(),
        host: rule.host,
        timeouts: Timeouts {
            connect: limit("connect", rule.timeouts.connect),
            first_byte: limit("first_byte", rule.timeouts.first_byte),
            idle: limit("idle", rule.timeouts.idle),
            total: rule.timeouts.total.map(|total| limit("total", total)),
        },
        pool,
        probe,
    }
}

fn check_tls(rule: &Rule, place: Place<'_>, problems: &mut Problems) {
    let Some(tls) = &rule.tls else { return };
    let at = place.key("tls");
    let speaks = rule.url.tls || rule.grpc.as_ref().is_some_and(|grpc| grpc.tls);
    if !speaks {
        problems.add(
            at,
            "neither `url` nor `grpc` is https, so TLS is not spoken",
        );
    }
    if tls.cert.is_some() != tls.key.is_some() {
        problems.add(at, "`cert` and `key` go together; found only one of them");
    }
    if tls.server_name.as_deref().is_some_and(str::is_empty) {
        problems.add(
            at.key("server_name"),
            "found an empty name; a name or an IP address is needed (\"insecure\" alone takes any certificate)",
        );
    }
    if tls.insecure && (tls.ca.is_some() || tls.server_name.is_some()) {
        problems.add(
            at.key("insecure"),
            "found `true` beside `ca` or `server_name`, which would then check nothing",
        );
    }
}
