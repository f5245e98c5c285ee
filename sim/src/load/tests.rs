//! The load against an engine that misbehaves.

use super::*;
use crate::{Engine, Settings, refusing_address};

const DEADLINE: Duration = Duration::from_secs(20);

async fn against(misbehave: &[&str], load: impl FnOnce(Load) -> Load) -> (Counts, Engine) {
    let misbehave = misbehave.iter().map(|text| text.parse().unwrap()).collect();
    let engine = Engine::start(Settings {
        misbehave,
        ..Settings::default()
    })
    .await
    .unwrap();
    let counts = load(Load::to(engine.address())).start().done().await;
    assert_eq!(counts.sent, counts.ended());
    (counts, engine)
}

#[tokio::test]
async fn honest_answers_are_counted_with_their_events_and_connections_kept() {
    let (counts, engine) = against(&[], |load| Load {
        connections: 4,
        ..load
    })
    .await;
    // The role and 16 tokens.
    assert_eq!((counts.ok, counts.events, counts.retried), (100, 1_700, 0));
    let seen = engine.seen();
    assert_eq!((seen.count, seen.connections), (100, 4));
    let users: std::collections::BTreeSet<_> = seen
        .requests
        .iter()
        .filter_map(|request| request.header("x-user-id").map(str::to_owned))
        .collect();
    assert_eq!(users.len(), 10);
}

#[tokio::test]
async fn every_way_to_fail_has_its_count() {
    let counts = |counts: &Counts| {
        (
            counts.ok,
            counts.refused.clone(),
            counts.errors,
            counts.truncated,
            counts.unanswered,
        )
    };
    let refused = |status| BTreeMap::from([(status, 10)]);
    for (what, expected) in [
        ("1/2:status=503", (10, refused(503), 0, 0, 0)),
        ("1/2:error=3", (10, BTreeMap::new(), 10, 0, 0)),
        ("1/2:cut=3", (10, BTreeMap::new(), 0, 10, 0)),
        ("1/2:cut=3;how=rst", (10, BTreeMap::new(), 0, 10, 0)),
        ("1/2:no_done", (10, BTreeMap::new(), 0, 10, 0)),
        ("100%:reset", (0, BTreeMap::new(), 0, 0, 20)),
        ("100%:garbage", (0, BTreeMap::new(), 0, 0, 20)),
        ("1/2:1xx=103", (20, BTreeMap::new(), 0, 0, 0)),
    ] {
        let (found, _) = against(&[what], |load| Load {
            requests: 20,
            ..load
        })
        .await;
        assert_eq!(counts(&found), expected, "{what}");
    }
}

#[tokio::test]
async fn a_connection_closed_in_between_is_no_failure() {
    let (counts, _) = against(&["1/2:close_after"], |load| load).await;
    assert_eq!((counts.ok, counts.retried > 0), (100, true));
}

#[tokio::test]
async fn nobody_there_is_counted() {
    let refusing = refusing_address().await.unwrap();
    let counts = Load {
        requests: 5,
        ..Load::to(refusing.address())
    }
    .start()
    .done()
    .await;
    assert_eq!((counts.sent, counts.unanswered), (5, 5));
}

#[tokio::test]
async fn a_load_ends_with_its_time_and_stops_when_told() {
    let (counts, _) = against(&["100%:hang"], |load| Load {
        time: Duration::from_millis(50),
        ..load
    })
    .await;
    assert_eq!((counts.sent, counts.unanswered), (1, 1));

    let engine = Engine::start(Settings::default()).await.unwrap();
    let loading = Load {
        requests: u64::MAX,
        time: Duration::from_secs(3_600),
        ..Load::to(engine.address())
    }
    .start();
    assert!(loading.wait_for(|counts| counts.ok >= 3, DEADLINE).await);
    loading.stop().await;
    assert!(engine.wait_for(|seen| seen.open == 0, DEADLINE).await);
}

#[tokio::test]
async fn a_rate_spaces_requests() {
    let start = std::time::Instant::now();
    let (counts, _) = against(&[], |load| Load {
        requests: 11,
        rate: Some(100.0),
        connections: 2,
        ..load
    })
    .await;
    assert_eq!(counts.ok, 11);
    // The last is due 100 ms after the first; late is possible, early is not.
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[test]
fn equal_seeds_send_equal_requests() {
    let load = Load::to(([127, 0, 0, 1], 1).into());
    assert_eq!(load.request(7), load.clone().request(7));
    assert_ne!(load.request(7), load.request(8));
}
