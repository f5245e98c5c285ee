//! A collector that is away, hangs or refuses has no effect on traffic: what it does not take is dropped and counted.

use std::net::TcpListener;

use crate::collector::{Collector, Manner};
use crate::harness::{Client, Greylag, engines, sim, within};

use super::{BODY, STREAM, stop};

const ALL: &str = r#"{ "share": "100%", "max_per_second": 10000 }"#;

fn lost(reason: &str) -> String {
    format!("greylag_spans_dropped_total{{reason=\"{reason}\"}}")
}

async fn greylag(keys: &str) -> (greylag_sim::Engine, Greylag) {
    let engine = sim().await;
    let mut rules = engines(&[("stable", engine.address())]);
    rules["trace"] = serde_json::from_str(ALL).expect("the rule above");
    let greylag = Greylag::with(keys, &rules.to_string());
    (engine, greylag)
}

// Requests are answered, whole, whatever becomes of their spans.
async fn ask(greylag: &Greylag, times: usize) {
    let mut client = Client::to(greylag.address()).await;
    for _ in 0..times {
        let answer = client.chat(&[], STREAM).await;
        assert_eq!((answer.status, answer.whole), (200, true));
        let answer = client.chat(&[], BODY).await;
        assert_eq!((answer.status, answer.whole), (200, true));
    }
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_spans_alone() {
    // A port that was free a moment ago.
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let nobody = nobody.expect("a free port");
    for protocol in ["grpc", "http"] {
        let keys = format!(
            "telemetry: {{ log: {{ format: off }}, otlp: {{ endpoint: \"http://{nobody}\", protocol: {protocol} }} }}"
        );
        let (_engine, greylag) = greylag(&keys).await;
        ask(&greylag, 3).await;
        greylag.metric_reaches(&lost("refused"), 6.0).await;
        ask(&greylag, 3).await;
        assert_eq!(
            greylag.metric("greylag_spans_exported_total").await,
            Some(0.0)
        );
    }
}

#[tokio::test]
async fn a_collector_that_refuses_costs_spans_alone_and_gets_them_once_it_does_not() {
    for protocol in ["grpc", "http"] {
        let collector = Collector::start(protocol, Manner::Refuses).await;
        let (_engine, greylag) = greylag(&collector.keys("")).await;
        ask(&greylag, 3).await;
        greylag.metric_reaches(&lost("refused"), 6.0).await;
        assert_eq!(collector.spans().len(), 0, "{protocol}");
        collector.turns(Manner::Takes);
        ask(&greylag, 1).await;
        greylag
            .metric_reaches("greylag_spans_exported_total", 2.0)
            .await;
        assert_eq!(collector.spans().len(), 2, "{protocol}");
        assert_eq!(greylag.metric(&lost("refused")).await, Some(6.0));
    }
}

#[tokio::test]
async fn a_collector_that_hangs_is_waited_for_as_long_as_the_timeout_says() {
    // One that has read what it was sent, and one that takes connections and nothing else.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("it is bound");
    for protocol in ["grpc", "http"] {
        let collector = Collector::start(protocol, Manner::Hangs).await;
        let silent = format!(
            "telemetry: {{ log: {{ format: off }}, otlp: {{ endpoint: \"http://{address}\", protocol: {protocol}, timeout: 100ms }} }}"
        );
        for keys in [collector.keys("timeout: 100ms"), silent] {
            let (_engine, greylag) = greylag(&keys).await;
            ask(&greylag, 3).await;
            greylag.metric_reaches(&lost("timeout"), 6.0).await;
        }
    }
}

#[tokio::test]
async fn a_slow_collector_gets_all_spans_and_nobody_waits_for_it() {
    for protocol in ["grpc", "http"] {
        let collector = Collector::start(protocol, Manner::IsSlow).await;
        let (_engine, greylag) = greylag(&collector.keys("")).await;
        ask(&greylag, 10).await;
        within("an end with the collector", stop(greylag)).await;
        assert_eq!(collector.spans().len(), 20, "{protocol}");
    }
}

#[tokio::test]
async fn what_finds_no_room_is_counted_while_the_collector_hangs_and_traffic_goes_on() {
    let collector = Collector::start("grpc", Manner::Hangs).await;
    let (_engine, greylag) = greylag(&collector.keys("queue: 4, timeout: 1h")).await;
    let full = lost("queue_full");
    let mut asked = 0_u32;
    within("a full queue", async {
        while greylag.metric(&full).await.unwrap_or_default() < 10.0 {
            ask(&greylag, 2).await;
            asked += 4;
        }
    })
    .await;
    let dropped = greylag.metric(&full).await.unwrap_or_default();
    assert!(dropped <= f64::from(asked), "{dropped} of {asked}");
    assert_eq!(greylag.records().len(), asked as usize);
    // All that was kept is accounted for: it was dropped, since nothing was ever taken.
    let shared = greylag.app().shared.clone();
    within("an end without the collector", stop(greylag)).await;
    let snapshot = shared.store.current();
    let page = shared
        .telemetry
        .page(greylag::telemetry::Levels::default(), &snapshot);
    let of = |reason: &str| {
        let name = format!("{} ", lost(reason));
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name.as_str()));
        line.and_then(|value| value.parse::<u32>().ok())
            .expect("a count")
    };
    assert_eq!(of("queue_full") + of("shutdown"), asked, "{page}");
    assert!(of("shutdown") >= 4, "{page}");
}

#[tokio::test]
async fn without_a_collector_no_span_is_kept() {
    let (_engine, greylag) = greylag("").await;
    ask(&greylag, 1).await;
    let records = greylag.records_of(2).await;
    assert!(records.iter().all(|record| record.kept.is_none()));
    assert!(
        records
            .iter()
            .all(|record| record.trace.is_some_and(|trace| trace.sampled()))
    );
}
