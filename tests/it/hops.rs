//! Several Greylags in a row: who splits, and who says that it goes in a circle.

use std::net::SocketAddr;

use greylag::reply::Reason;
use greylag_filters::outcome::Outcome;
use greylag_filters::rules::How;
use serde_json::{Value, json};

use crate::harness::{Client, Greylag, all, asked, engines, sim};

const BODY: &str = r#"{"model":"tiny","messages":[],"max_tokens":1}"#;

/// Rules by which all goes to `candidate`, whatever the default is.
fn split_off(local: SocketAddr, candidate: SocketAddr) -> Value {
    let mut rules = engines(&[("local", local), ("candidate", candidate)]);
    rules["splits"] = json!([{ "name": "all", "weights": { "candidate": 1 } }]);
    rules
}

#[tokio::test]
async fn what_one_has_routed_the_next_does_not_split_again() {
    let (local, elsewhere, candidate) = (sim().await, sim().await, sim().await);
    let behind = Greylag::start(&split_off(local.address(), candidate.address()).to_string());
    let before = Greylag::start(&split_off(elsewhere.address(), behind.address()).to_string());
    let mut client = Client::to(before.address()).await;
    assert_eq!(client.chat(&[], BODY).await.status, 200);
    let first = &before.chats_of(1).await[0];
    assert_eq!(
        (first.how, first.engine.as_deref()),
        (Some(How::Draw), Some("candidate"))
    );
    let second = &behind.chats_of(1).await[0];
    assert_eq!(
        (
            second.how,
            second.engine.as_deref(),
            second.split.as_deref()
        ),
        (Some(How::Hop), Some("local"), None)
    );
    let request = asked(&local).pop().expect("it was asked");
    assert_eq!(all(&request, "x-greylag-hop"), ["2"]);
    assert!(asked(&elsewhere).is_empty() && asked(&candidate).is_empty());
    assert_eq!(behind.metric("greylag_hops_total").await, Some(1.0));
    assert_eq!(before.metric("greylag_hops_total").await, Some(0.0));
    // Who comes to it directly is split.
    let mut client = Client::to(behind.address()).await;
    assert_eq!(client.chat(&[], BODY).await.status, 200);
    assert_eq!(behind.chats_of(2).await[1].how, Some(How::Draw));
    let request = asked(&candidate).pop().expect("it was asked");
    assert_eq!(all(&request, "x-greylag-hop"), ["1"]);
}

#[tokio::test]
async fn five_in_a_row_are_one_too_many() {
    let engine = sim().await;
    let mut row: Vec<Greylag> = Vec::new();
    for _ in 0..5 {
        let next = row.last().map_or(engine.address(), Greylag::address);
        row.push(Greylag::start(&engines(&[("next", next)]).to_string()));
    }
    // Four are none too many.
    let mut client = Client::to(row[3].address()).await;
    assert_eq!(client.chat(&[], BODY).await.status, 200);
    let request = asked(&engine).pop().expect("it was asked");
    assert_eq!(all(&request, "x-greylag-hop"), ["4"]);
    let mut client = Client::to(row[4].address()).await;
    let answer = client.chat(&[], BODY).await;
    assert_eq!(
        (answer.status, answer.header("x-greylag-reason")),
        (508, Some("loop_detected"))
    );
    assert_eq!(answer.json()["error"]["code"], "loop_detected");
    let last = &row[0].chats_of(2).await[1];
    assert_eq!(
        (last.reason, last.outcome, last.attempts, &last.engine),
        (Some(Reason::LoopDetected), Outcome::Refused, 0, &None)
    );
    assert_eq!(asked(&engine).len(), 1);
    let refused = r#"greylag_refused_total{reason="loop_detected"}"#;
    assert_eq!(row[0].metric(refused).await, Some(1.0));
    // The connection carries the next one.
    assert_eq!(client.get("/version").await.status, 508);
}

#[tokio::test]
async fn a_hop_of_a_strangers_and_one_of_nonsense_are_nobodys_word() {
    for (keys, hop, believed) in [
        ("", "3", true),
        ("trusted: []", "3", false),
        ("trusted: []", "200", false),
        ("", "nonsense", false),
        ("", "3\r\nx-greylag-hop: 3", false),
    ] {
        let (local, candidate) = (sim().await, sim().await);
        let rules = split_off(local.address(), candidate.address());
        let greylag = Greylag::with(keys, &rules.to_string());
        let mut client = Client::to(greylag.address()).await;
        let field = format!("x-greylag-hop: {hop}");
        assert_eq!(client.chat(&[&field], BODY).await.status, 200);
        let (how, engine, next) = match believed {
            true => (How::Hop, &local, "4"),
            false => (How::Draw, &candidate, "1"),
        };
        assert_eq!(greylag.chats_of(1).await[0].how, Some(how), "{keys} {hop}");
        let request = asked(engine).pop().expect("it was asked");
        assert_eq!(all(&request, "x-greylag-hop"), [next], "{keys} {hop}");
    }
}
