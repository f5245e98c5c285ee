//! A client that keeps what it reads, byte for byte.
//!
//! In: bytes to send. Out: answers, and how the connection ended. Never waits past the deadline.

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::DEADLINE;

pub(super) struct Client {
    pub(super) stream: TcpStream,
    unread: Vec<u8>,
    ended: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Fin,
    Rst,
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    /// One for each chunk; a body that is not chunked is one piece.
    pub(super) pieces: Vec<Vec<u8>>,
    /// Whether its end came.
    pub(super) whole: bool,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.pieces.concat()).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// The data of all events.
    pub(super) fn events(&self) -> Vec<String> {
        let text = self.text();
        text.split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .map(str::to_owned)
            .collect()
    }

    /// The texts of all token events of a chat, joined.
    pub(super) fn content(&self) -> String {
        self.events()
            .iter()
            .filter_map(|event| serde_json::from_str::<serde_json::Value>(event).ok())
            .filter_map(|event| {
                event["choices"][0]["delta"]["content"]
                    .as_str()
                    .map(str::to_owned)
            })
            .collect()
    }
}

/// The request of a streamed chat with these header lines and body fields.
pub(super) fn chat(headers: &str, fields: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"tiny","messages":[{{"role":"user","content":"how do geese fly"}}]{fields}}}"#
    );
    post("/v1/chat/completions", headers, body.as_bytes())
}

pub(super) fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: engine.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The header lines of an order.
pub(super) fn order(order: &str) -> String {
    format!("x-sim: {order}\r\n")
}

pub(super) const STREAM: &str = r#","stream":true"#;

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Client {
        Client {
            stream: TcpStream::connect(address).await.unwrap(),
            unread: Vec::new(),
            ended: None,
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
    }

    /// Sends a request and reads its answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Answer {
        self.send(request).await;
        self.answer(!request.starts_with(b"HEAD ")).await
    }

    /// Reads until `enough` of what is unread, or to the end of the connection.
    pub(super) async fn read_until(&mut self, enough: impl Fn(&[u8]) -> bool) -> bool {
        while !enough(&self.unread) {
            if self.ended.is_some() {
                return false;
            }
            match within(self.stream.read_buf(&mut self.unread)).await {
                Ok(0) => self.ended = Some(End::Fin),
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.ended = Some(End::Rst)
                }
                Err(error) => panic!("{error}"),
            }
            return enough(&self.unread);
        }
        true
    }

    /// What was read and is of no answer yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.unread
    }

    /// Reads to the end of the connection.
    pub(super) async fn rest(&mut self) -> (Vec<u8>, End) {
        self.read_until(|_| false).await;
        (std::mem::take(&mut self.unread), self.ended.unwrap())
    }

    /// Reads one answer.
    pub(super) async fn answer(&mut self, has_body: bool) -> Answer {
        let ended = |bytes: &[u8]| bytes.windows(4).position(|four| four == b"\r\n\r\n");
        assert!(
            self.read_until(|unread| ended(unread).is_some()).await,
            "no head: {:?}",
            String::from_utf8_lossy(&self.unread)
        );
        let rest = self.unread.split_off(ended(&self.unread).unwrap() + 4);
        let head = String::from_utf8(std::mem::replace(&mut self.unread, rest)).unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            pieces: Vec::new(),
            whole: true,
        };
        if !has_body || status < 200 || status == 204 || status == 304 {
            return answer;
        }
        if let Some(length) = answer
            .header("content-length")
            .map(|length| length.parse::<usize>().unwrap())
        {
            answer.whole = self.read_until(|unread| unread.len() >= length).await;
            let rest = self.unread.split_off(length.min(self.unread.len()));
            answer
                .pieces
                .push(std::mem::replace(&mut self.unread, rest));
        } else if answer.header("transfer-encoding") == Some("chunked") {
            answer.whole = self.chunks(&mut answer.pieces).await;
        } else {
            answer.pieces.push(self.rest().await.0);
            answer.whole = self.ended == Some(End::Fin);
        }
        answer
    }

    /// Reads chunks; false when the connection ends before the last one.
    async fn chunks(&mut self, chunks: &mut Vec<Vec<u8>>) -> bool {
        loop {
            let line = |unread: &[u8]| match httparse::parse_chunk_size(unread).unwrap() {
                httparse::Status::Complete(found) => Some(found),
                httparse::Status::Partial => None,
            };
            if !self.read_until(|unread| line(unread).is_some()).await {
                return false;
            }
            let (start, size) = line(&self.unread).unwrap();
            let end = start + usize::try_from(size).unwrap();
            if !self.read_until(|unread| unread.len() >= end + 2).await {
                return false;
            }
            assert_eq!(&self.unread[end..end + 2], b"\r\n");
            let rest = self.unread.split_off(end + 2);
            let chunk = std::mem::replace(&mut self.unread, rest);
            if size == 0 {
                return true;
            }
            chunks.push(chunk[start..end].to_vec());
        }
    }
}

pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future)
        .await
        .expect("it takes longer than the deadline")
}
