use greylag_filters::layers::{Change, Force, Weights};
use greylag_filters::rules::{Name, Ordered, Rules};
use greylag_filters::split::Weight;

use super::*;

mod state;

fn rules(candidate: u32) -> Rules {
    let text = format!(
        r#"{{"engines":{{"stable":{{"kind":"vllm","url":"http://127.0.0.1:1"}},
            "candidate":{{"kind":"vllm","url":"http://127.0.0.1:2"}}}},"default_engine":"stable",
            "splits":[{{"name":"s","weights":{{"stable":90,"candidate":{candidate}}},"force":{{"header":"x-gray"}}}}]}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn bad() -> Rules {
    let mut bad = rules(10);
    bad.default_engine = "nowhere".parse().unwrap();
    bad
}

fn ask(wish: Wish) -> Ask {
    Ask::own(wish, Moment::at(1000))
}

fn base(candidate: u32) -> Ask {
    ask(Wish::Base(Box::new(rules(candidate))))
}

fn weights(candidate: u32) -> Change {
    let name = |name: &str| name.parse::<Name>().unwrap();
    let weight = |weight: u32| serde_json::from_value::<Weight>(weight.into()).unwrap();
    let weights = vec![
        (name("stable"), weight(50)),
        (name("candidate"), weight(candidate)),
    ];
    Change::Weights(Weights {
        split: name("s"),
        weights: Ordered::new(weights).unwrap(),
    })
}

fn force(on: bool) -> Change {
    let split = "s".parse().unwrap();
    Change::Force(Force { split, on })
}

fn overlay(change: Change) -> Ask {
    ask(Wish::Overlay(change, None))
}

// The candidate's weight in force.
fn in_force(store: &Store) -> u32 {
    let snapshot = store.current();
    let split = &snapshot.rules.written().splits[0];
    split.weights.at("candidate").unwrap().get()
}

fn new() -> Store {
    Store::new(&rules(10), 7).unwrap()
}

#[test]
fn a_conflict_changes_nothing() {
    let store = new();
    assert_eq!(store.entity_tag(&store.current()), "\"7-1\"");
    let only_if = |tag: &str| Ask {
        expected: Some(EntityTags::parse(tag)),
        ..base(20)
    };
    let refused = store.change(only_if("\"7-0\""));
    assert!(matches!(refused, Err(Refused::Conflict { current }) if current == "\"7-1\""));
    assert_eq!(store.current().version, 1);
    let done = store.change(only_if("W/\"7-1\", \"7-1\"")).unwrap();
    assert_eq!((done.snapshot.version, in_force(&store)), (2, 20));
}

#[test]
fn a_bad_set_of_rules_changes_nothing() {
    let store = new();
    let refused = store.change(ask(Wish::Base(Box::new(bad()))));
    assert!(matches!(refused, Err(Refused::Problems(all)) if all.len() == 1));
    assert_eq!(store.current().version, 1);
}

#[test]
fn trying_out_changes_nothing() {
    let store = new();
    let tried = store.try_out(&base(20)).unwrap();
    assert_eq!((tried.snapshot.version, tried.diff.changes.len()), (2, 1));
    let tried = store.try_out(&overlay(force(false))).unwrap();
    assert!(
        !tried.snapshot.rules.written().splits[0]
            .force
            .as_ref()
            .unwrap()
            .on
    );
    assert_eq!((store.current().version, in_force(&store)), (1, 10));
    // Not the switch either, which the tried snapshot shares.
    assert!(store.current().force_is_on(0));
    assert_eq!(store.history().len(), 1);
}

#[test]
fn an_engine_that_stays_keeps_its_target() {
    let store = new();
    let before = store.current();
    let after = store.change(base(20)).unwrap().snapshot;
    let stable = before.rules.default_engine();
    assert!(Arc::ptr_eq(before.target(stable), after.target(stable)));
    assert_ne!(before.rules.hash(), after.rules.hash());
}

