//! Who may use the admin API, and for what.

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
    // Nor does a page learn what is there, or change it.
    let mut client = Talk::with(greylag.app().admin);
    client.send(format!(
        "PUT /v1/nothing HTTP/1.1\r\nhost: evil.example\r\n{JSON}\r\ncontent-length: 2\r\n\r\n{{}}"
    ));
    problem(&client.answer(), 403, "host_not_allowed");
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
