use super::*;

fn site(literals: Literals, is_tls: bool) -> Site {
    Site {
        literals,
        names: vec!["greylag.example".to_owned()],
        is_tls,
    }
}

fn same(found: Result<(), Problem>, allowed: Result<(), Code>, asked: &str) {
    match (found, allowed) {
        (Ok(()), Ok(())) => {}
        (Err(problem), Err(code)) => assert_eq!(problem.code(), code, "{asked} {problem:?}"),
        (found, _) => panic!("{asked} gave {found:?}"),
    }
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn check(site: &Site, uri: &str, fields: &[(&'static str, &str)], allowed: Result<(), Code>) {
    let found = site.check(&uri.parse().unwrap(), &headers(fields));
    same(found, allowed, &format!("{site:?} {uri} {fields:?}"));
}

const HOST: Result<(), Code> = Err(Code::HostNotAllowed);
const ORIGIN: Result<(), Code> = Err(Code::OriginNotAllowed);

#[test]
fn on_loopback_only_its_names_and_those_that_are_allowed_are_this_server() {
    let site = site(Literals::Loopback, false);
    let host = |host: &str, allowed| check(&site, "/", &[("host", host)], allowed);
    for ours in [
        "localhost",
        "LocalHost:9901",
        "localhost:12345",
        "127.0.0.1",
        "127.0.0.1:9901",
        "127.200.3.4:1",
        "[::1]:9901",
        "[::1]",
        "greylag.example",
        "Greylag.Example:443",
    ] {
        host(ours, Ok(()));
    }
    for theirs in [
        "evil.example",
        "evil.example:9901",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "greylag.example.evil.example",
        "a.greylag.example",
        "localhost.",
        "10.0.0.1:9901",
        "0.0.0.0:9901",
        "[::]:9901",
        "[fe80::1]:9901",
        "2130706433",
        "user@localhost",
        "",
        "local host",
    ] {
        host(theirs, HOST);
    }
    check(&site, "/", &[], HOST);
    let twice = [("host", "localhost"), ("host", "localhost")];
    check(&site, "/", &twice, HOST);
    let target = "http://evil.example/v1/rules";
    check(&site, target, &[("host", "localhost")], HOST);
}

#[test]
fn off_loopback_any_address_is_and_on_a_unix_socket_anything() {
    let rows = [
        ("10.0.0.1:9901", Ok(()), Ok(())),
        ("[fe80::1]", Ok(()), Ok(())),
        ("127.0.0.1", Ok(()), Ok(())),
        ("greylag.example", Ok(()), Ok(())),
        ("evil.example", HOST, Ok(())),
        ("2130706433", HOST, Ok(())),
        ("user@10.0.0.1", HOST, HOST),
        ("local host", HOST, HOST),
        ("", HOST, HOST),
    ];
    for (host, any, unasked) in rows {
        let fields = [("host", host)];
        check(&site(Literals::Any, false), "/", &fields, any);
        check(&site(Literals::Unasked, false), "/", &fields, unasked);
    }
}

#[test]
fn only_a_page_of_this_server_may_call_it() {
    let plain = site(Literals::Loopback, false);
    let origin = |host: &str, origin: &str, allowed| {
        check(&plain, "/", &[("host", host), ("origin", origin)], allowed);
    };
    origin("localhost:9901", "http://localhost:9901", Ok(()));
    origin("[::1]:9901", "http://[::1]:9901", Ok(()));
    origin("localhost", "http://localhost:80", Ok(()));
    origin("greylag.example:1", "http://greylag.example:1", Ok(()));
    for theirs in [
        "http://localhost:9902",
        "http://127.0.0.1:9901",
        "https://localhost:9901",
        "http://evil.example",
        "http://evil.example@localhost:9901",
        "http://greylag.example:9901",
        "null",
        "",
        "localhost:9901",
        "http://localhost:9901/",
    ] {
        origin("localhost:9901", theirs, ORIGIN);
    }
    let tls = site(Literals::Any, true);
    let origin = |origin: &str, allowed| {
        let fields = [("host", "greylag.example"), ("origin", origin)];
        check(&tls, "/", &fields, allowed);
    };
    origin("https://greylag.example", Ok(()));
    origin("https://greylag.example:443", Ok(()));
    origin("http://greylag.example", ORIGIN);
    origin("https://greylag.example:80", ORIGIN);
}

#[test]
fn what_another_page_has_fetched_is_refused() {
    for (value, any, no_page) in [
        ("none", Ok(()), Ok(())),
        ("same-origin", Ok(()), Ok(())),
        ("same-site", ORIGIN, ORIGIN),
        ("cross-site", ORIGIN, ORIGIN),
        ("", ORIGIN, ORIGIN),
    ] {
        let fields = [("host", "localhost"), ("sec-fetch-site", value)];
        let site = site(Literals::Loopback, false);
        check(&site, "/", &fields, any);
        let found = site.check_no_page(&"/".parse().unwrap(), &headers(&fields));
        same(found, no_page, value);
    }
    let site = site(Literals::Any, false);
    let found = |fields: &[(&'static str, &str)]| {
        site.check_no_page(&"/".parse().unwrap(), &headers(fields))
    };
    same(found(&[("host", "10.0.0.1")]), Ok(()), "kubelet");
    let own = [("host", "localhost"), ("origin", "http://localhost")];
    same(found(&own), ORIGIN, "a page of its own");
    same(found(&[("host", "evil.example")]), HOST, "a foreign name");
}
