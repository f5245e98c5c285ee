//! What is followed: events and exchanges, also over the restart of a Greylag.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::fake::{Fake, answer};
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
    assert!(
        err.contains("after, or Last-Event-ID: found \"nonsense\""),
        "{err}"
    );
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

#[test]
fn what_is_followed_is_looked_for_again_when_it_was_refused_for_a_while() {
    let exchange = |id: &str| format!("{{\"exchanges\":[{{\"id\":\"{id}\",\"time\":\"t\"}}]}}");
    let event = |id: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nid: {id}\nevent: switch\ndata: {{}}\n\n"
        )
    };
    let exchanges = [answer(200, &exchange("one")), answer(200, &exchange("two"))];
    for (command, [first, last]) in [
        (&["exchanges", "--follow"][..], exchanges),
        (
            &["events", "--follow", "--after", "0"],
            [event("one"), event("two")],
        ),
    ] {
        let mut count = 0;
        let fake = Fake::by(move |_| {
            count += 1;
            match count {
                1 => first.clone(),
                2 => answer(429, "{}"),
                3 => answer(503, "{}"),
                _ => last.clone(),
            }
        });
        let mut following = Following::start(&format!("http://{}", fake.address), command);
        // Nothing of what was there is shown of exchanges, and everything of events.
        let line = match command[0] {
            "events" => {
                assert!(following.line().starts_with("one  switch"));
                following.line()
            }
            _ => following.line(),
        };
        assert!(line.contains("two"), "{command:?}: {line}");
        // Who was never there is not waited for.
        let never = Fake::answering(503, "{}");
        let (code, ..) = ctl(&[never.address], command);
        assert_eq!(code, Some(70), "{command:?}");
    }
}

#[test]
fn what_is_watched_is_a_line_of_json_and_of_several_with_its_name() {
    let (one, two) = (Greylag::start(RULES), Greylag::start(RULES));
    let (first, second) = (one.app().admin, two.app().admin);
    let look = ["--json", "watch", "--times", "1"];
    let read = |out: String| -> Vec<serde_json::Value> {
        let lines = out.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    };
    let alone = read(fine(ctl(&[first], &look)));
    assert_eq!(alone.len(), 1);
    assert_eq!(alone[0]["status"]["rules"]["version"], 1);
    assert_eq!(alone[0]["splits"][0]["name"], "default");
    let several = read(fine(ctl(&[first, second], &look)));
    assert_eq!(several.len(), 2);
    for (line, admin) in several.iter().zip([first, second]) {
        assert_eq!(line["admin"], format!("http://{admin}"));
        assert_eq!(line["told"]["status"]["rules"]["version"], 1);
    }
}
