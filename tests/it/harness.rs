//! What every test needs: a Greylag of its own, and a client that sends and reads bytes.
//!
//! Nothing is shared between tests and no port is fixed. A wait that fails ends by its deadline, with what was read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use greylag::app::App;
use greylag::config::Config;

/// How long a client waits for bytes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Greylag in this process, stopped when it is dropped.
pub struct Greylag {
    app: Option<App>,
}

impl Greylag {
    /// Starts one from what stands under `rules`, with everything else set for tests: ports of the kernel's choice, no
    /// log, no wait before the drain.
    pub fn start(rules: &str) -> Greylag {
        let rules = rules.replace('\n', "\n  ");
        Greylag::start_from(&format!(
            "listen: [{{ address: \"127.0.0.1:0\" }}]\n\
             admin: {{ address: \"127.0.0.1:0\" }}\n\
             observe: {{ address: \"127.0.0.1:0\" }}\n\
             telemetry: {{ log: {{ format: \"off\" }} }}\n\
             limits: {{ drain: 5s, drain_wait: 0s }}\n\
             rules:\n  {rules}\n"
        ))
    }

    /// Starts one from a whole configuration.
    pub fn start_from(yaml: &str) -> Greylag {
        let config = Config::read(yaml, "test.yaml").unwrap();
        Greylag {
            app: Some(App::start(config).unwrap()),
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.app().addresses[0]
    }

    /// The admin API.
    pub fn admin(&self) -> SocketAddr {
        self.app().admin
    }

    /// Metrics and health.
    pub fn observe(&self) -> SocketAddr {
        self.app().observe
    }

    /// Stops it; returns how many connections were cut.
    pub fn stop(mut self) -> u64 {
        self.app.take().unwrap().stop()
    }

    fn app(&self) -> &App {
        self.app.as_ref().unwrap()
    }
}

impl Drop for Greylag {
    fn drop(&mut self) {
        if let Some(app) = self.app.take() {
            app.stop();
        }
    }
}

/// A connection that sends what it is told and reads answers.
pub struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client {
            stream,
            read: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request with a body and reads the answer. `fields` are whole lines without their ends.
    pub fn ask(&mut self, method: &str, target: &str, fields: &[&str], body: &str) -> Answer {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n{fields}\r\n{body}",
            body.len()
        ));
        self.answer(method == "HEAD")
    }

    /// Reads one answer; of one to HEAD only the head.
    pub fn answer(&mut self, is_head_only: bool) -> Answer {
        let end = self.until(b"\r\n\r\n");
        let head = String::from_utf8(self.take(end)).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        if !is_head_only && !matches!(status, 204 | 304) {
            answer.body = self.body(&answer);
        }
        answer
    }

    fn body(&mut self, answer: &Answer) -> Vec<u8> {
        if answer.field("transfer-encoding") == Some("chunked") {
            return self.chunks();
        }
        match answer.field("content-length") {
            Some(length) => {
                let length: usize = length.parse().unwrap();
                while self.read.len() < length {
                    self.more();
                }
                self.take(length)
            }
            None => self.rest(),
        }
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = self.until(b"\r\n");
            let line = String::from_utf8(self.take(end)).unwrap();
            let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
            while self.read.len() < length + 2 {
                self.more();
            }
            let mut chunk = self.take(length + 2);
            chunk.truncate(length);
            if length == 0 {
                return body;
            }
            body.extend(chunk);
        }
    }

    /// Everything until the other side closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.read);
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }

    // Reads on until the mark is there; returns where it ends.
    fn until(&mut self, mark: &[u8]) -> usize {
        loop {
            if let Some(at) = self
                .read
                .windows(mark.len())
                .position(|window| window == mark)
            {
                return at + mark.len();
            }
            self.more();
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.read.split_off(length);
        std::mem::replace(&mut self.read, rest)
    }

    fn more(&mut self) {
        let mut piece = [0; 16 << 10];
        let length = self.stream.read(&mut piece).unwrap();
        let so_far = String::from_utf8_lossy(&self.read);
        assert!(length > 0, "the connection was closed after {so_far:?}");
        self.read.extend_from_slice(&piece[..length]);
    }
}

impl Answer {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// One request over a connection of its own.
pub fn ask(address: SocketAddr, method: &str, target: &str, fields: &[&str], body: &str) -> Answer {
    Client::connect(address).ask(method, target, fields, body)
}

/// Waits until something holds; false when it has not for a while.
pub fn comes_true(mut holds: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(10);
    (0..1000).any(|_| {
        let holds = holds();
        if !holds {
            std::thread::sleep(STEP);
        }
        holds
    })
}
