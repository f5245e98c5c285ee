//! The end of the process: what runs is finished, nothing new is begun, and nothing holds it up for ever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use greylag::app::App;
use greylag::record::Record;
use greylag::relay::Shared;
use greylag::telemetry::Levels;
use greylag_filters::outcome::Outcome;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::commands::{File, Running};
use crate::gate::{FIRST, Gated, REST};
use crate::hand::Hand;
use crate::harness::{Answer, Client, DEADLINE, Greylag, engines, eventually, within};

const STREAM: &str = r#"{"model":"tiny","messages":[],"stream":true}"#;

/// A Greylag that is being stopped in a thread of its own.
struct Stopping {
    address: SocketAddr,
    observe: SocketAddr,
    shared: Arc<Shared>,
    thread: JoinHandle<u64>,
}

fn stop(greylag: Greylag) -> Stopping {
    let app: App = greylag.into_app();
    Stopping {
        address: app.addresses[0],
        observe: app.observe,
        shared: app.shared.clone(),
        thread: std::thread::spawn(move || app.stop()),
    }
}

impl Stopping {
    /// Waits until it has stopped; returns how many connections were cut.
    async fn stopped(self) -> (u64, Vec<Arc<Record>>, String) {
        eventually("its end", || self.thread.is_finished().then_some(())).await;
        let cut = self.thread.join().expect("it does not panic");
        let snapshot = self.shared.store.current();
        let page = self.shared.telemetry.page(Levels::default(), &snapshot);
        (cut, self.shared.ring_records(), page)
    }

    async fn readyz(&self) -> u16 {
        Client::to(self.observe).await.get("/readyz").await.status
    }

