//! What is fixed from start to end of the process, and the file that says it.
//!
//! In: one YAML file, and the environment. Out: a [`Config`] whose every field is decided, or an error that names file,
//! line, what was found and what is allowed. What may change while running stands under `rules` in the same file and is `filters`' own.
//! Nothing here is opened, bound or resolved.

mod canonical;
mod check;
mod environment;
mod leaf;
mod lone_rules;
mod nearest;
mod observed;
mod origin;
mod otlp;
mod read;
mod shape;
mod sides;
mod survey;
mod tree;
mod wording;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use greylag_filters::rules::Rules;
use greylag_filters::units::{Period, Share, Size};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use environment::Environment;
pub use origin::Origin;
pub use otlp::{Compression, Otlp, OtlpProtocol, Semconv};
pub use read::Fault;
pub use sides::{Admin, Observe};

use crate::telemetry::{log, spans};

/// The configuration file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where clients connect; at least one.
    #[serde(default = "Listener::usual")]
    pub listen: Vec<Listener>,
    /// The admin API.
    #[serde(default)]
    pub admin: Admin,
    /// Metrics and health, without a token, and what asks for a drain.
    #[serde(default)]
    pub observe: Observe,
    /// What this process is called where the rules leave that open.
    #[serde(default)]
    pub identity: Identity,
    /// Address ranges of those who are believed: whose request they pass on (`x-forwarded-for`, `forwarded`), how many
    /// Greylags it has passed, its tag where the rules leave that open, force and traffic class. From others those headers
    /// mean nothing and are not passed on. `IP/BITS`, or a single `IP`. Default: loopback and the private ranges.
    #[serde(default = "private_ranges", deserialize_with = "leaf::ranges")]
    #[schemars(with = "Vec<String>")]
    pub trusted: Vec<IpNet>,
    /// Whether engines are told who has passed a request on. Default: `keep`.
    #[serde(default)]
    pub forwarded: Forwarded,
    /// What is written about exchanges.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// The bounds of what is held and waited for.
    #[serde(default)]
    pub limits: Limits,
    /// Worker threads, 1 to 256, each with its own connections to engines. Default: 1.
    #[serde(default = "one")]
    pub workers: usize,
    /// The file in which rules and overlays that were set through the API outlive the process. Its directory must be there, and
    /// be this Greylag's alone. Default: none, so they are gone with the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_file: Option<PathBuf>,
    /// What becomes of a start with rules that do not compile: `exit` ends it with all problems, `pass_through` serves the default
    /// engine alone until the file can be used. Default: `exit`.
    #[serde(default)]
    pub on_bad_rules: OnBadRules,
    /// What may change while running.
    pub rules: Rules,
    /// The file that it was read from, if it was.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// What is wrong with the file's rules, a line each, where `rules` are the default engine alone for it.
    #[serde(skip)]
    pub bad_rules: Vec<String>,
}

/// What becomes of a start with rules that do not compile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBadRules {
    /// It ends.
    #[default]
    Exit,
    /// The default engine is served, and nothing else is done.
    PassThrough,
}

/// One address that clients connect to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// `IP:PORT`, where port 0 lets the system choose, or `unix:/PATH`.
    pub address: Place,
    /// What is spoken on it. Default: `http1`.
    #[serde(default)]
    pub protocol: Protocol,
    /// Who may connect to a unix socket, as `chmod` says it in octal. Default: `"0660"`.
    #[serde(
        default,
        deserialize_with = "leaf::mode",
        skip_serializing_if = "Option::is_none"
    )]
    pub mode: Option<String>,
    /// Speaks TLS on it: HTTP/2 with clients that offer it, else HTTP/1.1. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// A header of the PROXY protocol, version 2, must come first on each connection, before TLS, and says whose it is.
    /// Connections of peers that are not `trusted` are closed. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxy_protocol: bool,
}

/// TLS on a listener. Files are PEM; new ones are used by the next handshake.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenerTls {
    /// The file of the certificate, with what leads up to its authority.
    pub cert: PathBuf,
    /// The file of its private key.
    pub key: PathBuf,
    /// The file of the authorities that must have signed a client's certificate. Default: clients need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// Where a listener is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A port of an address.
    Ip(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// What clients speak on a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1 and 1.0.
    #[default]
    Http1,
    /// HTTP/2 without TLS, as gRPC clients speak it: they know beforehand. What begins as HTTP/1 is served as that.
    H2c,
}

/// What this process is called where the rules leave that open.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    /// A file that holds a tag: 1 to 64 visible ASCII characters. It is the tag of exchanges that could go to one engine
    /// only, since the rules have no other or another Greylag has routed them, unless a trusted caller gives one in
    /// `x-gray-tag`. It is looked at every second; while it holds no tag, the last one is used. Default: none, so the
    /// engine's tag is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_file: Option<PathBuf>,
}

