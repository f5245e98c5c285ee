//! Many who write and many who read the rules, while exchanges run.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]
#![expect(
    clippy::print_stderr,
    reason = "who runs it for long wants to see how much was done"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use greylag_sim::Load;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Answer, Client, DEADLINE, Greylag, eventually, longer, sim};

const WRITERS: u32 = 10;
/// So many; `SOAK_READERS=1000` for the long run.
const READERS: u64 = 100;
const EXCHANGES: u64 = 5000;
const VERSIONS: usize = 10;
/// So long at least, in seconds; `SOAK_SECONDS=60` for the long run.
const USUAL: u64 = 1;

// Rules that say the same number at places far apart, so that half of a change would show.
fn rules(engines: [SocketAddr; 2], number: u64) -> Value {
    json!({
        "engines": {
            "stable": { "kind": "vllm", "url": format!("http://{}", engines[0]), "set": { "number": number } },
            "candidate": { "kind": "vllm", "url": format!("http://{}", engines[1]) },
        },
        "default_engine": "stable",
        "splits": [{
            "name": "s",
            "weights": { "stable": 1_000_000 - number, "candidate": number },
            "salt": number.to_string(),
        }],
        "trace": { "slow": format!("{}ms", number + 1) },
    })
}

// The number that all places agree on.
fn number(rules: &Value) -> u64 {
    let number = rules["engines"]["stable"]["set"]["number"]
        .as_u64()
        .unwrap();
    let weights = &rules["splits"][0]["weights"];
    assert_eq!(weights["candidate"], json!(number), "{rules}");
    assert_eq!(weights["stable"], json!(1_000_000 - number), "{rules}");
    assert_eq!(
        rules["splits"][0]["salt"],
        json!(number.to_string()),
        "{rules}"
    );
    number
}

async fn ask(client: &mut Client, method: &str, fields: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!(
        "{method} /v1/rules HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{fields}\r\n"
    );
    client.send(head + body).await;
    client.answer().await
}

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    // what was written with each version
    versions: Mutex<BTreeMap<u64, u64>>,
    conflicts: AtomicU64,
    reads: AtomicU64,
}

async fn write(seen: Arc<Seen>, admin: SocketAddr, engines: [SocketAddr; 2], own: u32) {
    let mut client = Client::to(admin).await;
    let mut count = 0;
    while !seen.stop.load(Ordering::Relaxed) {
        let read = ask(&mut client, "GET", "", "").await;
        let tag = read.header("etag").unwrap().to_owned();
        count += 1;
        let number = u64::from(own) + u64::from(WRITERS) * count;
        let fields = format!("content-type: application/json\r\nif-match: {tag}\r\n");
        let body = rules(engines, number).to_string();
        let answer = ask(&mut client, "PUT", &fields, &body).await;
        match answer.status {
            200 => {
                let version = answer.json()["version"].as_u64().unwrap();
                let before = seen.versions.lock().insert(version, number);
                assert_eq!(before, None, "version {version} came of two");
            }
            412 => {
                seen.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            other => panic!("{other}: {}", answer.text()),
        }
    }
}

async fn read(seen: Arc<Seen>, admin: SocketAddr) -> BTreeMap<u64, u64> {
    let mut client = Client::to(admin).await;
    let mut found = BTreeMap::new();
    let mut last = 0;
    while !seen.stop.load(Ordering::Relaxed) {
        let answer = ask(&mut client, "GET", "", "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let version = answer.header("x-greylag-rules-version").unwrap();
        let version: u64 = version.parse().unwrap();
        assert!(version >= last, "a version went back");
        last = version;
        let number = number(&answer.json());
        let before = found.insert(version, number);
        assert!(
            before.is_none_or(|before| before == number),
            "version {version} changed"
        );
        seen.reads.fetch_add(1, Ordering::Relaxed);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_put_is_one_version_and_readers_see_whole_ones() {
    let (stable, candidate) = (sim().await, sim().await);
    let engines = [stable.address(), candidate.address()];
    let greylag = Greylag::start(&rules(engines, 0).to_string());
    let admin = greylag.app().admin;
    let seen = Arc::new(Seen::default());
    let mut writers = JoinSet::new();
    for own in 1..=WRITERS {
        writers.spawn(write(seen.clone(), admin, engines, own));
    }
    let mut readers = JoinSet::new();
    let count = longer("SOAK_READERS", READERS);
    for _ in 0..count {
        readers.spawn(read(seen.clone(), admin));
    }
    let least = longer("SOAK_SECONDS", USUAL);
    let load = Load {
        connections: 32,
        requests: EXCHANGES,
        time: DEADLINE * 20,
        ..Load::to(greylag.address())
    };
    let enough = async {
        tokio::time::sleep(Duration::from_secs(least)).await;
        let versions = || (seen.versions.lock().len() >= VERSIONS).then_some(());
        eventually("versions", versions).await;
    };
    // Both: so many exchanges, and so many versions.
    let (counts, ()) = tokio::join!(load.start().done(), enough);
    seen.stop.store(true, Ordering::Relaxed);
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    assert_eq!(counts.ok, EXCHANGES, "{counts:?}");
    let versions = seen.versions.lock().clone();
    let last = greylag.app().shared.store.current().version;
    // Each accepted PUT is one version, and there is no other.
    assert!(
        versions.keys().copied().eq(2..=last),
        "{last}: {:?}",
        versions.keys()
    );
    assert!(
        seen.conflicts.load(Ordering::Relaxed) > 0,
        "nobody was in anybody's way"
    );
    let mut reads: u64 = 0;
    while let Some(found) = readers.join_next().await {
        for (version, number) in found.unwrap() {
            let written = if version == 1 {
                Some(&0)
            } else {
                versions.get(&version)
            };
            assert_eq!(written, Some(&number), "version {version}");
            reads += 1;
        }
    }
    assert!(reads >= count, "{reads}");
    eprintln!(
        "{} versions, {} conflicts, {} reads",
        versions.len(),
        seen.conflicts.load(Ordering::Relaxed),
        seen.reads.load(Ordering::Relaxed)
    );
}
