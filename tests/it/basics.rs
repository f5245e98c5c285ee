//! The thinnest path: one engine, one answer, one record.

use greylag_filters::outcome::Outcome;
use greylag_sim::{Engine, Settings};

use crate::harness::{Client, Greylag, engines};

const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":5,"stream_options":{"include_usage":true}}"#;

#[tokio::test]
async fn a_stream_passes_and_leaves_one_record() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    let mut direct = Client::to(engine.address()).await;
    let mut through = Client::to(greylag.address()).await;

    let id = ["x-request-id: same"];
    let expected = direct.chat(&id, STREAM).await;
    let found = through.chat(&id, STREAM).await;
    assert_eq!(expected.status, 200);
    assert_eq!((found.status, found.whole), (200, true));
    assert_eq!(found.header("x-greylag-engine"), Some("stable"));
    assert!(found.text().ends_with("data: [DONE]\n\n"));

    let records = greylag.records_of(1).await;
    let record = &records[0];
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(record.answer_bytes, found.body.len() as u64);
    let figures = record.figures.as_ref().unwrap();
    assert_eq!(figures.usage.unwrap().completion, Some(5));
    assert_eq!(records.len(), 1);
}
