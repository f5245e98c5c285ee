//! Answers that real servers gave, as they were recorded.
//!
//! In: the files under `filters/fixtures`. Out: each request with each of its answers, as bytes on the wire, and where
//! their framing and their text have seams.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::path::Path;

/// One recorded request and one answer to it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// `server/case`, and which of its answers if there are several.
    pub name: String,
    pub method: String,
    pub path: String,
    /// The request's body as it was sent.
    pub request: Vec<u8>,
    /// The answer's bytes, head and framing included.
    pub raw: Vec<u8>,
    pub status: u16,
    /// The head's fields in order, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Where a chunk begins or ends, the head's end included.
    pub seams: Vec<usize>,
    /// Whether the answer's framing is complete.
    pub whole: bool,
}

impl Recorded {
    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let (_, value) = self.fields.iter().find(|(found, _)| found == name)?;
        Some(value)
    }

    /// Whether the answer is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.field("content-type")
            .is_some_and(|value| value.starts_with("text/event-stream"))
    }

    /// Where a cut hurts most: within a line end, and within a character.
    pub fn sore_spots(&self) -> Vec<usize> {
        let pairs = self.raw.windows(2).enumerate();
        pairs
            .filter(|(_, pair)| *pair == b"\r\n" || pair[1] & 0xC0 == 0x80)
            .map(|(at, _)| at + 1)
            .collect()
    }
}

/// Every recorded answer over HTTP, in order of the names.
pub fn all() -> Vec<Recorded> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filters/fixtures");
    let mut found = Vec::new();
    for server in ["llamacpp", "sglang", "triton", "vllm"] {
        for file in std::fs::read_dir(root.join(server)).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            if let Some(case) = file.strip_suffix(".response.http") {
                found.extend(read(&root.join(server), case, &format!("{server}/{case}")));
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(found.len() >= 90, "only {} recordings", found.len());
    found
}

/// The recorded answer of that name.
pub fn one(name: &str) -> Recorded {
    let found = all().into_iter().find(|recorded| recorded.name == name);
    found.unwrap_or_else(|| panic!("no recording {name}"))
}

/// How much of a body is in the beginning of an answer; none before its head is whole.
pub fn body_so_far(raw: &[u8]) -> Option<Vec<u8>> {
    find(raw, b"\r\n\r\n").map(|_| answer(raw).body)
}

fn read(folder: &Path, case: &str, name: &str) -> Vec<Recorded> {
    let request = std::fs::read(folder.join(format!("{case}.request.json"))).unwrap();
    let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
    let body = match (request["raw_body"].as_str(), request.get("json")) {
        (Some(raw), _) => raw.as_bytes().to_vec(),
        (None, Some(json)) => json.to_string().into_bytes(),
        (None, None) => Vec::new(),
    };
    let raw = std::fs::read(folder.join(format!("{case}.response.http"))).unwrap();
    let mut rest = &raw[..];
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let mut answer = answer(rest);
        rest = &rest[answer.raw.len()..];
        answer.name = format!("{name}#{}", answers.len());
        answer.method = request["method"].as_str().unwrap().to_owned();
        answer.path = request["path"].as_str().unwrap().to_owned();
        answer.request = body.clone();
        answers.push(answer);
    }
    if let [only] = answers.as_mut_slice() {
        only.name = name.to_owned();
    }
    answers
}

// The first answer in `raw`.
fn answer(raw: &[u8]) -> Recorded {
    let head = find(raw, b"\r\n\r\n").expect("a head") + 4;
    let text = std::str::from_utf8(&raw[..head]).unwrap();
    let fields: Vec<(String, String)> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut answer = Recorded {
        name: String::new(),
        method: String::new(),
        path: String::new(),
        request: Vec::new(),
        raw: Vec::new(),
        status: text.split(' ').nth(1).unwrap().parse().unwrap(),
        fields,
        body: Vec::new(),
        seams: vec![head],
        whole: true,
    };
    let end = match answer.field("content-length") {
        Some(length) => {
            let end = raw.len().min(head + length.parse::<usize>().unwrap());
            answer.body = raw[head..end].to_vec();
            end
        }
        None => chunks(raw, head, &mut answer),
    };
    answer.raw = raw[..end].to_vec();
    answer
}

// Takes the chunks apart and returns where they end; a recording may stop within one.
fn chunks(raw: &[u8], mut at: usize, answer: &mut Recorded) -> usize {
    loop {
        let Some(line) = find(&raw[at..], b"\r\n") else {
            answer.whole = false;
            return raw.len();
        };
        let size = std::str::from_utf8(&raw[at..at + line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let from = at + line + 2;
        let to = from + size;
        answer.body.extend_from_slice(&raw[from..to.min(raw.len())]);
        if to + 2 > raw.len() {
            answer.whole = false;
            return raw.len();
        }
        answer.seams.push(to + 2);
        at = to + 2;
        if size == 0 {
            return at;
        }
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
