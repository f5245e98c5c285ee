//! An engine that dies, and comes back, under steady traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use greylag_filters::outcome::Outcome;
use greylag_filters::rules::How;
use serde_json::json;
use tokio::sync::RwLock;
use tokio::task::JoinSet;

use super::{FORCE_A, Kept, OFTEN, PLAIN, SELDOM, fallbacks, health, rules};
use crate::hand::Hand;
use crate::harness::{Client, Greylag, eventually, sim};

const CLIENTS: usize = 8;

/// Clients that ask until they are told to stop; no request runs while `pause` is held for writing.
struct Traffic {
    pause: Arc<RwLock<()>>,
    stop: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    clients: JoinSet<()>,
}

impl Traffic {
    fn to(greylag: &Greylag) -> Traffic {
        let mut traffic = Traffic {
            pause: Arc::default(),
            stop: Arc::default(),
            served: Arc::default(),
            clients: JoinSet::new(),
        };
        for number in 0..CLIENTS {
            let address = greylag.address();
            let (pause, stop) = (traffic.pause.clone(), traffic.stop.clone());
            let served = traffic.served.clone();
            traffic.clients.spawn(async move {
                let mut client = Client::to(address).await;
                let user = format!("x-user-id: {number}");
                while !stop.load(Ordering::Relaxed) {
                    let running = pause.read().await;
                    let answer = client.chat(&[&user], PLAIN).await;
                    drop(running);
                    assert!(answer.status == 200 && answer.whole, "{answer:?}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        traffic
    }

    /// Waits until so many more have been served.
    async fn serves(&self, more: usize) {
        let enough = self.served.load(Ordering::Relaxed) + more;
        let served = || (self.served.load(Ordering::Relaxed) >= enough).then_some(());
        eventually("requests to be served", served).await;
    }

    async fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap();
        }
        self.served.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_dies_and_comes_back_fails_nobody() {
    let (a, b) = (Kept::any().engine().await, sim().await);
    let address = a.address();
    let keys = json!({ "sticky": [{ "header": "x-user-id" }] });
    let rules = rules(address, b.address(), OFTEN, keys);
    let greylag = Greylag::with("limits: { ring: 256MiB }", &rules.to_string());
    let traffic = Traffic::to(&greylag);
    traffic.serves(100).await;

    // It dies between two requests of each client: one that it had begun could not be given to another engine.
    let paused = traffic.pause.write().await;
    a.stop().await;
    let kept = Kept::at(address);
    drop(paused);
    traffic.serves(100).await;
    greylag.metric_until(&health("a"), |up| up == 0.0).await;
    traffic.serves(100).await;
    let a = kept.engine().await;
    greylag.metric_until(&health("a"), |up| up == 1.0).await;
    traffic.serves(100).await;
    let served = traffic.end().await;

    let records = greylag.records_of(served).await;
    assert_eq!(records.len(), served);
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok, "{record:?}");
        let by_fallback = record.how == Some(How::Fallback);
        // What fell back was the dead engine's, and went to the other one.
        assert!(!by_fallback || record.engine.as_deref() == Some("b"));
        assert!(by_fallback || record.attempts == 1, "{record:?}");
    }
    let of_a = |how: How| {
        records
            .iter()
            .filter(|record| record.how == Some(how))
            .count()
    };
    assert!(of_a(How::Fallback) > 0 && of_a(How::Sticky) > 0);
    // The dead one's users are back with it.
    let last = records.iter().rev().take(50);
    assert!(last.clone().all(|record| record.how == Some(How::Sticky)));
    assert!(
        last.clone()
            .any(|record| record.engine.as_deref() == Some("a"))
    );
    let fell_back = greylag.metric(&fallbacks("connect")).await.unwrap_or(0.0)
        + greylag.metric(&fallbacks("down")).await.unwrap_or(0.0);
    assert!(fell_back > 0.0);
    assert_eq!(
        greylag.metric("greylag_failover_seconds_count").await,
        Some(1.0)
    );
    a.stop().await;
}

#[tokio::test]
async fn only_what_was_under_way_on_a_dying_engine_is_lost() {
    let (mut a, b) = (Hand::start().await, sim().await);
    let rules = rules(a.address(), b.address(), SELDOM, json!({}));
    let greylag = Greylag::start(&rules.to_string());
    let mut lost = Client::to(greylag.address()).await;
    lost.ask("POST /v1/chat/completions", &[FORCE_A], PLAIN)
        .await;
    let (engine, _) = a.request().await;
    let address = a.address();
    drop(a);
    drop(engine);
    // Whether the engine had begun with it nobody can tell, so it does not run twice.
    let answer = lost.answer().await;
    assert_eq!(answer.header("x-greylag-reason"), Some("engine_closed"));
    assert!(crate::harness::asked(&b).is_empty());
    // The engine's listener closes with its task.
    let closed = async { while tokio::net::TcpStream::connect(address).await.is_ok() {} };
    crate::harness::within("the listener's end", closed).await;
    for _ in 0..5 {
        let answer = lost.chat(&[FORCE_A], PLAIN).await;
        assert_eq!(
            (answer.status, answer.header("x-greylag-engine")),
            (200, Some("b"))
        );
    }
    let records = greylag.records_of(6).await;
    assert_eq!(records[0].outcome, Outcome::EngineReset);
    assert!(
        records[1..]
            .iter()
            .all(|record| record.outcome == Outcome::Ok)
    );
}
