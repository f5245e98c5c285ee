//! Where spans are sent, by OTLP.
//!
//! In: `telemetry.otlp`. Out: a collector's address that can be used, and how it is spoken to; or what is wrong. Nothing is
//! connected here.

use std::collections::BTreeMap;
use std::time::Duration;

use greylag_filters::rules::Secret;
use greylag_filters::rules::engine::TlsRule;
use greylag_filters::units::Period;
use greylag_filters::written::start;
use http::{HeaderName, HeaderValue, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Problems;

/// Where spans are sent. Every `OTEL_` variable that docs/traces.md names counts before the key that it is like.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Otlp {
    /// The collector: `http://HOST:PORT` or `https://HOST:PORT`. Over HTTP a path may follow, and `/v1/traces` is added to
    /// it. Default: none, so no span is sent anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What is spoken to it. Default: `http`.
    pub protocol: OtlpProtocol,
    /// Fields that are sent with each batch of spans, such as a token. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// How TLS is spoken to a collector at `https://`.
    #[serde(skip_serializing_if = "is_usual")]
    pub tls: TlsRule,
    /// How batches are compressed. Default: `none`.
    pub compression: Compression,
    /// How long sending a batch may take, all tries together. Default: `10s`.
    pub timeout: Period,
    /// The most spans that wait to be sent, 1 to 65536; past it they are dropped and counted. Default: 2048.
    pub queue: u32,
    /// Which of OpenTelemetry's conventions name the attributes of generative AI. Default: `gen_ai_latest_experimental`.
    pub semconv: Semconv,
    /// What the service is called, `service.name`. Default: `greylag`.
    pub service_name: String,

    /// Whether `endpoint` is the whole URL, as in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    #[serde(skip)]
    pub is_whole_url: bool,
    /// What else is said of the service, by `OTEL_RESOURCE_ATTRIBUTES`.
    #[serde(skip)]
    pub resource: BTreeMap<String, String>,
    /// The pod's UID, where it is known.
    #[serde(skip)]
    pub pod: Option<String>,
}

/// What is spoken to a collector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OtlpProtocol {
    /// Protobuf over HTTP/1.1, or HTTP/2 where TLS offers it; usually port 4318.
    #[default]
    Http,
    /// gRPC; usually port 4317.
    Grpc,
}

/// How batches of spans are compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By gzip.
    Gzip,
}

/// A version of the conventions on generative AI, which change while they are in development.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Semconv {
    /// The latest that Greylag knows: `gen_ai.provider.name`, the time to the first chunk, cached and reasoning tokens.
    #[default]
    #[serde(rename = "gen_ai_latest_experimental")]
    Latest,
    /// Those of version 1.36, for backends that have not moved on: `gen_ai.system`, and fewer attributes.
    #[serde(rename = "gen_ai_1_36")]
    V1_36,
}

impl Default for Otlp {
    fn default() -> Self {
        Otlp {
            endpoint: None,
            protocol: OtlpProtocol::default(),
            headers: BTreeMap::new(),
            tls: TlsRule::default(),
            compression: Compression::default(),
            timeout: Duration::from_secs(10).into(),
            queue: 2048,
            semconv: Semconv::default(),
            service_name: "greylag".into(),
            is_whole_url: false,
            resource: BTreeMap::new(),
            pod: None,
        }
    }
}

fn is_usual(tls: &TlsRule) -> bool {
    *tls == TlsRule::default()
}

impl Otlp {
    /// The URL that batches are sent to, if they are sent.
    pub fn url(&self) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?;
        Some(match self.protocol {
            OtlpProtocol::Grpc => endpoint.to_owned(),
            OtlpProtocol::Http if self.is_whole_url => endpoint.to_owned(),
            OtlpProtocol::Http => format!("{}/v1/traces", endpoint.trim_end_matches('/')),
        })
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        if let Some(what) = self.endpoint_problem() {
            problems.add("telemetry.otlp.endpoint", what);
        }
        for (name, value) in &self.headers {
            if let Some(what) = field_problem(name, value.reveal()) {
                problems.add(&format!("telemetry.otlp.headers.{name}"), what);
            }
        }
        let timeout = self.timeout.get();
        if timeout.is_zero() || timeout > Period::LONGEST {
            let what = format!(
                "it is longer than 0s and at most 365d; found {}",
                self.timeout
            );
            problems.add("telemetry.otlp.timeout", what);
        }
        if !(1..=65_536).contains(&self.queue) {
            let what = format!("found {}, allowed are 1 to 65536", self.queue);
            problems.add("telemetry.otlp.queue", what);
        }
        if self.service_name.trim().is_empty() {
            problems.add(
                "telemetry.otlp.service_name",
                "found nothing, a name is needed",
            );
        }
        self.check_tls(problems);
    }

    // As it is of an engine's.
    fn check_tls(&self, problems: &mut Problems) {
        let tls = &self.tls;
        if tls.cert.is_some() != tls.key.is_some() {
            let what = "`cert` and `key` go together; found only one of them";
            problems.add("telemetry.otlp.tls", what);
        }
        if tls.server_name.as_deref().is_some_and(str::is_empty) {
            let what = "found an empty name; a name or an IP address is needed";
            problems.add("telemetry.otlp.tls.server_name", what);
        }
        if tls.insecure && (tls.ca.is_some() || tls.server_name.is_some()) {
            let what = "found `true` beside `ca` or `server_name`, which would then check nothing";
            problems.add("telemetry.otlp.tls.insecure", what);
        }
    }

    /// What is wrong with the endpoint, if anything is.
    pub(super) fn endpoint_problem(&self) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?;
        let allowed = match self.protocol {
            OtlpProtocol::Http => "http://HOST:PORT or https://HOST:PORT, and a path",
            OtlpProtocol::Grpc => "http://HOST:PORT or https://HOST:PORT",
        };
        // A user's name and password would be sent nowhere, and must not be repeated.
        if endpoint.contains('@') {
            return Some(format!(
                "found an \"@\"; allowed: {allowed}. A token belongs under `headers`"
            ));
        }
        let is_fine = |uri: &Uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && uri.query().is_none()
                && (self.protocol == OtlpProtocol::Http || matches!(uri.path(), "" | "/"))
        };
        let parsed: Option<Uri> = endpoint.parse().ok();
        match parsed.as_ref().is_some_and(is_fine) {
            true => None,
            false => Some(format!("found {:?}; allowed: {allowed}", start(endpoint))),
        }
    }
}

/// What is wrong with a field, if anything is; its value is not repeated.
pub(super) fn field_problem(name: &str, value: &str) -> Option<String> {
    if name.parse::<HeaderName>().is_err() {
        return Some(format!("{:?} is no name of a field", start(name)));
    }
    let is_fine = HeaderValue::from_str(value).is_ok();
    (!is_fine).then(|| "its value must be visible text on one line".to_owned())
}
