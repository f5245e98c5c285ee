//! Reads the recorded answers of real servers for tests.
//!
//! In: the files under `fixtures`. Out: the first answer of each, its head and body parted and its chunks apart; and the
//! calls of a recorded gRPC session.

#![expect(
    clippy::disallowed_methods,
    reason = "recorded answers are files, and this module is there for tests alone"
)]

mod call;

pub(crate) use call::{Call, calls};

use std::path::Path;

/// One recorded exchange.
pub(crate) struct Capture {
    /// `server/case`.
    pub(crate) name: String,
    pub(crate) path: String,
    /// The request's body as it was sent.
    pub(crate) request: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) sse: bool,
    /// Its framing is complete.
    pub(crate) is_whole: bool,
    /// The client closed before its end, by intent.
    pub(crate) is_aborted: bool,
    /// `Inference-Header-Content-Length` of the answer.
    pub(crate) json_length: Option<usize>,
    /// The body as it was framed: chunk by chunk, or in one piece.
    pub(crate) pieces: Vec<Vec<u8>>,
}

impl Capture {
    pub(crate) fn body(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// All captures, in order of their names.
pub(crate) fn all() -> Vec<Capture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut captures = Vec::new();
    for server in ["llamacpp", "sglang", "triton", "vllm"] {
        for file in std::fs::read_dir(root.join(server)).expect("the fixtures are there") {
            let path = file.expect("a readable folder").path();
            let file = path
                .file_name()
                .and_then(|name| name.to_str())
                .expect("a plain name");
            if let Some(case) = file.strip_suffix(".response.http") {
                captures.push(read(format!("{server}/{case}"), &path));
            }
        }
    }
    captures.sort_by(|a, b| a.name.cmp(&b.name));
    captures
}

/// The text of a file among the fixtures.
pub(crate) fn text(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    std::fs::read_to_string(root.join(name)).expect("the fixtures are there")
}

/// The text of a page of the documentation.
pub(crate) fn document(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    std::fs::read_to_string(root.join(name)).expect("the page is there")
}

fn read(name: String, path: &Path) -> Capture {
    let request = path
        .to_string_lossy()
        .replace(".response.http", ".request.json");
    let request = std::fs::read(request).expect("a request beside the answer");
    let request: serde_json::Value = serde_json::from_slice(&request).expect("a request in JSON");
    let answer = std::fs::read(path).expect("a readable answer");
    let end = memchr::memmem::find(&answer, b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&answer[..end])
        .expect("a head in ASCII")
        .to_lowercase();
    let rest = &answer[end + 4..];
    let length = |name: &str| {
        let (_, after) = head.split_once(&format!("\r\n{name}: "))?;
        let digits = after.lines().next().expect("a value");
        Some(digits.parse::<usize>().expect("a length"))
    };
    let (pieces, is_whole) = match length("content-length") {
        Some(length) => (vec![rest[..length].to_vec()], true),
        None => chunks(rest),
    };
    Capture {
        name,
        path: request["path"].as_str().expect("a path").to_owned(),
        request: match request["raw_body"].as_str() {
            Some(raw) => raw.as_bytes().to_vec(),
            None => request["json"].to_string().into_bytes(),
        },
        status: head["http/1.1 ".len()..][..3].parse().expect("a status"),
        is_whole,
        is_aborted: request["abort_after_bytes"].is_number(),
        sse: head.contains("\r\ncontent-type: text/event-stream"),
        json_length: length("inference-header-content-length"),
        pieces,
    }
}

/// Parts a chunked body, and tells whether it is whole; a recording may stop in the middle.
fn chunks(mut rest: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut pieces = Vec::new();
    while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).expect("a chunk size");
        let size = usize::from_str_radix(size, 16).expect("a chunk size in hex");
        if size == 0 {
            return (pieces, true);
        }
        let after = &rest[end + 2..];
        pieces.push(after[..size.min(after.len())].to_vec());
        rest = after.get(size + 2..).unwrap_or_default();
    }
    (pieces, false)
}
