//! Whose request it is: what proxies say, whose word is taken, and what engines are told.

use std::collections::HashMap;

use greylag_filters::rules::How;
use serde_json::json;

use crate::harness::{Client, Greylag, all, asked, engines, sim};

const BODY: &str = r#"{"model":"tiny","messages":[],"max_tokens":1}"#;
const NAMES: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];

// What is made of these fields: the record's client, and the fields that the engine gets.
async fn check(keys: &str, fields: &[&str], client: &str, told: [&[&str]; 3]) {
    let engine = sim().await;
    let greylag = Greylag::with(keys, &engines(&[("stable", engine.address())]).to_string());
    let mut asking = Client::to(greylag.address()).await;
    assert_eq!(asking.chat(fields, BODY).await.status, 200);
    let record = &greylag.records_of(1).await[0];
    let found = record.client.map(|client| client.to_string());
    assert_eq!(found.as_deref(), Some(client), "{keys} {fields:?}");
    let request = asked(&engine).pop().expect("it was asked");
    for (name, expected) in NAMES.iter().zip(told) {
        assert_eq!(all(&request, name), expected, "{keys} {fields:?} {name}");
    }
}

#[tokio::test]
async fn a_trusted_peer_says_whose_request_it_is_and_its_fields_pass_as_they_are() {
    let list = "x-forwarded-for: 6.6.6.6, 203.0.113.7, 10.0.0.2";
    let value = "6.6.6.6, 203.0.113.7, 10.0.0.2";
    check("", &[list], "203.0.113.7", [&[value], &[], &[]]).await;
    let element = "Forwarded: for=\"[2001:db8::1]:80\";proto=https";
    check(
        "",
        &[element, "x-real-ip: 9.9.9.9"],
        "2001:db8::1",
        [&[], &["for=\"[2001:db8::1]:80\";proto=https"], &["9.9.9.9"]],
    )
    .await;
    check(
        "",
        &[list, element],
        "203.0.113.7",
        [&[value], &["for=\"[2001:db8::1]:80\";proto=https"], &[]],
    )
    .await;
    check("", &[], "127.0.0.1", [&[], &[], &[]]).await;
}

#[tokio::test]
async fn what_a_stranger_says_is_neither_believed_nor_passed_on() {
    let fields = [
        "x-forwarded-for: 203.0.113.7",
        "forwarded: for=203.0.113.7",
        "x-real-ip: 203.0.113.7",
    ];
    for keys in ["trusted: []", "trusted: [10.0.0.0/8]"] {
        check(keys, &fields, "127.0.0.1", [&[], &[], &[]]).await;
    }
}

#[tokio::test]
async fn the_peer_is_added_where_that_is_wanted() {
    let append = "forwarded: append";
    check(
        append,
        &["x-forwarded-for: 203.0.113.7", "x-forwarded-for: 10.0.0.2"],
        "203.0.113.7",
        [&["203.0.113.7, 10.0.0.2, 127.0.0.1"], &[], &[]],
    )
    .await;
    check(
        append,
        &["forwarded: for=203.0.113.7"],
        "203.0.113.7",
        [&[], &["for=203.0.113.7, for=127.0.0.1"], &[]],
    )
    .await;
    check(append, &[], "127.0.0.1", [&["127.0.0.1"], &[], &[]]).await;
    check(
        "forwarded: append\ntrusted: []",
        &["x-forwarded-for: 203.0.113.7", "forwarded: for=203.0.113.7"],
        "127.0.0.1",
        [&["127.0.0.1"], &[], &[]],
    )
    .await;
}

#[tokio::test]
async fn the_client_behind_a_proxy_is_the_sticky_one() {
    let (stable, candidate) = (sim().await, sim().await);
    let mut rules = engines(&[
        ("stable", stable.address()),
        ("candidate", candidate.address()),
    ]);
    rules["splits"] = json!([{
        "name": "even",
        "weights": { "stable": 1, "candidate": 1 },
        "sticky": ["client_ip"],
    }]);
    let greylag = Greylag::start(&rules.to_string());
    let mut client = Client::to(greylag.address()).await;
    const CLIENTS: usize = 24;
    for _ in 0..2 {
        for last in 0..CLIENTS {
            let field = format!("x-forwarded-for: 203.0.113.{last}");
            assert_eq!(client.chat(&[&field], BODY).await.status, 200);
        }
    }
    let mut engines = HashMap::new();
    for record in greylag.records_of(2 * CLIENTS).await {
        assert_eq!(record.how, Some(How::Sticky));
        let engine = record.engine.clone().expect("it went to one");
        let before = engines.insert(record.client, engine.clone());
        assert_eq!(before.unwrap_or_else(|| engine.clone()), engine);
    }
    assert_eq!(engines.len(), CLIENTS);
    // Were the proxy the key, all would have gone to one.
    let stable = engines.values().filter(|engine| &***engine == "stable");
    assert!((1..CLIENTS).contains(&stable.count()));
}
