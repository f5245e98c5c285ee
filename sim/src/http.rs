//! Heads and body framing of answers, as uvicorn writes them.
//!
//! In: a status, fields, a body or its pieces. Out: bytes. Never a clock: the date is fixed, so that equal runs give
//! equal bytes.

/// How the end of an answer's body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// By an empty chunk.
    Chunked,
    /// After so many bytes.
    Length(usize),
    /// By the end of the connection in HTTP/1.0, by the end of the stream in HTTP/2.
    Close,
    /// There is no body and no word of one: 204 and 304.
    Empty,
}

/// Whose heads an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// vLLM's.
    Uvicorn,
    Triton,
}

impl Server {
    /// Who answers at this path.
    pub(crate) fn of(path: &str) -> Server {
        if path == "/v2" || path.starts_with("/v2/") {
            Server::Triton
        } else {
            Server::Uvicorn
        }
    }
}

/// The head of an answer.
pub(crate) struct Answer<'a> {
    pub(crate) server: Server,
    pub(crate) status: u16,
    /// Empty: none.
    pub(crate) content_type: &'a str,
    pub(crate) ends: Ends,
    /// Whole lines without their ends, which the application gave.
    pub(crate) fields: Vec<String>,
    pub(crate) request_id: Option<String>,
    /// Says that the connection will end after the answer.
    pub(crate) close: bool,
}

impl Answer<'_> {
    pub(crate) fn head(&self) -> Vec<u8> {
        let (triton, reason) = match (self.server, self.status) {
            (Server::Triton, 405) => (true, "Not Allowed"),
            (Server::Triton, status) => (true, reason(status)),
            (Server::Uvicorn, status) => (false, reason(status)),
        };
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        let mut line = |line: &str| {
            head.push_str(line);
            head.push_str("\r\n");
        };
        if self.close && triton {
            line("Connection: close");
        }
        self.lines().iter().for_each(|field| line(field));
        if self.close && !triton {
            line("connection: close");
        }
        match (self.ends, triton) {
            (Ends::Chunked, true) => line("Transfer-Encoding: chunked"),
            (Ends::Chunked, false) => line("transfer-encoding: chunked"),
            (Ends::Length(_) | Ends::Close | Ends::Empty, _) => {}
        }
        line("");
        head.into_bytes()
    }

    /// Its fields in any version of HTTP, as lines without their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self.server {
            Server::Uvicorn => self.uvicorn(),
            Server::Triton => self.triton(),
        }
    }

    /// As recorded: no date, no name; the length first where the type is libevhtp's own.
    fn triton(&self) -> Vec<String> {
        let length = match self.ends {
            Ends::Length(length) => Some(format!("Content-Length: {length}")),
            Ends::Chunked | Ends::Close | Ends::Empty => None,
        };
        let content_type = Some(self.content_type).filter(|found| !found.is_empty());
        let content_type = content_type.map(|found| format!("Content-Type: {found}"));
        let (first, last) = if self.content_type == "text/plain" {
            (length, content_type)
        } else {
            (content_type, length)
        };
        let fields = self.fields.iter().cloned();
        first.into_iter().chain(fields).chain(last).collect()
    }

    fn uvicorn(&self) -> Vec<String> {
        let mut lines = vec![format!("date: {DATE}"), "server: uvicorn".to_owned()];
        lines.extend_from_slice(&self.fields);
        if let Ends::Length(length) = self.ends {
            lines.push(format!("content-length: {length}"));
        }
        if !self.content_type.is_empty() {
            lines.push(format!("content-type: {}", self.content_type));
        }
        lines.push("vary: Origin".to_owned());
        if let Some(id) = &self.request_id {
            lines.push(format!("x-request-id: {id}"));
        }
        lines
    }
}

impl Ends {
    /// One piece of the body in its framing.
    pub(crate) fn piece(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Ends::Chunked => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
            Ends::Length(_) | Ends::Close => bytes.to_vec(),
            Ends::Empty => Vec::new(),
        }
    }
}

/// Makes text look like a compressed body: no text reader understands it, and its `first` bytes are gzip's magic number.
pub(crate) fn disguise(bytes: &mut [u8], first: bool) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0x80);
    if first {
        bytes
            .iter_mut()
            .zip(*b"\x1f\x8b")
            .for_each(|(byte, magic)| *byte = magic);
    }
}

const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// [`DATE`] in seconds since 1970.
pub(crate) const CREATED: u64 = 1_767_225_600;

pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        // A reason may be empty (RFC 9112, section 4).
        _ => "",
    }
}
