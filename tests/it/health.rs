//! `greylag health`: what a container's health check is told.

use std::net::TcpListener;

use crate::commands::{File, Running, output, with};

const RULES: &str = "rules:\n  engines: { stable: { kind: vllm, url: \"http://127.0.0.1:9\" } }\n  default_engine: stable\n";

fn config(observe: &str) -> String {
    format!(
        "listen: [{{ address: \"127.0.0.1:0\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\nobserve: {{ address: \"{observe}\" }}\n\
         limits: {{ drain: 30s, drain_wait: 30s }}\n{RULES}"
    )
}

#[test]
fn a_greylag_that_serves_is_well_and_ready_until_it_drains() {
    let file = File::new(&config("127.0.0.1:0"));
    let mut running = Running::start(&file);
    let address = running.address("metrics and health are here").to_string();
    let address = ["--address", &address];
    let check = |more: &[&str], expected: (i32, &str, &str)| {
        let arguments = [&["health"], &address[..], more].concat();
        let (code, out, err) = output(&arguments);
        let err = err.replace(address[1], "HERE");
        assert_eq!(
            (code, &*out, &*err),
            (Some(expected.0), expected.1, expected.2)
        );
    };
    running.line("rules in force");
    check(&[], (0, "ok\n", ""));
    check(&["--ready"], (0, "ready\n", ""));
    running.signal("TERM");
    running.line("a second signal ends at once");
    let draining = "HERE answered /readyz with 503: found \"draining\", allowed is 200\n";
    // It is told before the pod is not ready.
    assert!(crate::talk::comes_true(|| {
        let arguments = [&["health"], &address[..], &["--ready"]].concat();
        output(&arguments).0 == Some(1)
    }));
    check(&["--ready"], (1, "", draining));
    check(&[], (0, "ok\n", ""));
    running.signal("TERM");
    running.end();
}

#[test]
fn it_is_asked_where_the_file_or_the_variable_says() {
    let serving = File::new(&config("127.0.0.1:0"));
    let mut running = Running::start(&serving);
    let address = running.address("metrics and health are here").to_string();
    let port = address.rsplit_once(':').unwrap().1;
    // An edit that cannot be used is no illness of what runs.
    let everywhere = File::new(&format!(
        "observe: {{ address: \"0.0.0.0:{port}\" }}\nworker: 1\n"
    ));
    let elsewhere = File::new("observe: { address: \"127.0.0.1:1\" }\n");
    let variable = [("GREYLAG_OBSERVE_ADDRESS", &*address)];
    for (arguments, variables) in [
        (&["--config", everywhere.path()][..], &[][..]),
        (&["--config", elsewhere.path()], &variable),
        (&[], &variable),
        // What is said on the command line counts before all.
        (
            &["--address", &address],
            &[("GREYLAG_OBSERVE_ADDRESS", "127.0.0.1:1")],
        ),
    ] {
        let arguments = [&["health"], arguments].concat();
        let (code, out, err) = with(&arguments, variables);
        assert_eq!(
            (code, &*out, &*err),
            (Some(0), "ok\n", ""),
            "{arguments:?} {variables:?}"
        );
    }
    let (code, _, err) = output(&["health", "--config", elsewhere.path()]);
    assert_eq!(code, Some(1));
    assert!(
        err.starts_with("http://127.0.0.1:1 cannot be reached: ") && err.lines().count() == 1,
        "{err}"
    );
    running.signal("TERM");
    running.signal("TERM");
    running.end();
}

#[test]
fn one_that_says_nothing_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (code, out, err) = output(&["health", "--address", &address]);
    assert_eq!((code, &*out), (Some(1), ""));
    assert_eq!(err, format!("{address} did not answer /livez within 2s\n"));
}

#[test]
fn what_cannot_be_asked_is_said_in_one_line() {
    let nowhere = "/nowhere/greylag.yaml";
    let (code, _, err) = output(&["health", "--config", nowhere]);
    assert_eq!(code, Some(1));
    assert!(
        err.starts_with(&format!("{nowhere}: No such file")) && err.lines().count() == 1,
        "{err}"
    );
    let here = [("GREYLAG_OBSERVE_ADDRESS", "here")];
    let (code, _, err) = with(&["health"], &here);
    assert_eq!(code, Some(1));
    assert!(
        err.starts_with("environment: GREYLAG_OBSERVE_ADDRESS: an address is IP:PORT"),
        "{err}"
    );
    for wrong in [
        &["health", "--address", "here"][..],
        &["health", "--address", "127.0.0.1:1", "--config", "a"],
        &["health", "127.0.0.1:1"],
    ] {
        assert_eq!(output(wrong).0, Some(64), "{wrong:?}");
    }
}
