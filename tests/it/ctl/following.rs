//! What is followed: events and exchanges, also over the restart of a Greylag.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{RULES, ctl, fine};
use crate::admin::JSON;
use crate::harness::Greylag;
use crate::talk::{Talk, comes_true};

struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn start(admin: &str, arguments: &[&str]) -> Following {
        let mut child = Command::new(env!("CARGO_BIN_EXE_greylag"))
            .args(["ctl", "--admin", admin])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// On an address that no other test uses, so that its port is free once more after the first has ended.
fn greylag(admin: &str) -> Greylag {
    Greylag::with(&format!("admin: {{ address: \"{admin}\" }}"), RULES)
}

#[test]
fn events_go_on_after_a_restart() {
    let first = greylag("127.9.1.1:0");
    let address = first.app().admin;
    let admin = format!("http://{address}");
    let mut events = Following::start(&admin, &["events", "--follow", "--after", "0"]);
    fine(ctl(
        &[address],
        &[
            "split",
            "default",
            "stable=1",
            "candidate=1",
            "--reason",
            "first",
        ],
    ));
    let line = events.line();
    assert!(
        line.contains("  version  version 2 ") && line.ends_with("(first)\n"),
        "{line}"
    );
    first.stop();
    let second = greylag(&address.to_string());
    fine(ctl(
        &[second.app().admin],
        &["force", "default", "off", "--reason", "second"],
    ));
    let line = events.line();
    assert!(
        line.contains("  gap      it is another process than before"),
        "{line}"
    );
    let line = events.line();
    assert!(
        line.contains("  version  version 2 ") && line.ends_with("(second)\n"),
        "{line}"
    );
    assert!(
        events
            .line()
            .contains("  switch   kind=force name=default on=false")
    );
}

#[test]
fn events_are_lines_of_json_for_programs() {
    let greylag = Greylag::start(RULES);
    let admin = [greylag.app().admin];
    fine(ctl(&admin, &["force", "default", "off"]));
    let out = fine(ctl(&admin, &["--json", "events"]));
    let events: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&events[0]["event"], &events[0]["data"]["version"]),
        (&"version".into(), &2.into())
    );
    // What was seen is not told again.
    let id = events[0]["id"].as_str().unwrap();
    let out = fine(ctl(&admin, &["events", "--after", id]));
    assert_eq!(out.lines().count(), events.len() - 1, "{out}");
    let (code, _, err) = ctl(&admin, &["events", "--after", "nonsense"]);
    assert_eq!(code, Some(65), "{err}");
    assert!(err.contains("after: found \"nonsense\""), "{err}");
}

#[test]
fn exchanges_are_followed_and_listed() {
    let greylag = Greylag::start(RULES);
    let admin = greylag.app().admin;
    let ask = |id: &str| {
        let id = format!("x-request-id: {id}");
        Talk::with(greylag.address()).ask("POST", "/v1/chat/completions", &[JSON, &id], "{}");
    };
    ask("before");
    let mut exchanges = Following::start(&format!("http://{admin}"), &["exchanges", "--follow"]);
    // Some until it looks, of which it shows those after its first look alone.
    let mut count = 0;
    let line = std::thread::scope(|scope| {
        let line = scope.spawn(|| exchanges.line());
        assert!(comes_true(|| {
            count += 1;
            ask(&format!("after-{count}"));
            line.is_finished()
        }));
        line.join().unwrap()
    });
    assert!(line.contains("  after-") && line.contains("502"), "{line}");

    let out = fine(ctl(&[admin], &["exchanges", "--limit", "1"]));
    assert_eq!(out.lines().count(), 2, "{out}");
    let out = fine(ctl(&[admin], &["exchanges", "before"]));
    assert!(
        out.lines()
            .any(|line| line.starts_with("id ") && line.ends_with(" before")),
        "{out}"
    );
    assert!(
        out.lines().any(|line| line.starts_with("times.ended ")),
        "{out}"
    );
    let (code, _, err) = ctl(&[admin], &["exchanges", "--outcome", "fine"]);
    assert_eq!(code, Some(65));
    assert!(err.contains("outcome: found \"fine\""), "{err}");
}
