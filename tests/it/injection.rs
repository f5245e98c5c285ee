//! Usage that Greylag asks for is measured, and the caller never sees it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "injection/cuttings.rs"]
mod cuttings;
#[path = "injection/left_alone.rs"]
mod left_alone;

use std::sync::Arc;

use greylag::record::Record;
use greylag_filters::outcome::Outcome;
use greylag_sim::seen::Request;
use greylag_sim::{Engine, Settings};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, DEADLINE, Greylag, engines};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

fn greylag(engine: &Engine) -> Greylag {
    let mut rules = engines(&[("stable", engine.address())]);
    rules["engines"]["stable"]["usage"] = json!("inject");
    Greylag::start(&rules.to_string())
}

async fn engine() -> Engine {
    Engine::start(Settings::default()).await.unwrap()
}

/// The request with a body that the engine was sent.
async fn posted(engine: &Engine) -> Arc<Request> {
    let posted = |seen: &greylag_sim::Seen| {
        let mut requests = seen.requests.iter();
        let post = requests.find(|request| request.method == "POST").cloned();
        post.filter(|request| request.body.is_some())
    };
    assert!(
        engine
            .wait_for(|seen| posted(seen).is_some(), DEADLINE)
            .await
    );
    posted(&engine.seen()).unwrap()
}

/// What the engine was sent: the body, once it is known to be as long as the head says.
async fn sent(engine: &Engine) -> Value {
    let request = posted(engine).await;
    let body = request.body.as_ref().unwrap();
    let length = body.len().to_string();
    assert_eq!(request.header("content-length"), Some(&*length));
    assert_eq!(request.header_all("content-length").count(), 1);
    assert_eq!(request.header("transfer-encoding"), None);
    serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {body:?}"))
}

/// A stream without its events of usage alone: those whose `choices` are empty.
fn without_usage(stream: &str) -> String {
    let events = stream.split_inclusive("\n\n");
    let mut removed = 0;
    let kept = events.filter(|event| {
        let data = event.trim().strip_prefix("data: ");
        let read = data.and_then(|data| serde_json::from_str::<Value>(data).ok());
        let is_usage = read.is_some_and(|read| read["choices"] == json!([]));
        removed += usize::from(is_usage);
        !is_usage
    });
    let kept = kept.collect();
    assert!(removed <= 1);
    kept
}

/// The answers of three engines that answer alike.
struct Answers {
    /// Through Greylag.
    through: Answer,
    /// To a caller without Greylag.
    direct: Answer,
    /// To a caller without Greylag who asks for usage.
    asked: Answer,
    /// What Greylag made of it.
    record: Arc<Record>,
    /// What the engine behind Greylag was sent.
    sent: Value,
}

async fn ask(path: &str, order: &str, body: &str) -> Answers {
    let engines = [engine().await, engine().await, engine().await];
    let greylag = greylag(&engines[0]);
    let mut with: Value = serde_json::from_str(body).unwrap();
    with["stream_options"] = json!({ "include_usage": true });
    let with = with.to_string();
    let mut answers = Vec::new();
    for (address, body) in [
        (greylag.address(), body),
        (engines[1].address(), body),
        (engines[2].address(), &with),
    ] {
        let order = format!("x-sim: {order}");
        let mut client = Client::to(address).await;
        answers.push(
            client
                .post(path, &["x-request-id: same", &order], body)
                .await,
        );
    }
    let record = greylag.records_of(1).await[0].clone();
    let [through, direct, asked] = <[Answer; 3]>::try_from(answers).unwrap();
    Answers {
        through,
        direct,
        asked,
        record,
        sent: sent(&engines[0]).await,
    }
}

/// vLLM puts its fingerprint on the last event, which is another one when usage is asked for.
fn without_fingerprint(stream: &str) -> String {
    const FIELD: &str = ",\"system_fingerprint\":\"";
    match stream.split_once(FIELD) {
        Some((before, after)) => {
            let (_, after) = after.split_once('"').unwrap();
            format!("{before}{after}")
        }
        None => stream.to_owned(),
    }
}

