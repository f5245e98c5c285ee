//! Rules that change under load: no exchange fails, and each is decided by one version of them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use greylag::record::Record;
use greylag::relay::Shared;
use greylag::snapshot::Snapshot;
use greylag::store::{Ask, Wish};
use greylag_filters::facts;
use greylag_filters::outcome::Outcome;
use greylag_filters::rules::{How, Request, Rules};
use greylag_sim::{Engine, Settings, Tokens};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use crate::harness::{Client, Greylag, engines};

const REQUESTS: usize = 20_000;
const CONNECTIONS: usize = 48;
const USERS: usize = 500;
const CHANGES: usize = 200;
/// The candidate's weights, of 100, in turn.
const WEIGHTS: [u32; 5] = [10, 20, 50, 100, 0];

const STREAM: &str = r#"{"model":"tiny","messages":[],"stream":true,"max_tokens":2}"#;
const PLAIN: &str = r#"{"model":"tiny","prompt":"hi","max_tokens":2}"#;

fn rules(stable: SocketAddr, candidate: SocketAddr, weight: u32) -> Rules {
    let mut rules = engines(&[("stable", stable), ("candidate", candidate)]);
    rules["splits"] = serde_json::json!([{
        "name": "users",
        "weights": { "stable": 100 - weight, "candidate": weight },
        "sticky": [{ "header": "x-user-id" }],
    }]);
    serde_json::from_value(rules).expect("the rules are well-formed")
}

/// What request `number` is: every second one is a user's, and of each kind every second one is a stream.
struct Asked {
    user: Option<String>,
    stream: bool,
}

impl Asked {
    fn of(number: usize) -> Asked {
        // The same in each run, and in no step with the changes of the rules.
        let mut chance = SmallRng::seed_from_u64(number as u64);
        let user = chance.random_range(0..USERS);
        Asked {
            user: number.is_multiple_of(2).then(|| format!("user-{user}")),
            stream: (number / 2).is_multiple_of(2),
        }
    }

    fn path(&self) -> &'static str {
        if self.stream {
            "/v1/chat/completions"
        } else {
            "/v1/completions"
        }
    }

    fn body(&self) -> &'static str {
        if self.stream { STREAM } else { PLAIN }
    }
}

/// The engines' addresses, the rules published so far, and what is still to be asked.
struct Load {
    address: SocketAddr,
    engines: [SocketAddr; 2],
    shared: Arc<Shared>,
    next: AtomicUsize,
    versions: Mutex<HashMap<u64, (Arc<Snapshot>, u32)>>,
}

impl Load {
    /// One connection's share of the requests; rules change between them, now by this connection and now by that one.
    async fn run(self: Arc<Self>) {
        let mut client = Client::to(self.address).await;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= REQUESTS {
                return;
            }
            if number % (REQUESTS / CHANGES) == REQUESTS / CHANGES / 2 {
                self.change(number / (REQUESTS / CHANGES));
            }
            let asked = Asked::of(number);
            let mut fields = vec![format!("x-request-id: {number}")];
            fields.extend(asked.user.as_ref().map(|user| format!("x-user-id: {user}")));
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let answer = client.post(asked.path(), &fields, asked.body()).await;
            assert!(answer.status == 200 && answer.whole, "{number}: {answer:?}");
            assert_eq!(answer.body.ends_with(b"data: [DONE]\n\n"), asked.stream);
            assert_eq!(answer.header("connection"), Some("keep-alive"));
        }
    }

    fn change(&self, number: usize) {
        let weight = WEIGHTS[number % WEIGHTS.len()];
        let [stable, candidate] = self.engines;
        // Held while publishing, so that versions come in the order of the map's entries.
        let mut versions = self.versions.lock();
        let rules = rules(stable, candidate, weight);
        let wish = Wish::Base(Box::new(rules));
        let done = self
            .shared
            .store
            .change(Ask::own(wish, self.shared.origin.today()));
        let snapshot = done
            .expect("without a condition there is no conflict")
            .snapshot;
        versions.insert(snapshot.version, (snapshot, weight));
    }
}

/// The engine that this version of the rules gives this request.
fn decided(snapshot: &Snapshot, seed: u64, record: &Record, asked: &Asked) -> (Arc<str>, How) {
    let mut headers = HeaderMap::new();
    if let Some(user) = &asked.user {
        let user = HeaderValue::from_str(user).expect("a user is text");
        headers.insert("x-user-id", user);
    }
    let body = facts::scan(asked.body().as_bytes(), &[]).expect("the body is JSON");
    let decision = snapshot.rules.decide(
        &Request {
            method: &Method::POST,
            path: asked.path(),
            route: record.route,
            headers: &headers,
            body: Some(&body),
            client: record.client,
            trusted: true,
        },
        |_| true,
        seed,
        record.id.as_bytes(),
    );
    let engine = &snapshot.rules.engines()[decision.engine.index()];
    (engine.name.clone(), decision.how)
}

/// Whether so many hits among `count` with this chance are within so many standard deviations of the middle.
fn near(hits: usize, count: usize, chance: f64, deviations: f64) -> bool {
    let middle = count as f64 * chance;
    let room = deviations * (count as f64 * chance * (1.0 - chance)).sqrt();
    (hits as f64 - middle).abs() <= room
}

async fn quick() -> Engine {
    let settings = Settings {
        tokens: Tokens::fixed(2),
        ..Settings::default()
    };
    Engine::start(settings).await.expect("a port is free")
}

