//! A client of the admin API.
//!
//! In: a path and perhaps a body. Out: a status, fields and a body, or a sentence that says what could not be done. One
//! connection a request, and a deadline for each.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// The API of one Greylag.
#[derive(Debug)]
pub struct Api {
    address: SocketAddr,
}

/// An answer of the API.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    head: String,
    body: Vec<u8>,
}

impl Api {
    /// The API at this address.
    pub fn at(address: SocketAddr) -> Self {
        Api { address }
    }

    /// Reads a thing.
    ///
    /// # Errors
    /// The API cannot be reached or does not answer in HTTP.
    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        self.ask(format!("GET {path} HTTP/1.1\r\n"), &[]).await
    }

    /// Puts a thing, if `expected` is still its entity tag.
    ///
    /// # Errors
    /// The API cannot be reached or does not answer in HTTP.
    pub async fn put(
        &self,
        path: &str,
        thing: &serde_json::Value,
        expected: Option<&str>,
    ) -> Result<Answer, String> {
        let body = thing.to_string().into_bytes();
        let mut head = format!("PUT {path} HTTP/1.1\r\ncontent-type: application/json\r\n");
        if let Some(tag) = expected {
            head.push_str(&format!("if-match: {tag}\r\n"));
        }
        self.ask(head, &body).await
    }

    async fn ask(&self, head: String, body: &[u8]) -> Result<Answer, String> {
        let address = self.address;
        let framed = format!(
            "{head}host: {address}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let talk = async {
            let mut socket = TcpStream::connect(address).await?;
            socket.write_all(framed.as_bytes()).await?;
            socket.write_all(body).await?;
            let mut answer = Vec::new();
            socket.take(LONGEST).read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = timeout(PATIENCE, talk)
            .await
            .map_err(|_| format!("{address} did not answer within {PATIENCE:?}"))?
            .map_err(|error| format!("{address} cannot be reached: {error}"))?;
        Answer::read(&answer).ok_or_else(|| format!("{address} did not answer in HTTP"))
    }
}

impl Answer {
    // The API's answers have a length and close, so all that follows the head is the body.
    fn read(bytes: &[u8]) -> Option<Answer> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer {
            status,
            head: head.to_owned(),
            body: bytes.get(end + 4..)?.to_vec(),
        })
    }

    /// The value of a field, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is none.
    pub fn json(&self) -> Result<serde_json::Value, String> {
        serde_json::from_slice(&self.body)
            .map_err(|error| format!("the answer is not JSON: {error}"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_with_its_fields() {
        let answer =
            Answer::read(b"HTTP/1.1 200 OK\r\nETag: \"1-2\"\r\ncontent-length: 2\r\n\r\n{}")
                .unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("etag"), Some("\"1-2\""));
        assert_eq!(answer.header("x-none"), None);
        assert_eq!(answer.json().unwrap(), serde_json::json!({}));
        assert!(Answer::read(b"garbage").is_none());
    }
}
