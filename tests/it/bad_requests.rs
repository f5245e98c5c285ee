//! Requests that are malformed, ambiguous or odd, as raw bytes.
//!
//! Each is either refused with its reason, or reaches the engine as exactly one request that can be read in one way.
//! Whatever it is, the next request is unharmed.

use greylag_sim::Engine;

use crate::harness::{
    Answer, Client, Greylag, asked, connections, contains, engines, eventually, sim,
};

struct Stand {
    engine: Engine,
    greylag: Greylag,
}

impl Stand {
    async fn new() -> Stand {
        let engine = sim().await;
        let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
        Stand { engine, greylag }
    }

    async fn client(&self) -> Client {
        Client::to(self.greylag.address()).await
    }

    async fn refusals(&self, reason: &str) -> f64 {
        let series = format!("greylag_refused_total{{reason=\"{reason}\"}}");
        self.greylag.metric(&series).await.unwrap_or(0.0)
    }

    /// What is sent is refused, closes its connection, reaches no engine and is counted.
    async fn refuses(&self, raw: impl AsRef<[u8]>, status: u16, reason: &str) {
        let what = shown(raw.as_ref());
        let (seen, counted) = (asked(&self.engine).len(), self.refusals(reason).await);
        let mut client = self.client().await;
        client.send(raw).await;
        let answer = client.answer().await;
        let found = (answer.status, answer.header("x-greylag-reason"));
        assert_eq!(found, (status, Some(reason)), "{what}");
        assert_eq!(answer.json()["error"]["code"], reason, "{what}");
        assert_eq!(answer.header("connection"), Some("close"), "{what}");
        assert!(client.ended().await, "{what}: {:?}", client.held());
        assert_eq!(asked(&self.engine).len(), seen, "{what} reached the engine");
        // The record is made after the answer.
        let series = format!("greylag_refused_total{{reason=\"{reason}\"}}");
        let found = self.greylag.metric_reaches(&series, counted + 1.0).await;
        assert_eq!(found, counted + 1.0, "{what}");
        self.is_unharmed(&what).await;
    }

    /// What is sent reaches the engine as one request: this line, this body. Returns its head and the answer.
    async fn forwards(&self, raw: impl AsRef<[u8]>, line: &str, body: &str) -> (String, Answer) {
        let what = shown(raw.as_ref());
        let seen = asked(&self.engine).len();
        let mut client = self.client().await;
        client.send(raw).await;
        let answer = client.answer().await;
        assert_eq!(
            answer.header("x-greylag-engine"),
            Some("stable"),
            "{what}: {}",
            answer.text()
        );
        assert!(answer.whole, "{what}");
        if answer.header("connection") == Some("close") {
            assert!(client.ended().await, "{what}: {:?}", client.held());
        } else {
            assert_eq!(client.get("/version").await.status, 200, "{what}");
        }
        let requests = asked(&self.engine);
        let after = usize::from(answer.header("connection") != Some("close"));
        assert_eq!(requests.len() - after, seen + 1, "{what}");
        assert_eq!(self.engine.seen().refused, 0, "{what}");
        let request = &requests[seen];
        let head = String::from_utf8_lossy(&request.head).into_owned();
        assert_eq!(head.lines().next(), Some(line), "{what}");
        assert_eq!(request.body.as_deref(), Some(body.as_bytes()), "{what}");
        let count = |name| request.header_all(name).count();
        assert_eq!(count("host"), 1, "{what}: {head}");
        let framed = count("content-length") + count("transfer-encoding");
        assert!(framed <= 1, "{what}: {head}");
        self.is_unharmed(&what).await;
        (head, answer)
    }

    async fn is_unharmed(&self, what: &str) {
        let answer = self.client().await.get("/version").await;
        assert_eq!((answer.status, answer.whole), (200, true), "after {what}");
    }
}

fn shown(raw: &[u8]) -> String {
    let text = raw.escape_ascii().to_string();
    text.chars().take(160).collect()
}

fn chat(fields: &str, body: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n{fields}\r\n{body}"
    )
}

// A body that is a second request to a server that reads its framing otherwise.
const INNER: &str = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: test\r\n\r\n";

#[tokio::test]
async fn a_body_framed_in_a_way_that_is_not_known_is_refused() {
    let stand = Stand::new().await;
    for coding in [
        "xchunked",
        "chunked, identity",
        "gzip",
        "chunked;q=1",
        "",
        "\x0bchunked",
    ] {
        let reason = "bad_request";
        let raw = chat(&format!("transfer-encoding: {coding}\r\n"), INNER);
        stand.refuses(raw, 400, reason).await;
    }
    for fields in [
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: xchunked\r\ntransfer-encoding: chunked\r\n",
    ] {
        stand.refuses(chat(fields, INNER), 501, "unsupported").await;
    }
    let old = format!("POST / HTTP/1.0\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n{INNER}");
    stand.refuses(old, 400, "bad_request").await;
}

