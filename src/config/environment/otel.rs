//! OpenTelemetry's variables, as its specification has them.
//!
//! In: variables, by name. Out: a configuration in which they count before the file, or everything that is wrong with
//! them. One whose key a `GREYLAG_` variable names counts for nothing: that one is Greylag's own.

use std::time::Duration;

use greylag_filters::rules::Secret;
use greylag_filters::written::start;

use super::Environment;
use crate::config::otlp::{Compression, Otlp, OtlpProtocol, Semconv, field_problem};
use crate::config::{Config, Fault};

/// The variables that mean something here.
pub(super) const KNOWN: [&str; 22] = [
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SEMCONV_STABILITY_OPT_IN",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    "POD_UID",
];

impl Config {
    /// The same configuration with what OpenTelemetry's variables say instead.
    ///
    /// # Errors
    /// All variables that make no sense, each with what was found and what is allowed.
    pub(in crate::config) fn with(mut self, environment: &Environment) -> Result<Config, Fault> {
        let mut reading = Reading {
            environment,
            problems: Vec::new(),
        };
        reading.apply(&mut self.telemetry.otlp);
        if let Some(what) = self.memory_problem() {
            reading.problems.push(format!("limits.memory: {what}"));
        }
        match reading.problems.is_empty() {
            true => Ok(self),
            false => Err(Fault::Problems {
                problems: reading.problems,
            }),
        }
    }
}

struct Reading<'a> {
    environment: &'a Environment,
    problems: Vec<String>,
}

impl<'a> Reading<'a> {
    // A variable of traces, or else of all signals: its name and value. `key` is what it says under `telemetry.otlp`.
    fn signal(&self, what: &str, key: &str) -> Option<(&'a str, &'a str)> {
        let named = |prefix: &str| self.environment.entry(&format!("{prefix}{what}"));
        let is_free = !self.environment.sets(&format!("telemetry.otlp.{key}"));
        let any = || named("OTEL_EXPORTER_OTLP_TRACES_").or_else(|| named("OTEL_EXPORTER_OTLP_"));
        is_free.then(any).flatten()
    }

    fn apply(&mut self, otlp: &mut Otlp) {
        self.apply_protocol(otlp);
        self.apply_endpoint(otlp);
        self.apply_headers(otlp);
        self.apply_timeout(otlp);
        self.apply_compression(otlp);
        self.apply_tls(otlp);
        self.apply_service(otlp);
    }

    fn apply_protocol(&mut self, otlp: &mut Otlp) {
        let Some((name, value)) = self.signal("PROTOCOL", "protocol") else {
            return;
        };
        match value {
            "grpc" => otlp.protocol = OtlpProtocol::Grpc,
            "http/protobuf" => otlp.protocol = OtlpProtocol::Http,
            other => self.wrong(name, other, "grpc, http/protobuf"),
        }
    }

    fn apply_endpoint(&mut self, otlp: &mut Otlp) {
        if let Some((name, value)) = self.signal("ENDPOINT", "endpoint") {
            otlp.endpoint = Some(value.to_owned());
            otlp.is_whole_url = name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
            if let Some(what) = otlp.endpoint_problem() {
                self.problems.push(format!("environment: {name}: {what}"));
            }
        } else if let Some(what) = otlp.endpoint_problem() {
            // A path that the file's own protocol takes may mean nothing to the environment's.
            let line = format!("telemetry.otlp.endpoint: {what}");
            self.problems.push(line);
        }
        match self.environment.get("OTEL_SDK_DISABLED") {
            Some(value) if value.eq_ignore_ascii_case("true") => otlp.endpoint = None,
            Some(value) if value.eq_ignore_ascii_case("false") => {}
            Some(other) => self.wrong("OTEL_SDK_DISABLED", other, "true, false"),
            None => {}
        }
        match self.environment.get("OTEL_TRACES_EXPORTER") {
            Some("none") => otlp.endpoint = None,
            Some("otlp") | None => {}
            Some(other) => self.wrong("OTEL_TRACES_EXPORTER", other, "otlp, none"),
        }
    }

