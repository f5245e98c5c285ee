use proptest::prelude::*;

use super::*;
use crate::rules::{Name, Ordered};
use crate::units::Moment;

const BASE: &str = r#"{
    "engines": {
        "stable": { "kind": "vllm", "url": "http://a" },
        "candidate": { "kind": "vllm", "url": "http://b" },
        "third": { "kind": "vllm", "url": "http://c", "headers": { "x-key": "s3cret" } }
    },
    "default_engine": "stable",
    "splits": [
        { "name": "chat", "match": { "paths": ["/v1/chat/completions"] }, "weights": { "third": 1, "stable": 1 } },
        { "name": "canary", "weights": { "stable": 90, "candidate": 10 }, "force": { "header": "x-gray" } }
    ]
}"#;

// Through a tree, as what is edited: it has maps in the order of their keys.
fn base() -> Rules {
    edited(|_| {})
}

fn edited(edit: impl FnOnce(&mut serde_json::Value)) -> Rules {
    let mut json = serde_json::from_str(BASE).unwrap();
    edit(&mut json);
    serde_json::from_value(json).unwrap()
}

fn overlay(change: &str) -> Overlay {
    Overlay {
        change: serde_json::from_str(change).unwrap(),
        owner: "ana".into(),
        reason: None,
        since: Moment::at(0),
        until: None,
    }
}

fn weights(stable: u32, candidate: u32) -> Overlay {
    overlay(&format!(
        r#"{{"weights":{{"split":"canary","weights":{{"stable":{stable},"candidate":{candidate}}}}}}}"#
    ))
}

