use std::sync::atomic::{AtomicBool, Ordering};

use greylag_filters::feedback;
use greylag_filters::success::Flaw;
use proptest::prelude::*;

use super::*;

fn record(id: u64, success: Option<Use>) -> Arc<Record> {
    Arc::new(Record {
        id: id.to_string().into(),
        success,
        ..Record::default()
    })
}

fn push(ring: &Ring, id: u64) {
    ring.push(record(id, Some(Use::Good)), "m".into());
}

fn say(ring: &Ring, id: u64, metric: &str, value: &str) -> Result<Taken, NotTaken> {
    let body = format!(r#"{{"request_id":"{id}","metric":"{metric}","value":{value}}}"#);
    ring.hear(feedback::read(body.as_bytes()).unwrap())
}

fn heavy() -> u64 {
    let entry = Entry {
        record: record(10, None),
        model: "m".into(),
        success: None,
        heard: None,
        hash: 0,
    };
    entry.weight()
}

// What is held is what is counted, and within the limit.
fn holds(ring: &Ring) {
    let inner = ring.inner.lock();
    let sum: u64 = inner.entries.iter().map(Entry::weight).sum();
    assert_eq!(inner.bytes, sum);
    assert!(sum <= ring.limit, "{sum} of {}", ring.limit);
}

fn ids(records: &[Arc<Record>]) -> Vec<&str> {
    records.iter().map(|record| &*record.id).collect()
}

#[test]
fn old_records_make_room_for_new_ones() {
    let ring = Ring::new(10 * heavy());
    for id in 0..100 {
        push(&ring, id);
        holds(&ring);
    }
    let newest = ring.newest(3, |record| !record.id.ends_with('8'));
    assert_eq!(ids(&newest), ["99", "97", "96"]);
    assert_eq!(ring.newest(usize::MAX, |_| true).len(), 10);
}

#[test]
fn a_ring_without_room_keeps_nothing() {
    let ring = Ring::new(0);
    push(&ring, 1);
    assert!(ring.newest(1, |_| true).is_empty());
    assert!(matches!(say(&ring, 1, "a", "true"), Err(NotTaken::Unknown)));
}

#[test]
fn the_newest_judged_exchange_of_an_id_is_meant() {
    let ring = Ring::new(1 << 20);
    ring.push(record(1, Some(Use::Good)), "old".into());
    ring.push(record(1, Some(Use::Open)), "new".into());
    ring.push(record(2, Some(Use::Good)), "other".into());
    ring.push(record(1, None), "page".into());
    let taken = say(&ring, 1, "a", "-1").unwrap();
    assert_eq!(&*taken.entry.model, "new");
    assert_eq!(taken.before, Use::Open);
    assert_eq!(taken.entry.success, Some(Use::Bad(Flaw::Feedback)));
    let again = say(&ring, 1, "a", "true").unwrap();
    assert_eq!(again.before, Use::Bad(Flaw::Feedback));
    assert_eq!(again.entry.success, Some(Use::Bad(Flaw::Feedback)));
    let heard: Vec<Option<usize>> = ring
        .entries(9, |_| true)
        .iter()
        .map(|entry| entry.heard.as_ref().map(|heard| heard.iter().count()))
        .collect();
    assert_eq!(heard, [None, None, Some(1), None]);
    // The record itself says what was known when it was made.
    let records = ring.newest(9, |record| &*record.id == "1");
    assert_eq!(records[1].success, Some(Use::Open));
}

#[test]
fn among_thousands_the_newest_of_an_id_is_found_wherever_it_stands() {
    const MANY: u64 = 3 * AT_A_LOOK + 7;
    let ring = Ring::new(1 << 30);
    // Each id twice; the second is meant.
    for id in (0..MANY).chain(0..MANY) {
        push(&ring, id);
    }
    let ends = [
        0,
        1,
        MANY - 1,
        MANY - AT_A_LOOK,
        MANY - AT_A_LOOK - 1,
        6,
        7,
        8,
    ];
    for id in ends {
        say(&ring, id, "a", "false").unwrap();
    }
    let heard = ring.entries(usize::MAX, |_| true);
    let heard = heard
        .iter()
        .zip(0..)
        .filter(|(entry, _)| entry.heard.is_some());
    let mut places: Vec<u64> = heard.map(|(_, place)| MANY - 1 - place).collect();
    places.reverse();
    let mut expected = ends;
    expected.sort_unstable();
    assert_eq!(places, expected);
    assert!(matches!(
        say(&ring, MANY, "a", "true"),
        Err(NotTaken::Unknown)
    ));
}

#[test]
fn a_metric_too_many_changes_nothing() {
    let ring = Ring::new(1 << 20);
    push(&ring, 1);
    for number in 0..Heard::MOST {
        say(&ring, 1, &format!("m{number}"), "true").unwrap();
    }
    let bytes = ring.inner.lock().bytes;
    match say(&ring, 1, "more", "false") {
        Err(NotTaken::Full(heard)) => assert_eq!(heard.iter().count(), Heard::MOST),
        other => panic!("{other:?}"),
    }
    assert_eq!(ring.entries(1, |_| true)[0].success, Some(Use::Good));
    assert_eq!(ring.inner.lock().bytes, bytes);
    holds(&ring);
}

#[test]
fn what_is_said_makes_the_oldest_leave() {
    let ring = Ring::new(3 * heavy());
    for id in 11..14 {
        push(&ring, id);
    }
    say(&ring, 13, "a", "true").unwrap();
    holds(&ring);
    assert_eq!(ids(&ring.newest(9, |_| true)), ["13", "12"]);
    // There is room for one that nothing is said of: the oldest leaves, be it the one that is meant.
    push(&ring, 14);
    assert_eq!(ids(&ring.newest(9, |_| true)), ["14", "13"]);
    let mut said = 0;
    while say(&ring, 13, &format!("{}{said}", "m".repeat(60)), "true").is_ok() {
        said += 1;
        holds(&ring);
    }
    assert!(said > 0);
    assert!(matches!(
        say(&ring, 11, "a", "true"),
        Err(NotTaken::Unknown)
    ));
}

#[test]
fn a_hundred_thousand_judgements_stay_within_the_limit() {
    let ring = Ring::new(200 * heavy());
    let (mut taken, mut unknown, mut full) = (0, 0, 0);
    for number in 0..100_000_u64 {
        if number % 16 == 0 {
            push(&ring, number);
        }
        // Of the last exchanges and of some that have left, under ever new names.
        let id = (number - number % 16).saturating_sub(16 * (number % 300));
        match say(&ring, id, &format!("m{}", number % 1009), "-1") {
            Ok(_) => taken += 1,
            Err(NotTaken::Unknown) => unknown += 1,
            Err(NotTaken::Full(_)) => full += 1,
        }
        if number % 1000 == 0 {
            holds(&ring);
        }
    }
    holds(&ring);
    assert!(
        taken > 0 && unknown > 0 && full > 0,
        "{taken} {unknown} {full}"
    );
    for entry in ring.entries(usize::MAX, |_| true) {
        let count = entry.heard.map_or(0, |heard| heard.iter().count());
        assert!(count <= Heard::MOST);
    }
}

#[test]
fn a_judgement_never_meets_an_exchange_that_leaves() {
    let ring = Ring::new(20 * heavy());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (ring, is_over) = (&ring, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let Some(newest) = ring.newest(1, |_| true).pop() else {
                        continue;
                    };
                    let id: u64 = newest.id.parse().unwrap();
                    for back in 0..30 {
                        let id = id.saturating_sub(back);
                        if let Ok(taken) = say(ring, id, &format!("t{thread}"), "false") {
                            assert_eq!(*taken.entry.record.id, id.to_string());
                        }
                    }
                }
            });
        }
        for id in 0..20_000 {
            push(&ring, id);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    holds(&ring);
}

proptest! {
    #[test]
    fn whatever_comes_the_ring_holds_what_it_counts(
        room in 0u64..12,
        steps in proptest::collection::vec((any::<bool>(), 0u64..20, 0u8..12), 0..200),
    ) {
        let ring = Ring::new(room * heavy());
        for (is_new, id, metric) in steps {
            if is_new {
                push(&ring, id);
            } else {
                let is_held = !ring.newest(1, |record| *record.id == id.to_string()).is_empty();
                let said = say(&ring, id, &format!("m{metric}"), "1");
                prop_assert_eq!(is_held, !matches!(said, Err(NotTaken::Unknown)));
            }
            holds(&ring);
        }
    }
}