    /// Waits until `/readyz` says that no new work is wanted.
    async fn not_ready(&self) {
        within("not ready", async {
            while self.readyz().await != 503 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Waits until connections are refused.
    async fn closed(&self) {
        within("a closed door", async {
            while TcpStream::connect(self.address).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
}

/// A client whose stream has begun.
async fn begun(address: SocketAddr) -> Client {
    let mut client = Client::to(address).await;
    let json = ["content-type: application/json"];
    client.ask("POST /v1/chat/completions", &json, STREAM).await;
    client.until("one").await;
    client
}

fn outcomes(records: &[Arc<Record>], outcome: Outcome) -> usize {
    records
        .iter()
        .filter(|record| record.outcome == outcome)
        .count()
}

#[tokio::test]
async fn with_nothing_to_do_it_ends() {
    let engine = Gated::start().await;
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    assert_eq!(greylag.stop(), 0);
}

#[tokio::test]
async fn streams_that_run_are_finished_and_nothing_new_is_begun() {
    const STREAMS: usize = 50;
    let engine = Gated::start().await;
    let greylag = Greylag::with(
        "limits: { drain_wait: 0s, drain: 20s }\nworkers: 2",
        &engines(&[("stable", engine.address())]).to_string(),
    );
    assert_eq!(
        Client::to(greylag.app().observe)
            .await
            .get("/readyz")
            .await
            .status,
        200
    );
    let mut clients = Vec::new();
    for _ in 0..STREAMS {
        clients.push(begun(greylag.address()).await);
    }
    let stopping = stop(greylag);
    stopping.not_ready().await;
    stopping.closed().await;
    assert_eq!(stopping.shared.telemetry.in_flight(), STREAMS as u64);
    assert!(!stopping.thread.is_finished());
    // Metrics and liveness answer to the last.
    let livez = Client::to(stopping.observe).await.get("/livez").await;
    assert_eq!(livez.status, 200);

    engine.open();
    for client in &mut clients {
        let answer = client.answer().await;
        assert!(answer.whole);
        assert_eq!(answer.text(), format!("{FIRST}{REST}"));
        assert!(client.ended().await, "the connection stayed");
    }
    let (cut, records, _) = stopping.stopped().await;
    assert_eq!((cut, records.len()), (0, STREAMS));
    assert_eq!(outcomes(&records, Outcome::Ok), STREAMS);
}

#[tokio::test]
async fn what_outlasts_the_drain_is_cut_and_counted() {
    const STREAMS: usize = 20;
    let engine = Gated::start().await;
    let greylag = Greylag::with(
        "limits: { drain_wait: 0s, drain: 300ms }",
        &engines(&[("stable", engine.address())]).to_string(),
    );
    let mut clients = Vec::new();
    for _ in 0..STREAMS {
        clients.push(begun(greylag.address()).await);
    }
    let stopping = stop(greylag);
    for client in &mut clients {
        let answer = client.answer().await;
        assert!(!answer.whole, "a cut stream looked whole");
        assert_eq!(answer.text(), FIRST);
    }
    let (cut, records, page) = stopping.stopped().await;
    assert_eq!((cut, records.len()), (STREAMS as u64, STREAMS));
    assert_eq!(outcomes(&records, Outcome::Drained), STREAMS);
    let series = page
        .lines()
        .find(|line| line.starts_with("greylag_outcomes_total") && line.contains("\"drained\""));
    let series = series.expect("drained exchanges are counted");
    assert!(series.ends_with(&format!(" {STREAMS}")), "{series}");
}

#[tokio::test]
async fn what_has_no_answer_yet_is_told_why() {
    let engine = greylag_sim::Engine::start(greylag_sim::Settings::default())
        .await
        .unwrap();
    let greylag = Greylag::with(
        "limits: { drain_wait: 0s, drain: 300ms }",
        &engines(&[("stable", engine.address())]).to_string(),
    );
    let mut waiting = Client::to(greylag.address()).await;
    let fields = ["content-type: application/json", "x-sim: wait=1h"];
    waiting
        .ask("POST /v1/chat/completions", &fields, STREAM)
        .await;
    let mut sending = Client::to(greylag.address()).await;
    sending
        .send(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\n{\"mo",
        )
        .await;
    let mut passing = Client::to(greylag.address()).await;
    passing
        .send("POST /elsewhere HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\nsome")
        .await;
    let asked = |seen: &greylag_sim::Seen| {
        let mut requests = seen.requests.iter();
        requests.any(|request| request.body.is_some() && request.method == "POST")
    };
    assert!(engine.wait_for(asked, DEADLINE).await);
    eventually("three exchanges", || {
        (greylag.app().shared.telemetry.in_flight() == 3).then_some(())
    })
    .await;
    let stopping = stop(greylag);
    for client in [&mut waiting, &mut sending, &mut passing] {
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.whole), (503, true));
        assert_eq!(answer.header("x-greylag-reason"), Some("drained"));
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.ended().await, "the connection stayed");
    }
    let (cut, records, _) = stopping.stopped().await;
    assert_eq!((cut, records.len()), (3, 3));
    assert_eq!(outcomes(&records, Outcome::Drained), 3);
    // What was asked of the engine is given up there too.
    assert!(engine.wait_for(|seen| seen.open == 0, DEADLINE).await);
}

#[tokio::test]
async fn idle_connections_do_not_hold_the_drain() {
    let engine = Gated::start().await;
    // An idle connection that held the drain would be cut, and counted, when its limit has passed.
    let greylag = Greylag::with(
        "limits: { drain_wait: 0s, drain: 10s }",
        &engines(&[("stable", engine.address())]).to_string(),
    );
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut client = Client::to(greylag.address()).await;
        let answer = client.get("/quick").await;
        assert_eq!(answer.header("connection"), Some("keep-alive"));
        idle.push(client);
    }
    let mut fresh = Client::to(greylag.address()).await;
    within("six connections", async {
        while greylag.metric("greylag_connections").await != Some(6.0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let stopping = stop(greylag);
    for client in &mut idle {
        assert!(client.ended().await);
    }
    assert!(fresh.ended().await);
    let (cut, records, _) = stopping.stopped().await;
    assert_eq!((cut, records.len()), (0, 5));
}

#[tokio::test]
async fn an_exchange_begun_while_it_ends_closes_its_connection() {
    let engine = Gated::start().await;
    let greylag = Greylag::with(
        "limits: { drain_wait: 2s, drain: 20s }",
        &engines(&[("stable", engine.address())]).to_string(),
    );
    let mut kept = Client::to(greylag.address()).await;
    kept.get("/quick").await;
    let mut running = begun(greylag.address()).await;

    let stopping = stop(greylag);
    stopping.not_ready().await;
    let mut new = Client::to(stopping.address).await;
    for client in [&mut kept, &mut new] {
        let answer = client.get("/quick").await;
        assert_eq!((answer.status, answer.text()), (200, "quick".into()));
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.ended().await);
    }
    let mut late = begun(stopping.address).await;
    stopping.closed().await;
    engine.open();
    let mut answers = JoinSet::new();
    answers.spawn(async move { running.answer().await });
    answers.spawn(async move { late.answer().await });
    let answers: Vec<Answer> = answers.join_all().await;
    assert!(answers.iter().all(|answer| answer.whole));
    let (cut, records, _) = stopping.stopped().await;
    assert_eq!((cut, records.len()), (0, 5));
    assert_eq!(outcomes(&records, Outcome::Ok), 5);
}

#[tokio::test]
async fn a_client_that_takes_nothing_does_not_hold_the_drain() {
    let engine = greylag_sim::Engine::start(greylag_sim::Settings::default())
        .await
        .unwrap();
    // Longer than anything here waits: only the drain's end can end the write.
    let greylag = Greylag::with(
        "limits: { drain_wait: 0s, drain: 300ms, write: 1h }",
        &engines(&[("stable", engine.address())]).to_string(),
    );
    let mut client = Client::to(greylag.address()).await;
    let fields = [
        "content-type: application/json",
        "x-sim: huge_event=33554432",
    ];
    client
        .ask("POST /v1/chat/completions", &fields, STREAM)
        .await;
    client.head().await;
    let (cut, records, _) = stop(greylag).stopped().await;
    assert_eq!((cut, records.len()), (1, 1));
    assert_eq!(records[0].outcome, Outcome::Drained);
    assert!(engine.wait_for(|seen| seen.open == 0, DEADLINE).await);
}

#[tokio::test]
async fn a_client_that_takes_no_heads_does_not_hold_it_either() {
    let mut hand = Hand::start().await;
    let greylag = Greylag::with(
        "limits: { drain_wait: 0s, drain: 300ms, write: 1h }",
        &engines(&[("stable", hand.address())]).to_string(),
    );
    let answering = tokio::spawn(async move {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nx: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "a".repeat(3000)
        );
        let mut engine = hand.accept().await;
        loop {
            engine.request().await;
            engine.send(&answer).await;
        }
    });
    // The answers are nothing but heads, and at some time no more of them can leave.
    let mut client = Client::to(greylag.address()).await;
    let asking = async {
        loop {
            let _ = client
                .socket
                .write_all(b"GET /small HTTP/1.1\r\nhost: test\r\n\r\n")
                .await;
        }
    };
    let telemetry = greylag.app().shared.telemetry.clone();
    let stuck = async {
        let (mut before, mut same) = (0, 0);
        while same < 50 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = telemetry.ring.newest(usize::MAX, |_| true).len();
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
    };
    tokio::select! {
        () = asking => {}
        () = within("no more answers", stuck) => {}
    }
    let (cut, records, _) = stop(greylag).stopped().await;
    assert_eq!((cut, outcomes(&records, Outcome::Drained)), (1, 1));
    assert_eq!(outcomes(&records, Outcome::Ok), records.len() - 1);
    answering.abort();
}

#[tokio::test]
async fn the_program_finishes_its_streams_and_ends_well() {
    let engine = Gated::start().await;
    let file = File::new(&format!(
        "listen: [{{ address: \"127.0.0.1:0\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\n\
         observe: {{ address: \"127.0.0.1:0\" }}\nlimits: {{ drain: 20s, drain_wait: 0s }}\nrules: {}\n",
        engines(&[("stable", engine.address())])
    ));
    let mut running = Running::start(&file);
    let address = running.address("clients connect here");
    let observe = running.address("metrics and health are here");
    let mut client = begun(address).await;
    running.signal("TERM");
    within("not ready", async {
        while Client::to(observe).await.get("/readyz").await.status != 503 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    engine.open();
    let answer = client.answer().await;
    assert_eq!(
        (answer.whole, answer.text()),
        (true, format!("{FIRST}{REST}"))
    );
    assert!(client.ended().await);
    let end = tokio::task::spawn_blocking(move || running.end());
    let (code, rest) = within("its end", end).await.expect("it does not panic");
    assert_eq!(code, Some(0), "{rest}");
}