#[tokio::test]
async fn a_length_that_is_not_one_number_is_refused() {
    let stand = Stand::new().await;
    for fields in [
        "content-length: 5\r\ncontent-length: 40\r\n",
        "content-length: 5, 40\r\n",
        "content-length: +5\r\n",
        "content-length: -5\r\n",
        "content-length: 5x\r\n",
        "content-length: 0x5\r\n",
        "content-length: 5 5\r\n",
        "content-length:\r\n",
        "content-length: 99999999999999999999999999\r\n",
    ] {
        stand.refuses(chat(fields, INNER), 400, "bad_request").await;
    }
}

#[tokio::test]
async fn a_head_that_is_not_well_formed_is_refused() {
    let stand = Stand::new().await;
    for fields in [
        "x-folded: a\r\n b\r\n",
        "x-spaced : a\r\n",
        "content-length : 5\r\n",
        " x-first: a\r\n",
        "no colon\r\n",
        ": no name\r\n",
        "x-nul: a\0b\r\n",
        "x-bell: a\x07b\r\n",
        "x-del: a\x7fb\r\n",
        "x-cr: a\rb: c\r\n",
        "x[y]: a\r\n",
        "host: test\r\n",
        "host: other\r\n",
    ] {
        stand.refuses(chat(fields, ""), 400, "bad_request").await;
    }
    for raw in [
        "GET /version\r\n\r\n",
        "GET /version HTTP/2.0\r\nhost: test\r\n\r\n",
        "GET /version HTTP/1.2\r\nhost: test\r\n\r\n",
        "GET /version HTTP/1.1\r\n\r\n",
        "GET  HTTP/1.1\r\nhost: test\r\n\r\n",
        "G(T /version HTTP/1.1\r\nhost: test\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET ftp://test/version HTTP/1.1\r\nhost: test\r\n\r\n",
        "GET http://other/version HTTP/1.1\r\nhost: test\r\n\r\n",
        "GET http://user@test/version HTTP/1.1\r\nhost: test\r\n\r\n",
        "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03 a TLS client's hello \0\0",
    ] {
        stand.refuses(raw, 400, "bad_request").await;
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let stand = Stand::new().await;
    let many: String = (0..300).map(|i| format!("x-{i}: a\r\n")).collect();
    stand.refuses(chat(&many, ""), 431, "head_too_large").await;
    let long = format!("x-long: {}\r\n", "a".repeat(2 << 20));
    stand.refuses(chat(&long, ""), 431, "head_too_large").await;
    let target = format!(
        "GET /{} HTTP/1.1\r\nhost: test\r\n\r\n",
        "a".repeat(100 << 10)
    );
    stand.refuses(target, 431, "head_too_large").await;
    let endless = format!("GET /{}", "a".repeat(2 << 20));
    stand.refuses(endless, 431, "head_too_large").await;
}

#[tokio::test]
async fn what_is_not_carried_is_refused() {
    let stand = Stand::new().await;
    let raw = "CONNECT test:80 HTTP/1.1\r\nhost: test:80\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: test\r\n\r\n";
    stand.refuses(raw, 501, "unsupported").await;
    for expect in ["200-ok", "100-continue, 200-ok"] {
        let fields = format!("expect: {expect}\r\ncontent-length: 2\r\n");
        stand
            .refuses(chat(&fields, "{}"), 417, "expectation_failed")
            .await;
    }
    let fields = "expect: 100-continue\r\nexpect: 200-ok\r\ncontent-length: 2\r\n";
    stand
        .refuses(chat(fields, "{}"), 417, "expectation_failed")
        .await;
}

#[tokio::test]
async fn an_odd_request_reaches_the_engine_as_one_that_is_clear() {
    let stand = Stand::new().await;
    let post = "POST /v1/chat/completions HTTP/1.1";
    let version = "GET /version HTTP/1.1";
    // Two framings: the chunks count (RFC 9112 section 6.1), and nothing after them is read.
    let both = chat("content-length: 5\r\ntransfer-encoding: chunked\r\n", INNER);
    let (head, answer) = stand.forwards(both, post, "").await;
    assert!(!head.contains("smuggled"));
    assert_eq!(answer.header("connection"), Some("close"));
    let twice = chat("content-length: 2\r\ncontent-length: 2\r\n", "{}");
    stand.forwards(twice, post, "{}").await;
    let listed = chat("content-length: 2, 2\r\n", "{}");
    stand.forwards(listed, post, "{}").await;
    let nominated = chat(
        "connection: content-length, x-own\r\nx-own: 1\r\ncontent-length: 2\r\n",
        "{}",
    );
    let (head, _) = stand.forwards(nominated, post, "{}").await;
    assert!(!head.contains("x-own"), "{head}");
    let nominated = chat(
        "connection: transfer-encoding, host\r\ntransfer-encoding: Chunked\r\n",
        "2\r\n{}\r\n0\r\n\r\n",
    );
    stand.forwards(nominated, post, "{}").await;
    for (raw, line) in [
        ("GET /version HTTP/1.1\nhost: test\n\n", version),
        (
            "\r\n\r\nGET /version HTTP/1.1\r\nhost: test\r\n\r\n",
            version,
        ),
        ("GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1"),
        (
            "GET http://test/version HTTP/1.1\r\nhost: test\r\n\r\n",
            version,
        ),
        (
            "GET https://test/version HTTP/1.1\r\nhost: test\r\n\r\n",
            version,
        ),
        (
            "GET HTTP://test/version HTTP/1.1\r\nhost: test\r\n\r\n",
            version,
        ),
        (
            "GET http://test HTTP/1.1\r\nhost: test\r\n\r\n",
            "GET / HTTP/1.1",
        ),
        ("GET http://test/version HTTP/1.0\r\n\r\n", version),
        (
            "OPTIONS * HTTP/1.1\r\nhost: test\r\n\r\n",
            "OPTIONS * HTTP/1.1",
        ),
        (
            "GET /version HTTP/1.1\r\nhost: test\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
            version,
        ),
    ] {
        let (head, _) = stand.forwards(raw, line, "").await;
        assert!(!head.contains("upgrade"), "{head}");
    }
    let long = format!("/{}", "a".repeat(60_000));
    let raw = format!("GET {long} HTTP/1.1\r\nhost: test\r\n\r\n");
    stand
        .forwards(raw, &format!("GET {long} HTTP/1.1"), "")
        .await;
}

#[tokio::test]
async fn chunks_are_read_to_the_letter() {
    let stand = Stand::new().await;
    let chunked = |body: &str| chat("transfer-encoding: chunked\r\n", body);
    for body in [
        "zz\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
    ] {
        stand.refuses(chunked(body), 400, "bad_request").await;
    }
    let post = "POST /v1/chat/completions HTTP/1.1";
    for body in [
        "2\r\n{}\r\n0\r\n\r\n",
        "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        "0000002\r\n{}\r\n000\r\n\r\n",
        "2;name=value\r\n{}\r\n0;last\r\n\r\n",
        "2\r\n{}\r\n0\r\nx-trailer: a\r\ncontent-length: 9\r\n\r\n",
    ] {
        let (head, _) = stand.forwards(chunked(body), post, "{}").await;
        assert!(!head.contains("x-trailer"), "{head}");
    }
}

#[tokio::test]
async fn a_streamed_body_that_breaks_is_not_whole_at_the_engine() {
    let stand = Stand::new().await;
    let mut client = stand.client().await;
    client
        .send("POST /v1/files HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    eventually("the head", || {
        (asked(&stand.engine).len() == 1).then_some(())
    })
    .await;
    client.send("zz\r\n").await;
    let answer = client.answer().await;
    assert_eq!(answer.header("x-greylag-reason"), Some("bad_request"));
    let request = eventually("its end", || {
        let request = asked(&stand.engine).remove(0);
        request.ended.is_some().then_some(request)
    })
    .await;
    assert_eq!(request.body, None);
    stand.is_unharmed("a broken stream").await;
}

