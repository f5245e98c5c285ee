//! What happens, as it is told.

use serde_json::{Value, json};

use super::{FORCE, WEIGHTS, start};
use crate::admin::{JSON, get, problem, put};
use crate::harness::Client;
use crate::talk::{ask, comes_true};

// The data of a stream's events so far, as (id, kind, data).
fn events(text: &str) -> Vec<(String, String, Value)> {
    let field = |event: &str, name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let events = text.split("\n\n").filter(|event| event.contains("data:"));
    events
        .map(|event| {
            let data = serde_json::from_str(&field(event, "data:")).unwrap();
            (field(event, "id:"), field(event, "event:"), data)
        })
        .collect()
}

#[test]
fn what_happens_is_told_and_told_again_to_who_was_away() {
    let greylag = start();
    let admin = greylag.app().admin;
    put(admin, FORCE, &[JSON], "false");
    put(admin, WEIGHTS, &[JSON], r#"{"stable":1,"candidate":1}"#);
    let rules = |kind: &str| kind == "version" || kind == "switch";
    let kept = |target: &str, fields: &[&str]| {
        let answer = ask(admin, "GET", target, fields, "");
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        let mut all = events(&answer.text());
        all.retain(|(_, kind, _)| rules(kind) || kind == "gap");
        all
    };
    let all = kept("/v1/events?follow=false&after=0", &[]);
    let kinds: Vec<&str> = all.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["version", "switch", "version"]);
    assert_eq!(
        (&all[0].2["version"], &all[0].2["author"]),
        (&json!(2), &json!("loopback"))
    );
    assert_eq!(
        all[1].2,
        json!({ "kind": "force", "name": "canary", "on": false })
    );
    // Who has seen the second gets the third.
    let last = format!("last-event-id: {}", all[1].0);
    assert_eq!(kept("/v1/events?follow=false", &[&last]), all[2..]);
    let target = format!("/v1/events?follow=false&after={}", all[1].0);
    assert_eq!(kept(&target, &[]), all[2..]);
    // Who has seen another process's is told that something may be missing.
    let other = kept("/v1/events?follow=false", &["last-event-id: 1-5"]);
    assert_eq!((other[0].1.as_str(), other.len()), ("gap", 4));
    problem(&get(admin, "/v1/events?after=x"), 400, "bad_query");
}

#[tokio::test]
async fn a_follower_hears_of_it_at_once_and_no_more_than_so_many_may_follow() {
    let greylag = start();
    let admin = greylag.app().admin;
    let mut clients = Vec::new();
    for _ in 0..64 {
        let mut client = Client::to(admin).await;
        client
            .send("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let head = client.head().await;
        assert_eq!(head.status, 200);
        clients.push(client);
    }
    let mut late = Client::to(admin).await;
    late.send("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    problem(&late.answer().await, 429, "too_many_followers");
    let turned = tokio::task::spawn_blocking(move || put(admin, FORCE, &[JSON], "false").status);
    assert_eq!(turned.await.unwrap(), 200);
    for client in &mut clients {
        client.until("event: switch").await;
    }
    // Who leaves makes room.
    drop(clients);
    let has_room = tokio::task::spawn_blocking(move || {
        comes_true(|| get(admin, "/v1/events?follow=false").status == 200)
    });
    assert!(has_room.await.unwrap());
}

#[test]
fn an_engine_that_goes_down_is_told_of() {
    let greylag = start();
    let admin = greylag.app().admin;
    let told = || {
        let all = events(&get(admin, "/v1/events?follow=false&after=0").text());
        all.into_iter().any(|(_, kind, data)| {
            kind == "engine" && data["state"] == "down" && data["engine"] == "stable"
        })
    };
    // Each attempt is a sign.
    let sent = || {
        ask(
            greylag.address(),
            "POST",
            "/v1/chat/completions",
            &[JSON],
            "{\"model\":\"m\"}",
        )
    };
    assert!(comes_true(|| {
        sent();
        told()
    }));
}