fn force(split: &str, on: bool) -> Overlay {
    overlay(&format!(r#"{{"force":{{"split":"{split}","on":{on}}}}}"#))
}

// The rules in force, or what does not fit.
fn in_force(layers: &Layers) -> Result<Rules, Vec<String>> {
    let compiled = layers.compile().unwrap();
    match compiled.unfit.is_empty() {
        true => Ok(compiled.rules.written().clone()),
        false => Err(compiled
            .unfit
            .iter()
            .flat_map(|unfit| {
                let id = &unfit.id;
                unfit
                    .problems
                    .iter()
                    .map(move |what| format!("{id}: {what}"))
            })
            .collect()),
    }
}

#[test]
fn an_overlay_changes_what_it_names_and_nothing_else() {
    let layers = Layers::of(base()).with(weights(50, 50));
    let expected = edited(|rules| {
        rules["splits"][1]["weights"]["stable"] = 50.into();
        rules["splits"][1]["weights"]["candidate"] = 50.into();
    });
    assert_eq!(in_force(&layers), Ok(expected));
    assert_eq!(layers.base, base());
    let layers = layers.with(force("canary", false));
    let rules = in_force(&layers).unwrap();
    assert!(!rules.splits[1].force.as_ref().unwrap().on);
    // The order of the split stays, since `force` goes by it.
    let order: Vec<_> = rules.splits[1].weights.keys().map(Name::as_str).collect();
    assert_eq!(order, ["candidate", "stable"]);
}

#[test]
fn the_same_thing_changed_again_is_one_overlay() {
    let layers = Layers::of(base())
        .with(weights(50, 50))
        .with(force("canary", false))
        .with(weights(0, 1));
    let ids: Vec<_> = layers
        .overlays
        .iter()
        .map(|one| one.change.id().to_string())
        .collect();
    assert_eq!(ids, ["weights:canary", "force:canary"]);
    let rules = in_force(&layers).unwrap();
    assert_eq!(
        rules.splits[1].weights.at("stable").map(|one| one.get()),
        Some(0)
    );
    let id = OverlayId::read("weights:canary");
    assert!(layers.overlay(&id).is_some());
    let lifted = layers.without(|overlay| overlay.change.id() == id);
    assert_eq!(lifted.overlay(&id), None);
    assert_eq!(
        in_force(&lifted).unwrap().splits[1].weights,
        base().splits[1].weights
    );
}

#[test]
fn an_overlay_that_does_not_fit_is_left_out_and_told_of() {
    let check = |layers: Layers, expected: &str| {
        let unfit = in_force(&layers).unwrap_err();
        assert_eq!(unfit.len(), 1, "{unfit:?}");
        assert!(unfit[0].contains(expected), "{unfit:?}");
    };
    let on = |overlay| Layers::of(base()).with(overlay);
    check(
        on(weights(0, 0)),
        "weights:canary: rules.splits[1].weights: all weights are zero",
    );
    check(
        on(force("chat", true)),
        "force:chat: rules.splits[0].force: split \"chat\" names no header",
    );
    check(
        on(force("other", true)),
        "split \"other\" is not defined (defined: \"chat\", \"canary\")",
    );
    let one = r#"{"weights":{"split":"canary","weights":{"stable":1}}}"#;
    check(on(overlay(one)), "engine \"candidate\" is given no weight");
    let more = r#"{"weights":{"split":"chat","weights":{"third":1,"stable":1,"candidate":1}}}"#;
    check(
        on(overlay(more)),
        "rules.splits[0].weights.candidate: engine \"candidate\" is not one of the split's",
    );
    // The base has another engine in the split by now: the overlay would hide it.
    let grown = edited(|rules| rules["splits"][1]["weights"]["third"] = 5.into());
    check(
        Layers::of(grown).with(weights(50, 50)),
        "engine \"third\" is given no weight",
    );
}

#[test]
fn a_base_that_does_not_compile_is_an_error_whatever_lies_on_it() {
    let bad = edited(|rules| rules["default_engine"] = "nowhere".into());
    let problems = Layers::of(bad).with(weights(1, 1)).compile().unwrap_err();
    assert_eq!(problems[0].path, "rules.default_engine");
}

#[test]
fn an_overlay_is_kept_as_it_is_written() {
    let mut kept = weights(1, 2);
    kept.reason = Some("more \"traffic\"".into());
    kept.until = Some(Moment::at(86_400_000));
    let json = serde_json::to_string(&kept).unwrap();
    assert!(
        json.contains(r#""until":"1970-01-02T00:00:00.000Z""#),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<Overlay>(&json).unwrap(), kept);
    assert!(
        serde_json::from_str::<Overlay>(
            r#"{"change":{"other":{}},"owner":"a","since":"1970-01-01T00:00:00Z"}"#
        )
        .is_err()
    );
}

fn changed(after: &Rules) -> Vec<String> {
    let diff = Diff::of(&base(), after);
    let show =
        |value: &Option<serde_json::Value>| value.as_ref().map_or("-".into(), ToString::to_string);
    let changes = diff.changes.iter();
    let mut lines: Vec<String> = changes
        .map(|one| format!("{}: {} > {}", one.path, show(&one.before), show(&one.after)))
        .collect();
    lines.extend(diff.reordered.then(|| "reordered".to_owned()));
    assert_eq!(diff == Diff::default(), lines.is_empty());
    lines
}

#[test]
fn a_difference_is_told_at_its_place() {
    let check = |edit: &dyn Fn(&mut serde_json::Value), expected: &[&str]| {
        assert_eq!(changed(&edited(|rules| edit(rules))), expected);
    };
    check(&|_| {}, &[]);
    check(
        &|rules| rules["splits"][1]["weights"]["candidate"] = 20.into(),
        &["rules.splits.canary.weights.candidate: 10 > 20"],
    );
    check(
        &|rules| rules["splits"][1]["salt"] = "new".into(),
        &["rules.splits.canary.salt: - > \"new\""],
    );
    // What moves to another place in the list is not another thing.
    check(
        &|rules| {
            rules["splits"].as_array_mut().unwrap().swap(0, 1);
            rules["splits"][0]["match"] = serde_json::json!({ "paths": ["/v1/completions"] });
        },
        &[
            "rules.splits.canary.match: - > {\"paths\":[\"/v1/completions\"]}",
            "reordered",
        ],
    );
    check(
        &|rules| {
            rules["splits"].as_array_mut().unwrap().remove(0);
        },
        &[
            "rules.splits.chat: {\"match\":{\"paths\":[\"/v1/chat/completions\"]},\"name\":\"chat\",\"on_unhealthy\":\"fallback\",\"retry_on\":[\"connect\"],\"weights\":{\"stable\":1,\"third\":1}} > -",
        ],
    );
}

#[test]
fn an_order_that_changes_is_a_difference() {
    let mut after = base();
    let engines: Vec<_> = after
        .engines
        .iter()
        .map(|(name, rule)| (name.clone(), rule.clone()))
        .collect();
    after.engines = Ordered::new(engines.into_iter().rev().collect()).unwrap();
    assert_eq!(changed(&after), ["reordered"]);
}

#[test]
fn a_secret_that_changes_is_told_of_and_not_shown() {
    let after = edited(|rules| rules["engines"]["third"]["headers"]["x-key"] = "0ther".into());
    assert_eq!(
        changed(&after),
        ["rules.engines.third.headers.x-key: \"<hidden>\" > \"<hidden>\""]
    );
    let moved = edited(|rules| rules["engines"]["third"]["url"] = "http://d".into());
    assert!(!format!("{:?}", Diff::of(&base(), &moved)).contains("s3cret"));
}

#[test]
fn a_list_of_differences_is_bounded() {
    let after = edited(|rules| {
        for number in 0..300 {
            rules["engines"][format!("e{number}")] =
                serde_json::json!({ "kind": "vllm", "url": "http://e" });
        }
    });
    let diff = Diff::of(&base(), &after);
    assert_eq!((diff.changes.len(), diff.more), (200, 100));
}

proptest! {
    // Whatever overlays lie on whatever base of two: compiling ends, nothing but the fitting ones shows, and what is left
    // after the unfit ones are dropped compiles to the same rules.
    #[test]
    fn dropping_what_does_not_fit_changes_nothing(
        engines in proptest::collection::vec("stable|candidate|third", 1..4),
        numbers in proptest::collection::vec(0u32..3, 4),
        on in any::<bool>(),
        split in "chat|canary|other",
    ) {
        let base = edited(|rules| {
            let weights = engines.iter().map(|name| (name.clone(), serde_json::json!(1)));
            rules["splits"][1]["weights"] = serde_json::Value::Object(weights.collect());
        });
        let layers = Layers::of(base).with(weights(numbers[0], numbers[1])).with(force(&split, on));
        let compiled = layers.compile().unwrap();
        let left = layers.without(|one| compiled.unfit.iter().any(|unfit| unfit.id == one.change.id()));
        let again = left.compile().unwrap();
        prop_assert!(again.unfit.is_empty());
        prop_assert_eq!(again.rules.hash(), compiled.rules.hash());
        prop_assert_eq!(Diff::of(again.rules.written(), compiled.rules.written()), Diff::default());
    }

    // Whatever stands where in a written overlay.
    #[test]
    fn no_overlay_of_any_bytes_panics(
        place in 0usize..200,
        byte in any::<u8>(),
        split in "s|canary|\\PC{0,4}",
        weights in proptest::collection::btree_map("a|b|c", any::<u32>(), 0..3),
        on in any::<Option<bool>>(),
    ) {
        let change = match on {
            Some(on) => serde_json::json!({ "force": { "split": split, "on": on } }),
            None => serde_json::json!({ "weights": { "split": split, "weights": weights } }),
        };
        let overlay = serde_json::json!({ "change": change, "owner": "ana", "since": "2026-12-01T10:00:00Z" });
        let mut bytes = overlay.to_string().into_bytes();
        fuzz_overlay(&bytes);
        if let Some(there) = bytes.get_mut(place) {
            *there = byte;
        }
        fuzz_overlay(&bytes);
    }
}