async fn check(path: &str, order: &str, body: &str) -> Answers {
    let answers = ask(path, order, body).await;
    let Answers {
        through,
        direct,
        asked,
        sent,
        ..
    } = &answers;
    let case = format!("{path} {order} {body}");
    assert_eq!(sent["stream_options"]["include_usage"], true, "{case}");
    assert_eq!(through.status, direct.status, "{case}");
    assert_eq!(through.whole, direct.whole, "{case}");
    assert_eq!(through.text(), without_usage(&asked.text()), "{case}");
    assert_eq!(
        through.text(),
        without_fingerprint(&direct.text()),
        "{case}"
    );
    assert!(
        through.chunked && through.header("content-length").is_none(),
        "{case}"
    );
    answers
}

const STREAM: &str = r#"{"model":"tiny","messages":[],"stream":true,"max_tokens":7}"#;

#[tokio::test]
async fn a_caller_who_did_not_ask_does_not_see_it() {
    for options in [
        "",
        r#","stream_options":null"#,
        r#","stream_options":{}"#,
        r#", "stream_options" : { "include_usage" : false } "#,
        r#","n":2"#,
        r#","temperature":0,"seed":3"#,
    ] {
        let body = STREAM.replace('}', &format!("{options}}}"));
        let answers = check(CHAT, "", &body).await;
        let usage = answers.record.figures.as_ref().unwrap().usage.unwrap();
        let choices = if options.contains("\"n\"") { 2 } else { 1 };
        assert_eq!(usage.completion, Some(7 * choices), "{options}");
        assert!(usage.prompt.is_some());
        assert_eq!(answers.record.outcome, Outcome::Ok);
        let length = answers.through.body.len() as u64;
        assert_eq!(answers.record.answer_bytes, length);
        // Nothing else of the request was touched.
        let mut sent = answers.sent;
        let mut given: Value = serde_json::from_str(&body).unwrap();
        for value in [&mut sent, &mut given] {
            value.as_object_mut().unwrap().remove("stream_options");
        }
        assert_eq!(sent, given);
    }
    let body = r#"{"model":"tiny","prompt":["a","b"],"stream":true,"max_tokens":7}"#;
    let answers = check(COMPLETIONS, "", body).await;
    let usage = answers.record.figures.as_ref().unwrap().usage.unwrap();
    assert_eq!(usage.completion, Some(14));
}

#[tokio::test]
async fn whatever_the_stream_is_like() {
    for order in [
        "comments=2",
        "reasoning=3",
        "tokens_per_event=3",
        "no_done",
        "length",
        "huge_event=100000",
        "close_after",
    ] {
        let answers = check(CHAT, order, STREAM).await;
        let usage = answers.record.figures.as_ref().unwrap().usage;
        assert_eq!(usage.unwrap().completion, Some(7), "{order}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_badly_ends_as_it_did() {
    for (order, outcome) in [
        ("cut=3", Outcome::Truncated),
        ("cut=0", Outcome::Truncated),
        ("error=3", Outcome::ErrorInStream),
    ] {
        let answers = check(CHAT, order, STREAM).await;
        assert_eq!(answers.record.outcome, outcome, "{order}");
        let usage = answers.record.figures.as_ref().unwrap().usage;
        assert_eq!(usage, None, "{order}");
    }
}

#[tokio::test]
async fn an_answer_that_must_be_read_is_not_asked_for_compressed() {
    let engine = engine().await;
    let greylag = greylag(&engine);
    let mut client = Client::to(greylag.address()).await;
    client.chat(&["accept-encoding: gzip, br"], STREAM).await;
    sent(&engine).await;
    let request = posted(&engine).await;
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    assert_eq!(request.header_all("accept-encoding").count(), 1);
}

#[tokio::test]
async fn a_body_that_comes_in_chunks_goes_on_with_its_new_length() {
    let engine = engine().await;
    let greylag = greylag(&engine);
    let mut client = Client::to(greylag.address()).await;
    let (first, rest) = STREAM.split_at(20);
    let fields = [
        "content-type: application/json",
        "transfer-encoding: chunked",
    ];
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: test\r\n{}\r\n\r\n",
        fields.join("\r\n")
    );
    client.send(head).await;
    for piece in [first, rest] {
        client
            .send(format!("{:x}\r\n{piece}\r\n", piece.len()))
            .await;
    }
    client.send("0\r\n\r\n").await;
    let answer = client.answer().await;
    assert!(answer.whole && !answer.text().contains("\"usage\":{"));
    let body = sent(&engine).await;
    assert_eq!(body["stream_options"]["include_usage"], true);
}
