//! Who may use the admin API, and for what.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "guard/audit.rs"]
mod audit;
#[path = "guard/carried.rs"]
mod carried;
#[path = "guard/tokens.rs"]
pub mod tokens;

use crate::admin::{DEAD, JSON, get, problem};
use crate::harness::Greylag;
use crate::talk::{Talk, ask};

#[test]
fn whoever_is_not_here_is_turned_away() {
    let greylag = Greylag::start(DEAD);
    let port = greylag.app().admin.port();
    let asked = |fields: &str| {
        let mut client = Talk::with(greylag.app().admin);
        client.send(format!("GET /v1/rules HTTP/1.1\r\n{fields}\r\n\r\n"));
        client.answer()
    };
    for host in [
        format!("127.0.0.1:{port}"),
        "localhost:1234".to_owned(),
        "[::1]".to_owned(),
    ] {
        assert_eq!(asked(&format!("host: {host}")).status, 200, "{host}");
        let origin = format!("host: {host}\r\norigin: http://{host}");
        assert_eq!(asked(&origin).status, 200, "{origin}");
    }
    for host in [
        "evil.example",
        "evil.example:9901",
        "10.1.2.3",
        "localhost.evil.example",
    ] {
        let answer = asked(&format!("host: {host}"));
        assert!(problem(&answer, 403, "host_not_allowed").contains(host));
    }
    problem(&asked("accept: */*"), 403, "host_not_allowed");
    for origin in [
        "http://evil.example",
        "null",
        "https://localhost",
        "http://localhost:1",
    ] {
        let answer = asked(&format!("host: localhost\r\norigin: {origin}"));
        assert!(problem(&answer, 403, "origin_not_allowed").contains(origin));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for site in ["cross-site", "same-site"] {
        let answer = asked(&format!("host: localhost\r\nsec-fetch-site: {site}"));
        assert!(problem(&answer, 403, "origin_not_allowed").contains(site));
    }
    let own = asked("host: localhost\r\nsec-fetch-site: same-origin");
    assert_eq!(own.status, 200);
    // Nor does a page learn what is there, or change it.
    let mut client = Talk::with(greylag.app().admin);
    client.send(format!(
        "PUT /v1/nothing HTTP/1.1\r\nhost: evil.example\r\n{JSON}\r\ncontent-length: 2\r\n\r\n{{}}"
    ));
    problem(&client.answer(), 403, "host_not_allowed");
}

#[test]
fn what_a_form_can_send_changes_nothing() {
    let greylag = Greylag::start(DEAD);
    let admin = greylag.app().admin;
    for form in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let fields = [&*format!("content-type: {form}")];
        let body = r#"{"request_id":"x","metric":"m","value":true}"#;
        let answer = ask(admin, "POST", "/v1/feedback", &fields, body);
        problem(&answer, 415, "not_json");
        let rules = get(admin, "/v1/rules").text();
        let answer = ask(admin, "PUT", "/v1/rules", &fields, &rules);
        problem(&answer, 415, "not_json");
    }
    let version = get(admin, "/v1/rules");
    assert_eq!(version.header("x-greylag-rules-version"), Some("1"));
}

#[test]
fn names_that_are_allowed_may_be_called() {
    let keys = "admin: { address: \"127.0.0.1:0\", allowed_hosts: [\"Greylag.example:9901\"] }";
    let greylag = Greylag::with(keys, DEAD);
    let asked = |host: &str, origin: &str| {
        let mut client = Talk::with(greylag.app().admin);
        client.send(format!(
            "GET /v1/rules HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n\r\n"
        ));
        client.answer()
    };
    let own = asked("greylag.example", "http://greylag.example");
    assert_eq!(own.status, 200);
    let other = asked("greylag.example", "http://other.example");
    problem(&other, 403, "origin_not_allowed");
    let other = asked("other.example", "http://other.example");
    assert!(problem(&other, 403, "host_not_allowed").contains("other.example"));
}

#[test]
fn a_thousand_may_look_on_at_once() {
    let greylag = Greylag::start(DEAD);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut all = Vec::new();
        for _ in 0..1000 {
            all.push(crate::harness::Client::to(greylag.app().admin).await);
        }
        for client in all.iter_mut().rev() {
            client
                .send("GET /v1/engines HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .await;
            assert_eq!(client.answer().await.status, 200);
        }
    });
}

#[test]
fn what_is_not_there_is_a_problem_too() {
    let greylag = Greylag::start(DEAD);
    for target in [
        "/",
        "/v1",
        "/v1/rules/",
        "/v2/rules",
        "/v1/rules/x",
        "/metrics",
        "/%ff",
        "/v1/exchanges/%ff",
    ] {
        problem(&get(greylag.app().admin, target), 404, "not_found");
    }
    for (method, target, allowed) in [
        ("POST", "/v1/rules", "GET,HEAD,PUT"),
        ("DELETE", "/v1/rules", "GET,HEAD,PUT"),
        ("OPTIONS", "/v1/rules", "GET,HEAD,PUT"),
        ("PUT", "/v1/exchanges", "GET,HEAD"),
        ("PATCH", "/v1/exchanges/x", "GET,HEAD"),
        ("GET", "/v1/feedback", "POST"),
    ] {
        let answer = ask(greylag.app().admin, method, target, &[], "");
        problem(&answer, 405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {target}");
    }
}
