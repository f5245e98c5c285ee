//! Reads the heads of requests.
//!
//! In: bytes in any cutting. Out: a [`Head`]. What comes after it stays in the inbox: its body, or the next request.
//! Never guesses a length: a request that frames its body in two ways, or in none we know, is refused.

use crate::body::{Framing, Unread};
use crate::wire::Wire;

/// A request's head, as sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// From the method to the empty line, byte for byte.
    pub(crate) raw: Vec<u8>,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) version: Version,
    /// Names in lower case, in the order sent.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

/// The version of HTTP a request came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    #[default]
    Http11,
    /// On the stream with this number.
    Http2(u32),
}

/// Twice uvicorn's 64 KiB, so that Greylag's own limit is met first.
const LONGEST_HEAD: usize = 128 << 10;
const MOST_HEADERS: usize = 256;
/// Twice Greylag's default `limits.body`.
pub(crate) const LONGEST_BODY: usize = 128 << 20;

impl Head {
    /// Reads the next head.
    pub(crate) async fn read(wire: &mut Wire) -> Result<Head, Unread> {
        loop {
            if let Some((head, length)) = Head::parse(&wire.inbox)? {
                wire.inbox.drain(..length);
                return Ok(head);
            }
            if wire.inbox.len() > LONGEST_HEAD {
                return Err(Unread::TooLong);
            }
            wire.fill().await?;
        }
    }

    fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Unread> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = request.parse(bytes).map_err(|_| Unread::Bad)?
        else {
            return Ok(None);
        };
        let head = Head {
            raw: bytes.get(..length).unwrap_or_default().to_vec(),
            method: request.method.unwrap_or_default().to_owned(),
            target: request.path.unwrap_or_default().to_owned(),
            version: match request.version {
                Some(0) => Version::Http10,
                Some(_) | None => Version::Http11,
            },
            headers: request
                .headers
                .iter()
                .map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec()))
                .collect(),
        };
        Ok(Some((head, length)))
    }

    /// The first header of that name (in lower case), if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found == name)?;
        std::str::from_utf8(value).ok()
    }

    /// The target without its query; of an absolute target only the path.
    pub(crate) fn path(&self) -> &str {
        let target = match self.target.split_once("://") {
            Some((_, rest)) => rest
                .find('/')
                .and_then(|slash| rest.get(slash..))
                .unwrap_or("/"),
            None => &self.target,
        };
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    /// Whether the client keeps the connection after the answer. HTTP/1.0 never does, as in uvicorn.
    pub(crate) fn keeps_alive(&self) -> bool {
        match self.version {
            Version::Http10 => false,
            Version::Http11 => !self
                .header("connection")
                .is_some_and(|value| has_token(value, "close")),
            Version::Http2(_) => true,
        }
    }

    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(crate) fn expects_continue(&self) -> bool {
        self.version == Version::Http11
            && self
                .header("expect")
                .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    /// How the body ends.
    pub(crate) fn framing(&self) -> Result<Framing, Unread> {
        let of = |name: &str| {
            self.headers
                .iter()
                .filter(|(found, _)| found == name)
                .map(|(_, value)| value)
                .collect::<Vec<_>>()
        };
        match (
            of("transfer-encoding").as_slice(),
            of("content-length").as_slice(),
        ) {
            ([], []) => Ok(Framing::Length(0)),
            ([coding], [])
                if coding.eq_ignore_ascii_case(b"chunked") && self.version == Version::Http11 =>
            {
                Ok(Framing::Chunked)
            }
            ([], [first, rest @ ..]) if rest.iter().all(|other| other == first) => {
                // `parse` alone would take a plus sign.
                let digits = std::str::from_utf8(first)
                    .ok()
                    .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let length = digits
                    .and_then(|digits| digits.parse().ok())
                    .ok_or(Unread::Bad)?;
                if length > LONGEST_BODY {
                    Err(Unread::TooLong)
                } else {
                    Ok(Framing::Length(length))
                }
            }
            _ => Err(Unread::Bad),
        }
    }
}

/// Whether a list of tokens has this one.
pub(crate) fn has_token(value: &str, token: &str) -> bool {
    value
        .split(',')
        .any(|found| found.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn a_body_is_framed_in_one_way_or_the_request_is_refused() {
        let framing = |fields: &str| head(&format!("POST / HTTP/1.1\r\n{fields}\r\n")).framing();
        assert_eq!(framing(""), Ok(Framing::Length(0)));
        assert_eq!(framing("Content-Length: 12\r\n"), Ok(Framing::Length(12)));
        assert_eq!(
            framing("Content-Length: 12\r\ncontent-length: 12\r\n"),
            Ok(Framing::Length(12))
        );
        assert_eq!(
            framing("Transfer-Encoding: Chunked\r\n"),
            Ok(Framing::Chunked)
        );
        assert_eq!(
            framing("Content-Length: 12\r\nContent-Length: 13\r\n"),
            Err(Unread::Bad)
        );
        assert_eq!(framing("Content-Length: +12\r\n"), Err(Unread::Bad));
        assert_eq!(framing("Content-Length:\r\n"), Err(Unread::Bad));
        assert_eq!(
            framing("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            Err(Unread::Bad)
        );
        assert_eq!(framing("Transfer-Encoding: gzip\r\n"), Err(Unread::Bad));
        assert_eq!(
            framing("Content-Length: 99999999999\r\n"),
            Err(Unread::TooLong)
        );
    }

    #[test]
    fn the_path_is_the_target_without_host_and_query() {
        for (target, path) in [
            ("/a?b=/c", "/a"),
            ("http://host/a/b?c", "/a/b"),
            ("http://host", "/"),
            ("*", "*"),
        ] {
            assert_eq!(head(&format!("GET {target} HTTP/1.1\r\n\r\n")).path(), path);
        }
    }

    #[test]
    fn only_an_http_1_1_client_that_does_not_say_close_is_kept() {
        assert!(head("GET / HTTP/1.1\r\n\r\n").keeps_alive());
        assert!(!head("GET / HTTP/1.1\r\nConnection: foo, Close\r\n\r\n").keeps_alive());
        assert!(!head("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keeps_alive());
    }
}
