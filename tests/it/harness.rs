//! What the tests stand on: a Greylag in this process, engines, and waits that end.
//!
//! Nothing here sleeps and hopes: whatever is waited for has a condition and a deadline.
#![expect(
    clippy::disallowed_methods,
    reason = "a test's deadline is no exchange's, and what asks for a long run is no configuration"
)]

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use greylag::app::App;
use greylag::config::{Config, Environment};
use greylag::record::Record;
use greylag_sim::seen::Request;
use greylag_sim::{Engine, Settings};

pub use crate::client::{Answer, Asked, Client, contains};

/// Longer than anything here should take, on a slow and busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A running Greylag; stopped when it is dropped.
pub struct Greylag {
    app: Option<App>,
}

impl Greylag {
    /// Starts one with these rules (JSON or YAML, what stands under `rules`) and quick limits.
    pub fn start(rules: &str) -> Greylag {
        Greylag::with("", rules)
    }

    /// Starts one with more static keys: YAML lines such as `limits: { body: 1KiB }`. A line of yours replaces ours.
    pub fn with(keys: &str, rules: &str) -> Greylag {
        Greylag::try_with(keys, rules)
            .unwrap_or_else(|fault| panic!("Greylag did not start: {fault}"))
    }

    /// The same, for a start that may fail.
    pub fn try_with(keys: &str, rules: &str) -> io::Result<Greylag> {
        let ours = [
            ("listen", "listen: [{ address: \"127.0.0.1:0\" }]"),
            ("admin", "admin: { address: \"127.0.0.1:0\" }"),
            ("observe", "observe: { address: \"127.0.0.1:0\" }"),
            ("telemetry", "telemetry: { log: { format: off } }"),
            ("limits", "limits: { drain_wait: 0s, drain: 5s }"),
        ];
        let mut text = format!("{keys}\n");
        for (key, line) in ours {
            if !keys
                .lines()
                .any(|theirs| theirs.starts_with(&format!("{key}:")))
            {
                text.push_str(line);
                text.push('\n');
            }
        }
        // JSON is YAML on one line; YAML is indented under its key.
        if rules.trim_start().starts_with('{') {
            text.push_str(&format!("rules: {}\n", rules.replace('\n', " ")));
        } else {
            text.push_str("rules:\n");
            for line in rules.lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
        let config = Config::read(&text, "test").map_err(io::Error::other)?;
        Ok(Greylag {
            app: Some(App::start(config)?),
        })
    }

    /// Starts one as `greylag run --config FILE` does.
    pub fn of_file(path: &Path) -> io::Result<Greylag> {
        let config = Config::begin_with(path, &Environment::default());
        Ok(Greylag {
            app: Some(App::start(config.map_err(io::Error::other)?)?),
        })
    }

    /// The running app.
    pub fn app(&self) -> &App {
        self.app.as_ref().expect("it runs until it is stopped")
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.app().addresses[0]
    }

    /// Stops it as SIGTERM does; returns how many connections were cut.
    pub fn stop(mut self) -> u64 {
        self.app.take().expect("it runs until it is stopped").stop()
    }

    /// Takes it apart, for a stop in another thread.
    pub fn into_app(mut self) -> App {
        self.app.take().expect("it runs until it is stopped")
    }

    /// All records so far, oldest first.
    pub fn records(&self) -> Vec<Arc<Record>> {
        let mut records = self.app().shared.ring_records();
        records.reverse();
        records
    }

    /// Waits until there are at least `count` records, and returns them, oldest first.
    pub async fn records_of(&self, count: usize) -> Vec<Arc<Record>> {
        eventually("records", || {
            let records = self.records();
            (records.len() >= count).then_some(records)
        })
        .await
    }

    /// The same of chats alone: a Greylag before this one asks it for its models now and then.
    pub async fn chats_of(&self, count: usize) -> Vec<Arc<Record>> {
        eventually("records of chats", || {
            let mut records = self.records();
            records.retain(|record| &*record.path == "/v1/chat/completions");
            (records.len() >= count).then_some(records)
        })
        .await
    }

    /// The metrics page's value of a series, named as the page names it; none if the series is not there.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let mut client = Client::to(self.app().observe).await;
        let page = client.get("/metrics").await;
        page.text()
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    /// What `/v1/engines` says of the engine of this name.
    pub async fn engine(&self, name: &str) -> serde_json::Value {
        let mut client = Client::to(self.app().admin).await;
        client
            .send("GET /v1/engines HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let answer = client.answer().await.json();
        let mut engines = answer["engines"].as_array().into_iter().flatten();
        let found = engines.find(|engine| engine["name"] == name);
        found.unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// Waits until a series of the metrics page is at least `least`, and returns what it is then.
    pub async fn metric_reaches(&self, series: &str, least: f64) -> f64 {
        self.metric_until(series, |value| value >= least).await
    }

    /// Waits until a series of the metrics page is as wanted, and returns what it is then.
    pub async fn metric_until(&self, series: &str, wanted: impl Fn(f64) -> bool) -> f64 {
        let look = async {
            loop {
                match self.metric(series).await {
                    Some(value) if wanted(value) => return value,
                    Some(_) | None => {}
                }
            }
        };
        within(series, look).await
    }
}

impl Drop for Greylag {
    fn drop(&mut self) {
        // Beside the test, whose own clients must go on to hear of it.
        if let Some(app) = self.app.take() {
            std::thread::spawn(move || app.stop());
        }
    }
}

/// How much a test does that can do more: what this variable says, or else what is usual.
pub fn longer(variable: &str, usual: u64) -> u64 {
    let said = std::env::var(variable).ok();
    said.map_or(usual, |said| said.parse().expect("a number was given"))
}

/// Waits until `look` finds something.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for something, but no longer than [`DEADLINE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"))
}

/// The values of a field, as an engine got them.
pub fn all(request: &Request, name: &str) -> Vec<String> {
    let values = request.header_all(name);
    values
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect()
}

/// A quick and honest engine.
pub async fn sim() -> Engine {
    let started = Engine::start(Settings::default()).await;
    started.expect("loopback has a free port")
}

/// What an engine was asked, oldest first, but for what Greylag itself asks now and then: its health and its models.
pub fn asked(engine: &Engine) -> Vec<Arc<Request>> {
    let seen = engine.seen();
    let own = |request: &&Arc<Request>| {
        let agent = request.header("user-agent").unwrap_or_default();
        !agent.starts_with("greylag/")
    };
    seen.requests.iter().filter(own).cloned().collect()
}

/// On how many connections an engine was asked, but for what Greylag itself asks.
pub fn connections(engine: &Engine) -> usize {
    let numbers = asked(engine)
        .iter()
        .map(|request| request.connection)
        .collect::<BTreeSet<_>>();
    numbers.len()
}

/// The line of the harness's quick limits, with more of them.
pub fn limits(line: &str) -> String {
    format!("limits: {{ drain_wait: 0s, drain: 5s, {line} }}")
}

/// Rules with these engines, by name, and no split.
pub fn engines(engines: &[(&str, SocketAddr)]) -> serde_json::Value {
    let named: serde_json::Map<String, serde_json::Value> = engines
        .iter()
        .map(|(name, address)| {
            let engine = serde_json::json!({ "kind": "vllm", "url": format!("http://{address}") });
            ((*name).to_owned(), engine)
        })
        .collect();
    serde_json::json!({ "engines": named, "default_engine": engines[0].0 })
}