#[test]
fn a_switch_reaches_those_who_keep_the_rules_before() {
    let store = new();
    let before = store.current();
    assert!(before.force_is_on(0));
    store.change(overlay(force(false))).unwrap();
    assert!(!before.force_is_on(0) && !store.current().force_is_on(0));
    assert!(store.reset().is_empty() && !before.force_is_on(0));
    store.change(overlay(force(true))).unwrap();
    assert!(before.force_is_on(0));
    // What the rules no longer have goes off.
    let mut without = rules(10);
    without.splits[0].force = None;
    store.change(ask(Wish::Base(Box::new(without)))).unwrap();
    assert!(!before.force_is_on(0));
    let events = store.events().after(0).events;
    let turned: Vec<_> = events
        .iter()
        .filter(|event| event.kind == Kind::Switch)
        .map(|event| &*event.data)
        .collect();
    let off = r#"{"kind":"force","name":"s","on":false}"#;
    assert_eq!(
        turned,
        [off, r#"{"kind":"force","name":"s","on":true}"#, off]
    );
}

#[test]
fn an_overlay_stays_when_the_base_changes_and_goes_when_it_is_lifted() {
    let store = new();
    store.change(overlay(weights(50))).unwrap();
    assert_eq!(in_force(&store), 50);
    store.change(base(20)).unwrap();
    assert_eq!(in_force(&store), 50);
    let id = weights(0).id();
    let lifted = store.change(ask(Wish::Lift(id.clone()))).unwrap();
    assert_eq!((in_force(&store), lifted.snapshot.version), (20, 4));
    assert!(matches!(
        store.change(ask(Wish::Lift(id))),
        Err(Refused::NoOverlay)
    ));
}

#[test]
fn an_overlay_that_has_no_place_any_more_is_dropped_and_told_of() {
    let store = new();
    store.change(overlay(weights(50))).unwrap();
    store.change(overlay(force(false))).unwrap();
    let mut other = rules(20);
    other.splits[0].name = "other".parse().unwrap();
    let wish = || ask(Wish::Base(Box::new(other.clone())));
    assert_eq!(store.try_out(&wish()).unwrap().dropped.len(), 2);
    assert_eq!(store.current().layers.overlays.len(), 2);
    let done = store.change(wish()).unwrap();
    assert_eq!(done.dropped.len(), 2);
    assert!(store.current().layers.overlays.is_empty());
    // It does not come back with a base that has a place for it.
    store.change(base(30)).unwrap();
    assert_eq!(in_force(&store), 30);
}

#[test]
fn an_overlay_that_never_fits_is_refused() {
    let store = new();
    let split = "other".parse().unwrap();
    let nowhere = Change::Force(Force { split, on: false });
    let refused = store.change(overlay(nowhere));
    assert!(matches!(refused, Err(Refused::Problems(all)) if all[0].path == "rules.splits"));
    assert_eq!(store.current().version, 1);
}

#[test]
fn an_overlay_ends_when_its_time_has_come() {
    let store = new();
    let until = Some(Moment::at(5000));
    store
        .change(ask(Wish::Overlay(weights(50), until)))
        .unwrap();
    store.change(overlay(force(false))).unwrap();
    assert!(!store.has_ended(Moment::at(4999)) && store.has_ended(Moment::at(5000)));
    store
        .change(Ask::own(Wish::Expire, Moment::at(5000)))
        .unwrap();
    assert_eq!(
        (in_force(&store), store.current().layers.overlays.len()),
        (10, 1)
    );
    let entry = &store.history()[0];
    assert_eq!(
        (&*entry.author.name, &*entry.what),
        (OWN_NAME, "ended: weights:s")
    );
}

#[test]
fn a_version_is_restored_with_what_lay_on_it() {
    let store = new();
    let until = Some(Moment::at(500));
    store
        .change(ask(Wish::Overlay(force(false), until)))
        .unwrap();
    store.change(overlay(weights(50))).unwrap();
    store.change(base(20)).unwrap();
    store.change(ask(Wish::Lift(weights(0).id()))).unwrap();
    assert_eq!(
        (in_force(&store), store.current().source),
        (20, Source::Api)
    );
    let done = store.change(ask(Wish::Restore(3))).unwrap();
    // What should have ended by now is not among it, and the base is the file's again.
    assert_eq!((in_force(&store), done.snapshot.version), (50, 6));
    assert_eq!(done.snapshot.layers.overlays.len(), 1);
    assert_eq!(done.snapshot.source, Source::File);
    assert!(matches!(
        store.change(ask(Wish::Restore(99))),
        Err(Refused::NoVersion)
    ));
}

#[test]
fn the_history_has_the_last_hundred() {
    let store = new();
    for candidate in 0..120 {
        store.change(base(candidate)).unwrap();
    }
    let versions: Vec<u64> = store.history().iter().map(|entry| entry.version).collect();
    assert_eq!((versions.len(), versions[0], versions[99]), (100, 121, 22));
    assert!(store.version(21).is_none() && store.version(22).is_some());
}

#[test]
fn what_was_turned_off_beside_the_rules_stays_off_while_they_say_the_same() {
    let store = new();
    let before = store.current();
    // As a time-out or a check does.
    let switch = before
        .switches
        .switch(crate::switch::Kind::Force, "s")
        .unwrap();
    switch.turn(false);
    store.change(overlay(weights(50))).unwrap();
    assert!(!store.current().force_is_on(0));
    store.change(overlay(force(false))).unwrap();
    store.change(overlay(force(true))).unwrap();
    assert!(store.current().force_is_on(0) && before.force_is_on(0));
}

#[test]
fn nothing_that_has_ended_is_no_version() {
    let store = new();
    let nothing = store.change(Ask::own(Wish::Expire, Moment::at(5000)));
    assert!(matches!(nothing, Err(Refused::Nothing)));
    assert_eq!(store.current().version, 1);
}
