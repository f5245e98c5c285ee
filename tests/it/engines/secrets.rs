//! Keys and fields that engines are sent, and nobody else is shown.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{OFTEN, PLAIN};
use crate::admin::{JSON, get, put};
use crate::harness::{Client, Greylag, asked, sim};

struct File(PathBuf);

impl File {
    fn with(content: &str) -> File {
        let name = format!(
            "greylag-key-{}-{}",
            std::process::id(),
            rand::random::<u64>()
        );
        let file = File(std::env::temp_dir().join(name));
        fs::write(&file.0, content).unwrap();
        file
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // It may have been removed by the test.
        let _ = fs::remove_file(&self.0);
    }
}

fn rules(engine: &greylag_sim::Engine, keys: Value) -> Value {
    let mut rules = json!({
        "engines": { "a": {
            "kind": "vllm",
            "url": format!("http://{}", engine.address()),
            "health": { "interval": OFTEN },
        } },
        "default_engine": "a",
    });
    for (key, value) in keys.as_object().unwrap() {
        rules["engines"]["a"][key] = value.clone();
    }
    rules
}

#[tokio::test]
async fn a_key_is_sent_and_a_replaced_one_from_then_on() {
    let engine = sim().await;
    let file = File::with("first\n");
    let greylag =
        Greylag::start(&rules(&engine, json!({ "api_key_file": file.0.to_str() })).to_string());
    let mut client = Client::to(greylag.address()).await;
    let callers = ["authorization: Bearer callers"];
    assert_eq!(client.chat(&callers, PLAIN).await.status, 200);
    // As a mounted secret changes: another file in its place.
    let next = File::with("second");
    fs::rename(&next.0, &file.0).unwrap();
    assert_eq!(client.chat(&callers, PLAIN).await.status, 200);
    // One that is gone or empty leaves the one before in use.
    fs::write(&file.0, "\n").unwrap();
    assert_eq!(client.chat(&[], PLAIN).await.status, 200);
    fs::remove_file(&file.0).unwrap();
    assert_eq!(client.chat(&[], PLAIN).await.status, 200);
    let keys: Vec<Vec<u8>> = asked(&engine)
        .iter()
        .map(|request| {
            request
                .header_all("authorization")
                .collect::<Vec<_>>()
                .concat()
        })
        .collect();
    let expected = ["first", "second", "second", "second"].map(|key| format!("Bearer {key}"));
    assert_eq!(keys, expected.map(String::into_bytes));
    // Whom Greylag asks how it is gets the key too.
    let probe = |request: &greylag_sim::seen::Request| {
        request.target == "/health" && request.header("authorization") == Some("Bearer second")
    };
    let probed = engine.wait_for(
        |seen| seen.requests.iter().any(|request| probe(request)),
        crate::harness::DEADLINE,
    );
    assert!(probed.await);
}

#[tokio::test]
async fn an_engine_whose_key_was_never_there_is_not_asked() {
    let engine = sim().await;
    let keys = json!({ "api_key_file": "/nowhere/key" });
    let greylag = Greylag::start(&rules(&engine, keys).to_string());
    let answer = Client::to(greylag.address()).await.chat(&[], PLAIN).await;
    let reason = answer.header("x-greylag-reason");
    assert_eq!((answer.status, reason), (500, Some("no_api_key")));
    assert!(!answer.text().contains("/nowhere"), "{}", answer.text());
    assert!(asked(&engine).is_empty());
}

#[test]
fn a_value_that_is_sent_is_shown_to_nobody() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let engine = runtime.block_on(sim());
    let keys = json!({ "headers": { "X-Org": "s3cret", "authorization": "s3cret" } });
    let greylag = Greylag::start(&rules(&engine, keys).to_string());
    let admin = greylag.app().admin;
    let sent = || {
        let mut client = runtime.block_on(Client::to(greylag.address()));
        let callers = ["authorization: callers", "x-org: callers"];
        assert_eq!(runtime.block_on(client.chat(&callers, PLAIN)).status, 200);
        let last = asked(&engine).pop().unwrap();
        assert_eq!(last.header_all("x-org").collect::<Vec<_>>(), [b"s3cret"]);
        assert_eq!(last.header("authorization"), Some("s3cret"));
    };
    sent();
    let shown = get(admin, "/v1/rules");
    assert_eq!(shown.json()["engines"]["a"]["headers"]["X-Org"], "<hidden>");
    // What is shown can be sent back, edited elsewhere, and means what it was.
    let edited = shown.text().replace("\"keep\"", "\"engine\"");
    let answer = put(admin, "/v1/rules", &[JSON], &edited);
    assert_eq!(answer.status, 200, "{}", answer.text());
    sent();
    // A mark where nothing is hidden is not taken for a value, and a wrong value is not repeated.
    for (from, to) in [("X-Org", "x-other"), ("<hidden>", "s3cret\\u0000")] {
        let wrong = shown.text().replace(from, to);
        let answer = put(admin, "/v1/rules", &[JSON], &wrong);
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(!answer.text().contains("s3cret"), "{}", answer.text());
    }
    let wrong = shown.text().replace("\"<hidden>\"", "526170");
    let answer = put(admin, "/v1/rules", &[JSON], &wrong);
    assert_eq!(answer.status, 400);
    assert!(!answer.text().contains("526170"), "{}", answer.text());
    for path in ["/v1/engines", "/v1/exchanges", "/v1/rules"] {
        let text = get(admin, path).text();
        assert!(!text.contains("s3cret"), "{path}: {text}");
    }
}
