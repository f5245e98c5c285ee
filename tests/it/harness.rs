//! What the tests stand on: a Greylag in this process, and a client that is nothing but a socket.
//!
//! Nothing here sleeps and hopes: whatever is waited for has a condition and a deadline.
#![expect(
    clippy::disallowed_methods,
    reason = "a test's deadline is no exchange's"
)]

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use greylag::app::App;
use greylag::config::Config;
use greylag::record::Record;
use greylag_sim::seen::Request;
use greylag_sim::{Engine, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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

    /// The metrics page's value of a series, named as the page names it; none if the series is not there.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let mut client = Client::to(self.app().observe).await;
        let page = client.get("/metrics").await;
        page.text()
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
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
        if let Some(app) = self.app.take() {
            app.stop();
        }
    }
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

/// One end of a connection: a socket, and what has been read from it and not been used.
pub struct Client {
    pub socket: TcpStream,
    held: Vec<u8>,
}

/// An answer, as it came.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// The head, its blank line included.
    pub head: String,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Whether the body's framing was complete.
    pub whole: bool,
    /// Whether the body came in chunks.
    pub chunked: bool,
}

impl Answer {
    /// The value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// The values of a field, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        values(&self.head, name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A request, as an engine got it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The head, its blank line included.
    pub head: String,
    /// The body without its framing.
    pub body: Vec<u8>,
}

impl Asked {
    /// The values of a field, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        values(&self.head, name)
    }
}

impl Client {
    /// The end of a connection that was accepted: an engine's.
    pub fn on(socket: TcpStream) -> Client {
        socket
            .set_nodelay(true)
            .expect("a TCP socket takes the option");
        Client {
            socket,
            held: Vec::new(),
        }
    }

    /// Connects.
    pub async fn to(address: SocketAddr) -> Client {
        let socket = within("connect", TcpStream::connect(address))
            .await
            .expect("it listens");
        Client::on(socket)
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within("send", self.socket.write_all(bytes.as_ref()))
            .await
            .expect("the peer takes it");
    }

    /// Sends a request with a length; `fields` are lines without their ends.
    pub async fn ask(&mut self, line: &str, fields: &[&str], body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let mut request = format!("{line} HTTP/1.1\r\nhost: test\r\n").into_bytes();
        for field in fields {
            request.extend_from_slice(format!("{field}\r\n").as_bytes());
        }
        if !body.is_empty() || line.starts_with("P") {
            request.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        self.send(request).await;
    }

    /// Sends a chat request and reads its answer.
    pub async fn chat(&mut self, fields: &[&str], body: &str) -> Answer {
        self.post("/v1/chat/completions", fields, body).await
    }

    /// Sends a JSON body and reads the answer.
    pub async fn post(&mut self, path: &str, fields: &[&str], body: impl AsRef<[u8]>) -> Answer {
        let mut all = vec!["content-type: application/json"];
        all.extend_from_slice(fields);
        self.ask(&format!("POST {path}"), &all, body).await;
        self.answer().await
    }

    /// Asks for a page and reads it.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), &[], "").await;
        self.answer().await
    }

    /// Reads more; false at the end, or when the connection was reset.
    pub async fn more(&mut self) -> bool {
        let read = within("more bytes", self.socket.read_buf(&mut self.held)).await;
        matches!(read, Ok(1..))
    }

    /// What has been read and not been used.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Reads until what is held has `text` in it.
    pub async fn until(&mut self, text: &str) {
        while !contains(&self.held, text.as_bytes()) {
            assert!(
                self.more().await,
                "the end came before {text:?}: {}",
                String::from_utf8_lossy(&self.held)
            );
        }
    }

    /// Whether the connection has ended, with nothing left to read.
    pub async fn ended(&mut self) -> bool {
        self.held.is_empty() && !self.more().await
    }

    /// Reads exactly so many bytes.
    pub async fn take(&mut self, count: usize) -> Vec<u8> {
        assert!(
            self.fill(count).await,
            "the end came before {count} bytes: {}",
            String::from_utf8_lossy(&self.held)
        );
        self.held.drain(..count).collect()
    }

    /// Reads up to the empty line.
    async fn head_text(&mut self) -> String {
        let end = loop {
            if let Some(at) = self.held.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(
                self.more().await,
                "the end came before a head: {}",
                String::from_utf8_lossy(&self.held)
            );
        };
        String::from_utf8(self.held.drain(..end).collect()).expect("a head is text")
    }

    /// Reads a whole request, as an engine does.
    pub async fn request(&mut self) -> Asked {
        let head = self.head_text().await;
        let mut body = Vec::new();
        if !values(&head, "transfer-encoding").is_empty() {
            assert!(self.chunks(&mut body).await, "the body is whole");
        } else if let [length] = values(&head, "content-length")[..] {
            let length = length.parse().expect("a length is a number");
            body = self.take(length).await;
        }
        Asked { head, body }
    }

    /// Reads a head; interim ones count.
    pub async fn head(&mut self) -> Answer {
        let head = self.head_text().await;
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or_else(|| panic!("no status in {head:?}")),
            head,
            body: Vec::new(),
            whole: true,
            chunked: false,
        }
    }

    /// Reads a whole answer to a request that is no HEAD.
    pub async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        if matches!(answer.status, 100..=199 | 204 | 304) {
            return answer;
        }
        if answer.header("transfer-encoding").is_some() {
            answer.chunked = true;
            answer.whole = self.chunks(&mut answer.body).await;
        } else if let Some(length) = answer.header("content-length") {
            let length: usize = length.parse().expect("a length is a number");
            answer.whole = self.fill(length).await;
            let have = length.min(self.held.len());
            answer.body = self.held.drain(..have).collect();
        } else {
            while self.more().await {}
            answer.body = std::mem::take(&mut self.held);
        }
        answer
    }

    async fn fill(&mut self, length: usize) -> bool {
        while self.held.len() < length {
            if !self.more().await {
                return false;
            }
        }
        true
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        loop {
            let end = loop {
                if let Some(at) = self.held.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                if !self.more().await {
                    return false;
                }
            };
            let line: Vec<u8> = self.held.drain(..end + 2).collect();
            let digits = std::str::from_utf8(&line[..end]).expect("a chunk's size is text");
            let size = usize::from_str_radix(digits, 16).expect("a chunk's size is a number");
            let whole = self.fill(size + 2).await;
            let have = size.min(self.held.len());
            body.extend(self.held.drain(..have));
            if !whole {
                return false;
            }
            assert_eq!(
                self.held.drain(..2).as_slice(),
                b"\r\n",
                "a chunk ends with its line"
            );
            if size == 0 {
                return true;
            }
        }
    }
}

fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .collect()
}

/// Waits for something, but no longer than [`DEADLINE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"))
}

/// Whether `bytes` has `part` in it.
pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A quick and honest engine.
pub async fn sim() -> Engine {
    let started = Engine::start(Settings::default()).await;
    started.expect("loopback has a free port")
}

/// What an engine was asked, oldest first, but for its models: Greylag asks for those now and then.
pub fn asked(engine: &Engine) -> Vec<Arc<Request>> {
    let seen = engine.seen();
    let own = |request: &&Arc<Request>| request.target != "/v1/models";
    seen.requests.iter().filter(own).cloned().collect()
}

/// On how many connections an engine was asked, but for its models.
pub fn connections(engine: &Engine) -> usize {
    let numbers = asked(engine)
        .iter()
        .map(|request| request.connection)
        .collect::<BTreeSet<_>>();
    numbers.len()
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
