//! A disk that hangs while a change is written: nobody else waits for it, and the change is told of though its caller has left.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;

use crate::admin::{DEAD, get};
use crate::harness::Greylag;
use crate::layers::Pod;
use crate::talk::{Talk, ask, comes_true};

// Opening a pipe for writing waits for whoever reads it.
fn hang(pod: &Pod) {
    let next = pod.path().join("state.json.next");
    nix::unistd::mkfifo(&next, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

// Whoever waits goes on, and whoever comes later finds a place for a file. The pipe is to be held until they are done.
fn go_on(pod: &Pod) -> File {
    let next = pod.path().join("state.json.next");
    let mut options = File::options();
    // Without a wait for a writer.
    let reader = options
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(&next)
        .unwrap();
    std::fs::remove_file(&next).unwrap();
    reader
}

fn start(pod: &Pod) -> Greylag {
    let state = format!("state_file: {}\n", pod.state().display());
    Greylag::with(&state, DEAD)
}

const RESTORE: &str =
    "POST /v1/history/1/restore?reason=x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";

#[test]
fn nobody_waits_for_the_disk_of_another() {
    let pod = Pod::new();
    let greylag = start(&pod);
    let (admin, observe) = (greylag.app().admin, greylag.app().observe);
    hang(&pod);
    let mut writers: Vec<Talk> = (0..6).map(|_| Talk::with(admin)).collect();
    for writer in &mut writers {
        writer.send(RESTORE);
    }
    for _ in 0..3 {
        for target in ["/metrics", "/livez", "/readyz"] {
            assert_eq!(get(observe, target).status, 200, "{target}");
        }
        for target in [
            "/v1/status",
            "/v1/history",
            "/v1/rules",
            "/v1/overlays",
            "/openapi.json",
        ] {
            assert_eq!(get(admin, target).status, 200, "{target}");
        }
        assert_eq!(ask(admin, "POST", "/v1/reset", &[], "").status, 200);
    }
    assert_eq!(get(admin, "/v1/status").json()["rules"]["version"], 1);
    let _pipe = go_on(&pod);
    for mut writer in writers {
        assert_eq!(writer.answer().status, 200);
    }
    assert_eq!(get(admin, "/v1/status").json()["rules"]["version"], 7);
    // What the pipe has swallowed is written again.
    assert!(comes_true(
        || get(admin, "/v1/status").json()["state"]["saved"] == true
    ));
    drop(greylag);
}

#[test]
fn a_change_is_finished_and_counted_though_its_caller_leaves() {
    let pod = Pod::new();
    let greylag = start(&pod);
    let (admin, observe) = (greylag.app().admin, greylag.app().observe);
    hang(&pod);
    let mut writer = Talk::with(admin);
    writer.send(RESTORE);
    drop(writer);
    let _pipe = go_on(&pod);
    let line = "greylag_rules_reload_total{result=\"ok\"} 1";
    assert!(comes_true(|| get(observe, "/metrics")
        .text()
        .contains(line)));
    assert_eq!(
        get(admin, "/v1/history").json()["versions"][0]["reason"],
        "x"
    );
}

#[test]
fn a_disk_that_hangs_does_not_keep_the_process() {
    let pod = Pod::new();
    let greylag = start(&pod);
    hang(&pod);
    let mut writer = Talk::with(greylag.app().admin);
    writer.send(RESTORE);
    let status = get(greylag.app().admin, "/v1/status");
    assert_eq!(status.status, 200);
    // The harness's deadline would fail the test.
    let stopped = std::thread::spawn(move || greylag.stop());
    assert!(comes_true(|| stopped.is_finished()));
    let _pipe = go_on(&pod);
}
