//! Two workers share the port and nothing else: each has connections of its own to the engine.

use std::collections::HashSet;

use greylag_filters::outcome::Outcome;
use greylag_sim::{Engine, Settings};
use tokio::task::JoinSet;

use crate::harness::{Client, Greylag, engines};

const STREAM: &str = r#"{"model":"tiny","messages":[],"stream":true,"max_tokens":5,"stream_options":{"include_usage":true}}"#;
const PLAIN: &str = r#"{"model":"tiny","messages":[],"max_tokens":5}"#;

#[tokio::test]
async fn connections_are_spread_and_all_is_recorded() {
    const CLIENTS: usize = 64;
    let engine = Engine::start(Settings::default()).await.unwrap();
    let rules = engines(&[("stable", engine.address())]).to_string();
    let greylag = Greylag::with("workers: 2", &rules);
    // One after the other, so that each worker needs one connection to the engine.
    for number in 0..CLIENTS {
        let mut client = Client::to(greylag.address()).await;
        let id = format!("x-request-id: {number}");
        let body = if number.is_multiple_of(2) {
            STREAM
        } else {
            PLAIN
        };
        let answer = client.chat(&[&id], body).await;
        assert_eq!((answer.status, answer.whole), (200, true));
        greylag.records_of(number + 1).await;
    }
    let records = greylag.records();
    let ids: HashSet<&str> = records.iter().map(|record| &*record.id).collect();
    assert_eq!((records.len(), ids.len()), (CLIENTS, CLIENTS));
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok);
        let usage = record.figures.as_ref().unwrap().usage.unwrap();
        assert_eq!(usage.completion, Some(5));
    }
    let connections: HashSet<u64> = engine
        .seen()
        .requests
        .iter()
        .filter(|request| request.method == "POST")
        .map(|request| request.connection)
        .collect();
    // Which worker gets a connection is the kernel's hash of its ports: that one of them gets none of 64 is out of
    // the question.
    assert_eq!(connections.len(), 2);
    let fresh = records.iter().filter(|record| !record.reused).count();
    assert_eq!(fresh, 2);
}

#[tokio::test]
async fn many_at_once_are_all_answered() {
    const CLIENTS: usize = 40;
    const EACH: usize = 5;
    let engine = Engine::start(Settings::default()).await.unwrap();
    let rules = engines(&[("stable", engine.address())]).to_string();
    let greylag = Greylag::with("workers: 2", &rules);
    let address = greylag.address();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(async move {
            let mut client = Client::to(address).await;
            for round in 0..EACH {
                let body = if round.is_multiple_of(2) {
                    STREAM
                } else {
                    PLAIN
                };
                let answer = client.chat(&[], body).await;
                assert_eq!((answer.status, answer.whole), (200, true));
            }
        });
    }
    clients.join_all().await;
    let records = greylag.records_of(CLIENTS * EACH).await;
    assert_eq!(records.len(), CLIENTS * EACH);
    let ids: HashSet<&str> = records.iter().map(|record| &*record.id).collect();
    assert_eq!(ids.len(), CLIENTS * EACH, "ids of ours are unique");
    assert!(records.iter().all(|record| record.outcome == Outcome::Ok));
    let page = Client::to(greylag.app().observe)
        .await
        .get("/metrics")
        .await;
    // Whether the model is known by now, and so a label, is not what this is about.
    let counted: f64 = page
        .text()
        .lines()
        .filter(|line| line.starts_with("greylag_outcomes_total{") && line.contains("\"ok\""))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    assert_eq!(counted, 200.0);
}
