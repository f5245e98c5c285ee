//! A client that is nothing but a socket, so that every byte can be looked at; and an engine's end of a connection.
//!
//! In: bytes to send. Out: heads, bodies without their framing, and whether that was whole. Every wait has the harness's
//! deadline.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::within;

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

/// Whether `bytes` has `part` in it.
pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
