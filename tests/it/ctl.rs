//! `greylag ctl` against Greylags of the test's own, and against APIs that misbehave.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "ctl/editing.rs"]
mod editing;
#[path = "ctl/fake.rs"]
mod fake;
#[path = "ctl/following.rs"]
mod following;
#[path = "ctl/guarded.rs"]
mod guarded;
#[path = "ctl/reaching.rs"]
mod reaching;
#[path = "ctl/shapes.rs"]
mod shapes;
#[path = "ctl/waiting.rs"]
mod waiting;
#[path = "ctl/walk.rs"]
mod walk;

use std::net::{SocketAddr, TcpListener};

use serde_json::Value;

use crate::commands::{File, with};
use crate::harness::Greylag;
use fake::Fake;

/// Rules of a split between two engines that are not there.
pub const RULES: &str = "\
engines:
  stable: { kind: vllm, url: \"http://127.0.0.1:9\" }
  candidate: { kind: vllm, url: \"http://127.0.0.1:9\" }
default_engine: stable
splits: [{ name: default, weights: { stable: 90, candidate: 10 }, force: { header: x-choose } }]
";

/// What a command came to.
pub type Output = (Option<i32>, String, String);

/// Runs `ctl` for these addresses.
pub fn ctl(admins: &[SocketAddr], arguments: &[&str]) -> Output {
    let admins: Vec<String> = admins
        .iter()
        .map(|admin| format!("http://{admin}"))
        .collect();
    let mut all = vec!["ctl"];
    all.extend(arguments);
    with(&all, &[("GREYLAG_CTL_ADMIN", &admins.join(","))])
}

/// Holds a command to have ended well with nothing to complain of; what it printed.
pub fn fine((code, out, err): Output) -> String {
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    out
}

/// An address that refuses.
fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn one_of_three_that_is_down_takes_nothing_from_the_others() {
    let (one, two) = (Greylag::start(RULES), Greylag::start(RULES));
    let (first, down, last) = (one.app().admin, nobody(), two.app().admin);
    let admins = [first, down, last];

    let (code, out, err) = ctl(&admins, &["split"]);
    assert_eq!(code, Some(69), "{err}");
    for admin in [first, last] {
        assert!(out.contains(&format!("== http://{admin}\nSPLIT ")), "{out}");
    }
    assert_eq!(out.matches("== ").count(), 2, "{out}");
    let expected = format!("== http://{down}\nhttp://{down} cannot be reached: Connection refused");
    assert!(err.contains(&expected), "{err}");
    assert!(err.contains("kubectl port-forward"), "{err}");
    assert_eq!(err.matches("cannot be reached").count(), 1, "{err}");

    let change = ["split", "default", "stable=1", "candidate=1"];
    let (code, out, err) = ctl(&admins, &change);
    assert_eq!(code, Some(69), "{err}");
    assert_eq!(out.matches("version 2 is in force").count(), 2, "{out}");
    assert!(
        err.contains("done at 2 of 3; a change is made by each Greylag alone"),
        "{err}"
    );

    let (code, out, _) = ctl(&admins, &["--json", "status"]);
    assert_eq!(code, Some(69));
    let list: Value = serde_json::from_str(&out).unwrap();
    let ok: Vec<&Value> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["ok"])
        .collect();
    assert_eq!(ok, [true, false, true]);
    assert_eq!(list[0]["answer"]["rules"]["version"], 2);
    assert_eq!(list[1]["admin"], format!("http://{down}"));
    assert_eq!(list[1]["problem"]["type"], "urn:greylag:ctl:unanswered");
}

#[test]
fn each_way_to_fail_has_its_exit_code() {
    let greylag = Greylag::start(RULES);
    let admin = greylag.app().admin;
    let check = |output: Output, code: i32, part: &str| {
        assert_eq!(output.0, Some(code), "{output:?}");
        assert!(output.2.contains(part), "{output:?}");
    };
    for (arguments, part) in [
        (
            &["split", "default", "stable"][..],
            "allowed is ENGINE=WEIGHT",
        ),
        (
            &["split", "default", "--reason", "x"],
            "a split is moved by weights",
        ),
        (&["split", "--until", "5m"], "a split is moved by weights"),
        (
            &["--admin", "127.0.0.1:1", "status"],
            "allowed are http://HOST:PORT",
        ),
        (&["wait"], "--version"),
        (&["fly"], "unrecognized subcommand"),
        (
            &["split", "default", "stable=1", "--dry-run", "--wait", "1s"],
            "cannot be used with",
        ),
    ] {
        check(ctl(&[admin], arguments), 64, part);
    }
    check(
        ctl(&[admin, nobody()], &["rules", "edit"]),
        64,
        "works on one Greylag, found 2",
    );
    check(
        ctl(&[admin], &["split", "nope"]),
        65,
        "the rules have these splits: default",
    );
    check(
        ctl(&[admin], &["split", "default", "stable=1"]),
        65,
        "\"candidate\" is given no weight",
    );
    check(
        ctl(
            &[admin],
            &[
                "split",
                "default",
                "stable=1",
                "candidate=1",
                "--until",
                "soon",
            ],
        ),
        65,
        "until: found \"soon\"",
    );
    check(ctl(&[nobody()], &["status"]), 69, "is it running?");
    check(
        ctl(&[admin], &["lift", "weights:default", "--if-match", "0-1"]),
        75,
        "Other rules are in force by now (412)",
    );
    check(
        ctl(&[admin], &["wait", "--version", "9", "--timeout", "1ms"]),
        75,
        "was waited for in vain",
    );
    check(
        ctl(
            &[nobody()],
            &["wait", "--version", "9", "--timeout", "300ms"],
        ),
        69,
        "cannot be reached",
    );
    check(
        ctl(&[admin], &["rules", "put", "/nowhere/rules.yaml"]),
        71,
        "/nowhere/rules.yaml: No such file",
    );
    for (status, code, part) in [
        (401, 77, "--token-file names a file"),
        (403, 77, "(403)"),
        (429, 75, "(429)"),
        (503, 70, "(503)"),
    ] {
        let problem = format!("{{\"title\":\"No\",\"status\":{status},\"detail\":\"d\"}}");
        let fake = Fake::answering(status, &problem);
        check(ctl(&[fake.address], &["status"]), code, part);
    }
    let fake = Fake::answering(200, "<html>");
    check(
        ctl(&[fake.address], &["status"]),
        70,
        "the answer is not JSON",
    );
    let fake = Fake::saying("");
    let unsure = "broke off: ";
    check(ctl(&[fake.address], &["lift", "a"]), 69, unsure);
    let (_, _, err) = ctl(&[fake.address], &["lift", "a"]);
    assert!(err.contains("whether it was done is not known"), "{err}");
    let full = format!(
        "{} ctl completions bash >/dev/full",
        env!("CARGO_BIN_EXE_greylag")
    );
    let full = std::process::Command::new("/bin/sh")
        .args(["-c", &full])
        .status();
    assert_eq!(full.unwrap().code(), Some(74));
    let fake = Fake::saying("SSH-2.0-OpenSSH_9\r\n\r\n");
    check(ctl(&[fake.address], &["status"]), 70, "makes no sense");
}

#[test]
fn of_several_failures_the_one_that_hides_others_is_the_exit_code() {
    let denies = Fake::answering(403, "{}");
    let greylag = Greylag::start(RULES);
    let lift = ["lift", "nothing"];
    let (code, ..) = ctl(&[greylag.app().admin, denies.address], &lift);
    assert_eq!(code, Some(77));
    let (code, ..) = ctl(&[greylag.app().admin, denies.address, nobody()], &lift);
    assert_eq!(code, Some(69));
}

#[test]
fn what_would_be_is_told_and_nothing_is_changed() {
    let greylag = Greylag::start(RULES);
    let admin = [greylag.app().admin];
    let file = File::new(&RULES.replace("stable: 90", "stable: 80"));
    let out = fine(ctl(&admin, &["rules", "diff", file.path()]));
    assert!(
        out.starts_with("nothing was changed; it would be version 2, hash "),
        "{out}"
    );
    assert!(
        out.contains("rules.splits.default.weights.stable: 90 -> 80"),
        "{out}"
    );
    let moved = ["split", "default", "stable=1", "candidate=1", "--dry-run"];
    let out = fine(ctl(&admin, &moved));
    assert!(
        out.contains("it would be version 2") && !out.contains("undo"),
        "{out}"
    );
    assert!(fine(ctl(&admin, &["status"])).contains("version 1, "));
}

#[test]
fn rules_are_put_from_whatever_holds_them_and_read_as_check_reads_them() {
    let greylag = Greylag::start(RULES);
    let admin = [greylag.app().admin];
    let whole = |weight: u32| {
        let rules = RULES.replace("stable: 90", &format!("stable: {weight}"));
        let lines: String = rules.lines().map(|line| format!("  {line}\n")).collect();
        format!("workers: 2\nrules:\n{lines}")
    };
    let file = File::new(&whole(70));
    let out = fine(ctl(&admin, &["rules", "put", file.path(), "--wait", "10s"]));
    assert!(out.starts_with("version 2 is in force"), "{out}");
    assert!(out.contains("weights.stable: 90 -> 70"), "{out}");
    // What is printed can be put again, and is the same.
    for arguments in [&["rules", "get"][..], &["--json", "rules", "get"]] {
        let file = File::new(&fine(ctl(&admin, arguments)));
        let out = fine(ctl(&admin, &["rules", "diff", file.path()]));
        assert!(out.contains("what is in force does not differ"), "{out}");
    }

    let text = whole(70).replace("kind: vllm", "kind: vlm");
    let file = File::new(&text);
    let (code, out, err) = ctl(&admin, &["rules", "put", file.path()]);
    let (_, _, checked) = with(&["check", file.path()], &[]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (Some(65), "", checked.as_str())
    );
    let alone = File::new(&RULES.replace("kind: vllm", "kind: vlm"));
    let (_, _, err) = ctl(&admin, &["rules", "put", alone.path()]);
    assert!(
        err.starts_with(&format!(
            "{}:2:19: rules.engines.stable.kind: ",
            alone.path()
        )),
        "{err}"
    );
    let bad = File::new(&RULES.replace("default_engine: stable", "default_engine: other"));
    let (code, _, err) = ctl(&admin, &["rules", "put", bad.path()]);
    assert_eq!(code, Some(65));
    assert!(
        err.contains("  rules.default_engine: engine \"other\" is not defined"),
        "{err}"
    );
}

#[test]
fn what_others_wrote_cannot_speak_to_the_terminal() {
    let greylag = Greylag::start(RULES);
    let admin = [greylag.app().admin];
    let reason = "\x1b]0;owned\x07\x1b[2J\u{9b}31m\r\nversion 9\u{202e}";
    let moved = [
        "split",
        "default",
        "stable=1",
        "candidate=1",
        "--reason",
        reason,
    ];
    fine(ctl(&admin, &moved));
    let shown = "\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\u{9b}31m\\r\\nversion 9\\u{202e}";
    for arguments in [
        &["status"][..],
        &["overlays"],
        &["history"],
        &["history", "2"],
        &["events"],
        &["watch", "--times", "1"],
    ] {
        let out = fine(ctl(&admin, arguments));
        assert!(out.contains(shown), "{arguments:?}: {out}");
        assert!(
            !out.chars()
                .any(|letter| letter.is_control() && letter != '\n'),
            "{arguments:?}: {out:?}"
        );
    }
    // As JSON it is the same text.
    let out = fine(ctl(&admin, &["--json", "overlays"]));
    assert!(
        !out.chars()
            .any(|letter| letter.is_control() && letter != '\n'),
        "{out:?}"
    );
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["overlays"][0]["reason"], reason);
    // An error may hold it, too.
    let (_, _, err) = ctl(&admin, &["split", "\x1b[2J"]);
    assert!(!err.contains('\x1b'), "{err:?}");
}

#[test]
fn a_shell_learns_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let out = fine(with(&["ctl", "completions", shell], &[]));
        assert!(
            out.contains("split") && out.contains("greylag"),
            "{shell}: {out}"
        );
    }
}
