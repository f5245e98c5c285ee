//! `--wait`: until when it waits, and what is said of a change that was made and not seen.

use serde_json::{Value, json};

use super::fake::{Fake, answer};
use super::{Output, RULES, ctl};
use crate::commands::{File, with};

// One that makes every change as version 2, and says of itself that this version is in force.
fn changing(version: u64) -> Fake {
    Fake::by(move |head| {
        let json = match head.split(' ').collect::<Vec<_>>()[..] {
            ["GET", "/v1/status", ..] => {
                json!({ "rules": { "version": version, "hash": "cc" } }).to_string()
            }
            ["GET", "/v1/rules", ..] => RULES_JSON.to_owned(),
            [..] => json!({ "version": 2, "hash": "bb", "dry_run": false, "diff": {
                "changes": [{ "path": "rules.a", "before": 1, "after": 2 }] } })
            .to_string(),
        };
        answer(200, &json)
    })
}

const RULES_JSON: &str = "{\"engines\":{\"stable\":{\"kind\":\"vllm\",\"url\":\"http://127.0.0.1:9\"}},\"default_engine\":\"stable\"}";

fn force(fakes: &[&Fake], more: &[&str]) -> Output {
    let mut arguments = more.to_vec();
    arguments.extend(["force", "default", "on", "--wait", "300ms"]);
    let addresses: Vec<_> = fakes.iter().map(|fake| fake.address).collect();
    ctl(&addresses, &arguments)
}

#[test]
fn a_change_is_waited_for_until_its_version_or_a_later_one_is_in_force() {
    for version in [2, 3] {
        let (code, out, err) = force(&[&changing(version)], &[]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert!(out.starts_with("version 2 is in force, hash bb"), "{out}");
    }
}

#[test]
fn a_change_that_was_made_and_not_seen_is_told_with_how_it_is_undone() {
    let (late, seen) = (changing(1), changing(2));
    let (code, out, err) = force(&[&late], &[]);
    assert_eq!(code, Some(75), "{err}");
    let expected = "version 2 is in force, hash bb\n  rules.a: 1 -> 2\nundo, with the same options: ctl restore 1\n";
    assert_eq!(out, expected);
    let name = format!("http://{}", late.address);
    assert!(
        err.starts_with(&format!("{name} made the change, but ")),
        "{err}"
    );
    assert!(err.contains("version 1 is in force, hash cc"), "{err}");

    // Of several, all have made it.
    let (code, out, err) = force(&[&late, &seen], &[]);
    assert_eq!(code, Some(75), "{err}");
    assert_eq!(out.matches("undo, ").count(), 2, "{out}");
    assert!(!err.contains("done at"), "{err}");

    let (code, out, _) = force(&[&late], &["--json"]);
    assert_eq!(code, Some(75));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["version"], 2);
    let (_, out, _) = force(&[&late, &seen], &["--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&list[0]["ok"], &list[1]["ok"]),
        (&false.into(), &true.into())
    );
    assert_eq!(list[0]["answer"]["version"], 2);
    assert_eq!(list[0]["problem"]["type"], "urn:greylag:ctl:unseen");
}

#[test]
fn what_was_edited_and_put_in_force_is_not_kept_though_it_was_not_seen() {
    let late = changing(1);
    let editor = File::new("sed -i 's/127.0.0.1:9/127.0.0.1:8/' \"$1\"");
    let admin = format!("http://{}", late.address);
    let editor = format!("sh {}", editor.path());
    let (code, out, err) = with(
        &[
            "ctl", "rules", "edit", "--editor", &editor, "--wait", "300ms",
        ],
        &[("GREYLAG_CTL_ADMIN", &admin)],
    );
    assert_eq!(code, Some(75), "{err}");
    assert!(out.starts_with("version 2 is in force"), "{out}");
    assert!(
        !err.contains("is kept") && !err.contains("to send it"),
        "{err}"
    );
}

#[test]
fn lengths_of_time_are_read_as_the_api_reads_them() {
    let nobody = super::nobody();
    let check = |arguments: &[&str], allowed: &str| {
        let (code, _, err) = ctl(&[nobody], arguments);
        assert_eq!(code, Some(64), "{arguments:?}: {err}");
        assert!(err.contains(allowed), "{arguments:?}: {err}");
    };
    let unit = "a duration needs a unit, such as \"250ms\" or \"1m30s\"";
    for time in ["1", "1 s", "1month", "1min", ""] {
        check(&["wait", "--version", "1", "--timeout", time], unit);
        check(&["force", "a", "on", "--wait", time], unit);
        check(&["watch", "--every", time], unit);
    }
    check(&["watch", "--every", "99ms"], "allowed are 100ms to 1h");
    check(&["watch", "--every", "1h1s"], "allowed are 100ms to 1h");
    check(
        &["wait", "--version", "1", "--timeout", "366d"],
        "allowed are 0s to 365d",
    );
    let (code, ..) = ctl(&[nobody], &["watch", "--every", "59m60s", "--times", "1"]);
    assert_eq!(code, Some(69));
    let (code, _, err) = with(&["demo", "--for", "3s"], &[]);
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("allowed are 4s to 1h"), "{err}");
    let (code, _, err) = with(&["demo", "--for", "1min"], &[]);
    assert_eq!(code, Some(64));
    assert!(err.contains(unit), "{err}");
}

#[test]
fn what_cannot_be_asked_is_refused_before_anybody_is_asked() {
    let fake = Fake::answering(200, "{}");
    let long = "\u{e9}".repeat(11_000);
    for (arguments, code, part) in [
        (
            &["force", "a", "on", "--reason", &long][..],
            64,
            "allowed are 65534",
        ),
        (&["split", ""], 64, "a name is empty"),
        (&["lift", ""], 64, "a name is empty"),
        (&["exchanges", ""], 64, "a name is empty"),
        (&["split", "a", "b=1", "b=2"], 64, "\"b\" is written twice"),
    ] {
        let output = ctl(&[fake.address], arguments);
        assert_eq!(output.0, Some(code), "{output:?}");
        assert!(output.2.contains(part), "{output:?}");
    }
    let file = File::new(&format!("{RULES}#{}", "x".repeat(1 << 20)));
    let (code, _, err) = ctl(&[fake.address], &["rules", "put", file.path()]);
    assert_eq!(code, Some(65), "{err}");
    assert!(err.contains("found more than 1048576 bytes"), "{err}");
    assert_eq!(fake.asked(), [""; 0]);
    // A name of dots is a name.
    ctl(&[fake.address], &["split", ".."]);
    assert!(
        fake.asked()[0].starts_with("GET /v1/splits/%2E%2E HTTP"),
        "{:?}",
        fake.asked()
    );
}