/// Requests that the engine says it has answered.
async fn answered(engine: &Engine) -> usize {
    let page = Client::to(engine.address()).await.get("/metrics").await;
    let lines = page.text();
    let counts = lines
        .lines()
        .filter(|line| line.starts_with("vllm:request_success_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let sum: f64 = counts.sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of less than a million"
    )]
    let sum = sum as usize;
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_change_under_load_fail_nothing() {
    let (stable, candidate) = (quick().await, quick().await);
    let addresses = [stable.address(), candidate.address()];
    let first = rules(addresses[0], addresses[1], 10);
    let greylag = Greylag::with(
        "limits: { ring: 256MiB }\nworkers: 2",
        &serde_json::to_string(&first).expect("rules serialise"),
    );
    let shared = greylag.app().shared.clone();
    let load = Arc::new(Load {
        address: greylag.address(),
        engines: addresses,
        versions: Mutex::new(HashMap::from([(1, (shared.store.current(), 10))])),
        shared,
        next: AtomicUsize::new(0),
    });
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        connections.spawn(load.clone().run());
    }
    while let Some(connection) = connections.join_next().await {
        connection.expect("no connection fails");
    }
    let records = greylag.records_of(REQUESTS).await;
    assert_eq!(records.len(), REQUESTS);
    assert_eq!(load.versions.lock().len(), 1 + CHANGES);

    each_is_decided_by_one_version(&load, &records);
    let to = |name: &str| {
        records
            .iter()
            .filter(|r| r.engine.as_deref() == Some(name))
            .count()
    };
    assert_eq!(answered(&stable).await, to("stable"));
    assert_eq!(answered(&candidate).await, to("candidate"));
    shares_are_the_weights(&load, &records);
    users_stay_and_move_as_little_as_they_must(&load, &records);
}

fn each_is_decided_by_one_version(load: &Load, records: &[Arc<Record>]) {
    let versions = load.versions.lock();
    let seed = load.shared.origin.boot();
    let mut seen = vec![false; REQUESTS];
    for record in records {
        let number: usize = record.id.parse().expect("the ids are numbers");
        assert!(
            !std::mem::replace(&mut seen[number], true),
            "{number} twice"
        );
        let (snapshot, weight) = &versions[&record.rules_version];
        assert_eq!(record.rules_hash, snapshot.rules.hash());
        let asked = Asked::of(number);
        let (engine, how) = decided(snapshot, seed, record, &asked);
        assert_eq!(record.engine.as_deref(), Some(&*engine), "{number}");
        assert_eq!(record.how, Some(how));
        let is_sticky = asked.user.is_some();
        assert_eq!(how, if is_sticky { How::Sticky } else { How::Draw });
        assert_eq!(record.split.as_deref(), Some("users"));
        // With a weight of nothing there is no way to an engine.
        assert!(*weight > 0 || &*engine == "stable");
        assert!(*weight < 100 || &*engine == "candidate");
        assert_eq!(record.outcome, Outcome::Ok);
        assert_eq!((record.stream, record.attempts), (asked.stream, 1));
    }
}

fn shares_are_the_weights(load: &Load, records: &[Arc<Record>]) {
    let versions = load.versions.lock();
    for weight in WEIGHTS {
        let drawn: Vec<bool> = records
            .iter()
            .filter(|record| record.how == Some(How::Draw))
            .filter(|record| versions[&record.rules_version].1 == weight)
            .map(|record| record.engine.as_deref() == Some("candidate"))
            .collect();
        assert!(drawn.len() > 500, "{}", drawn.len());
        let hits = drawn.iter().filter(|hit| **hit).count();
        // Each process draws anew: at five deviations one run in a million would err by chance.
        let share = f64::from(weight) / 100.0;
        assert!(
            near(hits, drawn.len(), share, 5.0),
            "{hits} of {} at {weight}%",
            drawn.len()
        );
    }
}

fn users_stay_and_move_as_little_as_they_must(load: &Load, records: &[Arc<Record>]) {
    let versions = load.versions.lock();
    // (weight, user) -> whether the candidate has that user
    let mut homes: HashMap<(u32, String), bool> = HashMap::new();
    for record in records {
        let number: usize = record.id.parse().expect("the ids are numbers");
        let Some(user) = Asked::of(number).user else {
            continue;
        };
        let weight = versions[&record.rules_version].1;
        let there = record.engine.as_deref() == Some("candidate");
        let home = *homes.entry((weight, user)).or_insert(there);
        assert_eq!(home, there, "a user moved while the weights stayed");
    }
    let (mut moved, mut there, mut both) = (0, 0, 0);
    for user in (0..USERS).map(|user| format!("user-{user}")) {
        let at = |weight| homes.get(&(weight, user.clone())).copied();
        let (Some(before), Some(after)) = (at(10), at(20)) else {
            continue;
        };
        both += 1;
        there += usize::from(before);
        assert!(after || !before, "{user} left the engine that was raised");
        moved += usize::from(after && !before);
    }
    // Users' names are hashed with a salt of the rules' own, so these are the same numbers in each run.
    assert!(both > USERS * 3 / 4, "{both}");
    assert!(near(there, both, 0.1, 3.0), "{there} of {both}");
    assert!(near(moved, both, 0.1, 3.0), "{moved} of {both}");
}
