//! A process whose standard error nobody reads, or cannot be written: it serves, changes and ends as ever.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::admin::{JSON, get, put};
use crate::commands::File;
use crate::layers::Pod;
use crate::talk::{ask, comes_true};

const DEAD: &str = "rules:\n  engines: { stable: { kind: vllm, url: \"http://127.0.0.1:9\" } }\n  default_engine: stable\n";

struct Unheard {
    child: Child,
    lines: Option<BufReader<std::process::ChildStderr>>,
    client: SocketAddr,
    admin: SocketAddr,
}

impl Unheard {
    // Its first lines say where it is.
    fn start() -> Unheard {
        let file = File::new(&format!(
            "listen: [{{ address: \"127.0.0.1:0\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\nobserve: {{ address: \"127.0.0.1:0\" }}\n\
             telemetry: {{ log: {{ format: off }} }}\nlimits: {{ drain_wait: 0s, drain: 5s }}\n{DEAD}"
        ));
        let mut child = Command::new(env!("CARGO_BIN_EXE_greylag"))
            .args(["run", "--config", file.path()])
            .env("NO_COLOR", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut address = |part: &str| {
            let mut line = String::new();
            while !line.contains(part) {
                line.clear();
                assert!(
                    lines.read_line(&mut line).unwrap() > 0,
                    "{part} was not said"
                );
            }
            let (_, address) = line.rsplit_once("address=").unwrap();
            address.trim().parse().unwrap()
        };
        let (client, admin) = (
            address("clients connect here"),
            address("the admin API is here"),
        );
        Unheard {
            child,
            lines: Some(lines),
            client,
            admin,
        }
    }

    // So much that a pipe of 64 KiB is full several times, and an engine goes down on the way.
    fn says_a_lot(&self) {
        let rules = get(self.admin, "/v1/rules").text();
        for number in 0..600 {
            let reason = "r".repeat(400);
            let answer = put(
                self.admin,
                &format!("/v1/rules?reason={reason}"),
                &[JSON],
                &rules,
            );
            assert_eq!(answer.json()["version"], number + 2);
        }
        for _ in 0..5 {
            let answer = ask(self.client, "POST", "/v1/chat/completions", &[JSON], "{}");
            assert_eq!(answer.status, 502, "{}", answer.text());
        }
        let events = get(self.admin, "/v1/events?follow=false&after=0").text();
        assert_eq!(events.matches("event: version").count(), 600);
    }

    fn ends_well(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        let mut code = None;
        assert!(comes_true(|| {
            code = self.child.try_wait().unwrap();
            code.is_some()
        }));
        assert_eq!(code.unwrap().code(), Some(0));
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_nobody() {
    let greylag = Unheard::start();
    greylag.says_a_lot();
    greylag.ends_well();
}

#[test]
fn a_log_whose_reader_is_gone_breaks_nothing() {
    let mut greylag = Unheard::start();
    greylag.lines = None;
    greylag.says_a_lot();
    greylag.ends_well();
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_waited_for_by_nobody() {
    let pod = Pod::new();
    let pipe = pod.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let greylag = Unheard::start();
    let rules = |key: &str| {
        format!(
            "{{\"engines\":{{\"stable\":{{\"kind\":\"vllm\",\"url\":\"https://127.0.0.1:9\",{key}}}}},\"default_engine\":\"stable\"}}"
        )
    };
    let pipe = pipe.display();
    let authorities = rules(&format!("\"tls\":{{\"ca\":\"{pipe}\"}}"));
    for target in ["/v1/rules", "/v1/rules?dry_run=true"] {
        let answer = put(greylag.admin, target, &[JSON], &authorities);
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.text().contains("plain file"), "{}", answer.text());
    }
    let key = rules(&format!("\"api_key_file\":\"{pipe}\""));
    assert_eq!(put(greylag.admin, "/v1/rules", &[JSON], &key).status, 200);
    for _ in 0..3 {
        let answer = ask(
            greylag.client,
            "POST",
            "/v1/chat/completions",
            &[JSON],
            "{}",
        );
        assert!(answer.status >= 500, "{}", answer.text());
    }
    assert_eq!(get(greylag.admin, "/v1/status").status, 200);
    greylag.ends_well();
}