    fn apply_headers(&mut self, otlp: &mut Otlp) {
        let Some((name, value)) = self.signal("HEADERS", "headers") else {
            return;
        };
        // What is wrong is not shown: it may be a secret.
        let Some(pairs) = pairs(value) else {
            let what = "found what is no list of NAME=VALUE, with commas between them";
            return self.problems.push(format!("environment: {name}: {what}"));
        };
        for (field, value) in pairs {
            if let Some(what) = field_problem(&field, &value) {
                self.problems.push(format!("environment: {name}: {what}"));
            }
            otlp.headers
                .insert(field.to_ascii_lowercase(), Secret::from(value));
        }
    }

    fn apply_timeout(&mut self, otlp: &mut Otlp) {
        let Some((name, value)) = self.signal("TIMEOUT", "timeout") else {
            return;
        };
        const DAY: u64 = 24 * 60 * 60 * 1000;
        match value.parse() {
            Ok(milliseconds @ 1..=DAY) => {
                otlp.timeout = Duration::from_millis(milliseconds).into();
            }
            Ok(_) | Err(_) => {
                self.wrong(name, value, "milliseconds, 1 to 86400000, without a unit")
            }
        }
    }

    fn apply_compression(&mut self, otlp: &mut Otlp) {
        let Some((name, value)) = self.signal("COMPRESSION", "compression") else {
            return;
        };
        match value {
            "none" => otlp.compression = Compression::None,
            "gzip" => otlp.compression = Compression::Gzip,
            other => self.wrong(name, other, "gzip, none"),
        }
    }

    fn apply_tls(&mut self, otlp: &mut Otlp) {
        let file = |what, key| Some(self.signal(what, key)?.1.into());
        let (ca, cert, key) = (
            file("CERTIFICATE", "tls.ca"),
            file("CLIENT_CERTIFICATE", "tls.cert"),
            file("CLIENT_KEY", "tls.key"),
        );
        otlp.tls.ca = ca.or_else(|| otlp.tls.ca.take());
        otlp.tls.cert = cert.or_else(|| otlp.tls.cert.take());
        otlp.tls.key = key.or_else(|| otlp.tls.key.take());
        if otlp.tls.cert.is_some() != otlp.tls.key.is_some() {
            let what = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY are needed together";
            self.problems.push(format!("environment: {what}"));
        }
    }

    fn apply_service(&mut self, otlp: &mut Otlp) {
        if let Some(value) = self.environment.get("OTEL_RESOURCE_ATTRIBUTES") {
            match pairs(value) {
                Some(pairs) => otlp.resource.extend(pairs),
                None => self.wrong(
                    "OTEL_RESOURCE_ATTRIBUTES",
                    value,
                    "a list of NAME=VALUE, with commas between them",
                ),
            }
        }
        let attribute = otlp.resource.remove("service.name");
        let variable = self.environment.get("OTEL_SERVICE_NAME");
        let name = variable.map(str::to_owned).or(attribute);
        if let Some(name) = name.filter(|_| !self.environment.sets("telemetry.otlp.service_name")) {
            otlp.service_name = name;
        }
        otlp.pod = self.environment.get("POD_UID").map(str::to_owned);
        // Other values are other instrumentations' to understand.
        let opted = self.environment.get("OTEL_SEMCONV_STABILITY_OPT_IN");
        let mut opted = opted.into_iter().flat_map(|list| list.split(','));
        let is_free = !self.environment.sets("telemetry.otlp.semconv");
        if is_free && opted.any(|name| name.trim() == "gen_ai_latest_experimental") {
            otlp.semconv = Semconv::Latest;
        }
    }

    fn wrong(&mut self, name: &str, found: &str, allowed: &str) {
        let found = start(found);
        self.problems.push(format!(
            "environment: {name}: found {found:?}; allowed: {allowed}"
        ));
    }
}

// `NAME=VALUE,NAME=VALUE`, percent-encoded, as in a baggage header.
fn pairs(list: &str) -> Option<Vec<(String, String)>> {
    let members = list.split(',').map(str::trim);
    let members = members.filter(|member| !member.is_empty());
    let pair = |member: &str| {
        let (name, value) = member.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty()).then_some((decoded(name)?, decoded(value)?))
    };
    members.map(pair).collect()
}

// A percent sign that two digits do not follow stands for itself.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| *byte == b'%');
        let code = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
