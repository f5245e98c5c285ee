//! What exchanges are called where the rules are equal on both sides of a rollout.

use std::fs;
use std::path::Path;

use greylag_sim::Engine;
use serde_json::{Value, json};

use crate::certs::Folder;
use crate::harness::{Client, Greylag, all, asked, engines, sim, within};

const BODY: &str = r#"{"model":"tiny","messages":[],"max_tokens":1}"#;

fn called(file: &Path, more: &str) -> String {
    format!("identity: {{ tag_file: {file:?} }}\n{more}")
}

/// Asks, and holds the tag against all that it is: the answer's, the engine's, the record's and the metrics'.
async fn check(greylag: &Greylag, engine: &Engine, fields: &[&str], tag: &str) {
    let seen = greylag.chats_of(0).await.len();
    let mut client = Client::to(greylag.address()).await;
    let answer = client.chat(fields, BODY).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.all("x-greylag-engine"), [tag], "{fields:?}");
    let request = asked(engine).pop().expect("it was asked");
    assert_eq!(all(&request, "x-gray-tag"), [tag], "{fields:?}");
    assert_eq!(all(&request, "baggage"), [format!("gray.tag={tag}")]);
    let records = greylag.chats_of(seen + 1).await;
    assert_eq!(records[seen].tag.as_deref(), Some(tag));
    let series = format!(
        r#"model_request_total{{gray_tag="{tag}",http_method="POST",route="/v1/chat/completions"}}"#
    );
    greylag.metric_reaches(&series, 1.0).await;
}

#[tokio::test]
async fn equal_rules_on_both_sides_of_a_rollout_are_labelled_right() {
    let folder = Folder::new();
    let engine = sim().await;
    let rules = engines(&[("local", engine.address())]);
    let mut hashes = Vec::new();
    for tag in ["stable", "canary"] {
        let file = folder.join(tag);
        fs::write(&file, format!("{tag}\n")).expect("the folder can be written");
        let greylag = Greylag::with(&called(&file, ""), &rules.to_string());
        check(&greylag, &engine, &[], tag).await;
        // Who has routed it knows best, if it is believed.
        check(&greylag, &engine, &["x-gray-tag: v3"], "v3").await;
        check(&greylag, &engine, &["x-gray-tag: no tag"], tag).await;
        hashes.push(greylag.chats_of(1).await[0].rules_hash);
        let stranger = Greylag::with(&called(&file, "trusted: []"), &rules.to_string());
        check(&stranger, &engine, &["x-gray-tag: v3"], tag).await;
    }
    assert_eq!(hashes[0], hashes[1]);
}

/// Rules of a fleet: the stable pods split between their own engine and the candidate's pods, and all have them.
fn fleet(local: &Engine, candidates: std::net::SocketAddr) -> Value {
    let mut rules = engines(&[("stable", local.address()), ("candidate", candidates)]);
    rules["splits"] = json!([{
        "name": "rollout",
        "weights": { "stable": 1, "candidate": 0 },
        "force": { "header": "x-force" },
    }]);
    rules
}

#[tokio::test]
async fn what_another_greylag_has_routed_is_called_what_it_says() {
    let folder = Folder::new();
    let file = folder.join("tag");
    fs::write(&file, "candidate-7").expect("the folder can be written");
    let (stable, candidate, nobody) = (sim().await, sim().await, sim().await);
    // The candidate's pod has the same template: two engines, of which its own is the default one.
    let behind = Greylag::with(
        &called(&file, ""),
        &fleet(&candidate, nobody.address()).to_string(),
    );
    let before = Greylag::start(&fleet(&stable, behind.address()).to_string());
    let mut client = Client::to(before.address()).await;
    let answer = client.chat(&["x-force: candidate"], BODY).await;
    assert_eq!(answer.all("x-greylag-engine"), ["candidate"]);
    let record = &behind.chats_of(1).await[0];
    assert_eq!(
        (record.engine.as_deref(), record.tag.as_deref()),
        (Some("stable"), Some("candidate"))
    );
    let request = asked(&candidate).pop().expect("it was asked");
    assert_eq!(all(&request, "x-gray-tag"), ["candidate"]);
    // A hop without a tag is called by the pod's own; what is split here, by the engine's.
    check(&behind, &candidate, &["x-greylag-hop: 1"], "candidate-7").await;
    check(&behind, &candidate, &["x-gray-tag: v3"], "stable").await;
    assert!(asked(&nobody).is_empty());
}

#[tokio::test]
async fn a_file_that_changes_changes_the_tag_and_nonsense_does_not() {
    let folder = Folder::new();
    let file = folder.join("tag");
    let write = |text: &str| fs::write(&file, text).expect("the folder can be written");
    write("stable");
    let engine = sim().await;
    let rules = engines(&[("local", engine.address())]).to_string();
    let greylag = Greylag::with(&called(&file, ""), &rules);
    check(&greylag, &engine, &[], "stable").await;
    write("no tag at all");
    check(&greylag, &engine, &[], "stable").await;
    write("canary");
    let mut client = Client::to(greylag.address()).await;
    let changed = async {
        while client.get("/version").await.header("x-greylag-engine") != Some("canary") {}
    };
    within("the new tag", changed).await;
    check(&greylag, &engine, &[], "canary").await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_at_the_start_is_said_so() {
    let folder = Folder::new();
    let file = folder.join("tag");
    let engine = sim().await;
    let rules = engines(&[("local", engine.address())]).to_string();
    let fault = || {
        let started = Greylag::try_with(&called(&file, ""), &rules);
        started.err().map(|fault| fault.to_string())
    };
    let missing = fault().expect("it does not start");
    assert!(
        missing.starts_with("identity.tag_file: ") && missing.contains("No such file"),
        "{missing}"
    );
    fs::write(&file, "two words").expect("the folder can be written");
    let nonsense = fault().expect("it does not start");
    assert!(
        nonsense.contains("a tag is 1 to 64 visible ASCII characters"),
        "{nonsense}"
    );
}
