//! Metrics and health, for whoever asks, and what rollouts ask.

#[path = "observe/drain.rs"]
mod drain;

use crate::admin::{DEAD, get, problem};
use crate::harness::Greylag;
use crate::talk::{Talk, ask, comes_true};

#[test]
fn probes_are_answered_under_any_host() {
    let greylag = Greylag::start(DEAD);
    let observe = greylag.app().observe;
    let mut client = Talk::with(observe);
    client.send("GET /readyz HTTP/1.1\r\nhost: 10.1.2.3:9902\r\n\r\n");
    let ready = client.answer();
    assert_eq!((ready.status, ready.text().trim_end()), (200, "ready"));
    assert_eq!(get(observe, "/livez").status, 200);
    let page = get(observe, "/metrics");
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/plain; version=0.0.4"))
    );
    assert!(page.text().contains("greylag_build_info"));
    for target in ["/", "/v1/rules", "/metrics/", "/drain"] {
        assert_eq!(get(observe, target).status, 404, "{target}");
    }
    assert_eq!(ask(observe, "POST", "/metrics", &[], "").status, 405);
}

#[test]
fn a_gate_that_is_not_defined_has_never_passed() {
    let greylag = Greylag::start(DEAD);
    let observe = greylag.app().observe;
    for target in [
        "/verdict/v2",
        "/hooks/flagger/v2/confirm-traffic-increase",
        "/hooks/flagger/v2/rollback",
        "/hooks/argo/v2",
    ] {
        for method in ["GET", "POST", "PUT"] {
            let answer = ask(observe, method, target, &[], "{}");
            let detail = problem(&answer, 404, "not_found");
            assert!(detail.contains("gate \"v2\" is not defined"), "{detail}");
        }
    }
    for target in ["/verdict", "/hooks/flagger/v2", "/hooks/other/v2"] {
        assert_eq!(get(observe, target).status, 404, "{target}");
    }
}

#[test]
fn it_is_not_ready_from_the_moment_it_is_stopped() {
    let greylag = Greylag::with("limits: { drain: 1s, drain_wait: 1s }", DEAD);
    let observe = greylag.app().observe;
    let mut client = Talk::with(observe);
    assert_eq!(client.ask("GET", "/readyz", &[], "").status, 200);
    let stopping = std::thread::spawn(move || greylag.stop());
    let mut last = None;
    assert!(comes_true(|| {
        let answer = client.ask("GET", "/readyz", &[], "");
        last = Some((answer.status, answer.text().trim_end().to_owned()));
        answer.status == 503
    }));
    assert_eq!(last, Some((503, "draining".to_owned())));
    assert_eq!(client.ask("GET", "/livez", &[], "").status, 200);
    assert_eq!(stopping.join().unwrap(), 0);
}