#[tokio::test]
async fn requests_in_one_write_are_answered_in_order() {
    for count in [2, 20] {
        let stand = Stand::new().await;
        let one = |i: usize| {
            let body = format!(
                r#"{{"model":"tiny","messages":[],"max_tokens":{}}}"#,
                i % 16 + 1
            );
            let fields = format!("x-request-id: n{i}\r\ncontent-length: {}\r\n", body.len());
            chat(&fields, &body)
        };
        let all: String = (0..count).map(one).collect();
        let mut client = stand.client().await;
        client.send(all).await;
        for i in 0..count {
            let answer = client.answer().await;
            assert_eq!(answer.status, 200, "{i}: {}", answer.text());
            assert_eq!(answer.json()["usage"]["completion_tokens"], i % 16 + 1);
        }
        let records = stand.greylag.records_of(count).await;
        let ids: Vec<String> = records.iter().map(|record| record.id.to_string()).collect();
        let expected: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
        assert_eq!(ids, expected);
        assert_eq!(connections(&stand.engine), 1);
    }
}

#[tokio::test]
async fn a_line_end_after_a_body_is_no_part_of_the_next_request() {
    let stand = Stand::new().await;
    let mut client = stand.client().await;
    for after in ["\r\n", "\r\n\r\n", "\n", ""] {
        let body = r#"{"messages":[]}"#;
        let fields = format!("content-length: {}\r\n", body.len());
        client.send(chat(&fields, body) + after).await;
        assert_eq!(client.answer().await.status, 200, "{after:?}");
    }
    let requests = asked(&stand.engine);
    assert_eq!((requests.len(), stand.engine.seen().refused), (4, 0));
    for request in requests {
        assert!(contains(&request.head, b"content-length: 15\r\n"));
    }
}

#[tokio::test]
async fn silence_is_not_answered() {
    let stand = Stand::new().await;
    for raw in ["", "\r\n", "GET /version HTTP/1.1\r\nhost"] {
        let mut client = stand.client().await;
        client.send(raw).await;
        tokio::io::AsyncWriteExt::shutdown(&mut client.socket)
            .await
            .unwrap();
        assert!(client.ended().await, "{raw:?}: {:?}", client.held());
        stand.is_unharmed(raw).await;
    }
    let records = stand.greylag.records_of(3).await;
    assert!(
        records.iter().all(|record| &*record.path == "/version"),
        "{records:?}"
    );
}