/// Whether engines are told who has passed a request on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarded {
    /// What trusted peers say goes on as it is.
    #[default]
    Keep,
    /// The peer's address is put at the end of `x-forwarded-for`, or of `forwarded` where a trusted peer has sent only
    /// that.
    Append,
}

impl Config {
    /// What `limits.memory` leaves for bodies, in bytes.
    pub fn body_memory(&self) -> u64 {
        let Limits { memory, ring, .. } = &self.limits;
        memory
            .bytes()
            .saturating_sub(ring.bytes())
            .saturating_sub(self.waiting_memory())
    }

    // What the log's lines and the spans may hold before they are written and sent, in bytes.
    fn waiting_memory(&self) -> u64 {
        let log = match self.telemetry.log.format {
            LogFormat::Off => 0,
            LogFormat::Json => log::ROOM as u64,
        };
        let spans = self.telemetry.otlp.endpoint.as_ref();
        log + spans.map_or(0, |_| spans::ROOM)
    }
}

impl Listener {
    /// The mode of a unix socket.
    pub fn mode(&self) -> u32 {
        const USUAL: u32 = 0o660;
        leaf::as_mode(self.mode.as_deref()).unwrap_or(USUAL)
    }

    fn usual() -> Vec<Listener> {
        vec![Listener {
            address: Place::Ip(SocketAddr::from(([0, 0, 0, 0], 8000))),
            protocol: Protocol::Http1,
            mode: None,
            tls: None,
            proxy_protocol: false,
        }]
    }
}

/// What is written about exchanges.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// The access log.
    pub log: Log,
    /// Where spans are sent, by OTLP.
    pub otlp: Otlp,
}

/// The access log: one line an exchange.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// How a line is written. Default: `json`.
    pub format: LogFormat,
    /// The file that lines are added to; absent: standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The share of lines that is written of exchanges that went well, drawn by exchange. What went wrong is always written. Default:
    /// `100%`.
    pub share: Share,
    /// How what the process tells of itself is written on standard error: engines that go down, rules that change. Default:
    /// `text`.
    pub process: ProcessLog,
}

/// How what the process tells of itself is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessLog {
    /// A line for people.
    #[default]
    Text,
    /// One JSON object a line, in the envelope of the access log.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            format: LogFormat::default(),
            path: None,
            share: Share::ALL,
            process: ProcessLog::default(),
        }
    }
}

/// How the access log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// No access log.
    Off,
}

/// The bounds of what is held and waited for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The longest request body that is gathered, and so can be looked into and edited. Longer ones are passed on as
    /// they come. Default: `64MiB`.
    pub body: Size,
    /// What gathered bodies, `ring`, the log's buffer (1 MiB) and spans that wait (16 MiB, where they are sent) may hold
    /// together. What the others leave is for bodies:
    /// past it requests are refused with 503, and one that is longer alone is passed on as it comes. Default: `512MiB`.
    pub memory: Size,
    /// Client connections at a time; past it connections are refused with 503. Default: 10000.
    pub connections: u64,
    /// Streams at a time of one HTTP/2 connection, 1 to 65536; more wait at the client. Default: 1000.
    pub h2_streams: u32,
    /// The longest event of a stream, and the longest plain answer, that is metered. Default: `1MiB`.
    pub event: Size,
    /// The memory of the last exchanges, which `/v1/exchanges` shows. Default: `8MiB`.
    pub ring: Size,
    /// How long a client may take nothing of its answer. Default: `30s`.
    pub write: Period,
    /// How long running answers may go on after SIGTERM. Default: `60s`.
    pub drain: Period,
    /// How long new connections are still taken after SIGTERM, while `/readyz` already fails. Default: `1s`.
    pub drain_wait: Period,
}

impl Default for Limits {
    fn default() -> Self {
        let size = |mebibytes: u64| Size::new(mebibytes << 20);
        Limits {
            body: size(64),
            memory: size(512),
            connections: 10_000,
            h2_streams: 1000,
            event: size(1),
            ring: size(8),
            write: Duration::from_secs(30).into(),
            drain: Duration::from_secs(60).into(),
            drain_wait: Duration::from_secs(1).into(),
        }
    }
}

fn private_ranges() -> Vec<IpNet> {
    [
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
    ]
    .iter()
    .map(|range| range.parse().expect("the ranges above are well-formed"))
    .collect()
}

fn one() -> usize {
    1
}

#[cfg(test)]
mod tests;
