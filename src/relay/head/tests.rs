//! Heads as they come and as they go on.

use super::*;

fn request(line: &str, fields: &[(&'static str, &str)]) -> RequestHeader {
    let (method, target) = line.split_once(' ').unwrap();
    let mut head = RequestHeader::build(method, target.as_bytes(), None).unwrap();
    for (name, value) in fields {
        head.append_header(*name, (*value).to_owned()).unwrap();
    }
    head
}

fn response(status: u16, fields: &[(&'static str, &str)]) -> Box<ResponseHeader> {
    let mut head = ResponseHeader::build(status, None).unwrap();
    for (name, value) in fields {
        head.append_header(*name, (*value).to_owned()).unwrap();
    }
    Box::new(head)
}

fn marks(framing: Framing) -> Marks<'static> {
    Marks {
        tag: "v2",
        hop: 1,
        forwarded: None,
        trace: None,
        host: None,
        claims: &[],
        identity: false,
        framing,
        json_length: None,
        is_upgrade: false,
    }
}

fn shown(headers: &http::HeaderMap) -> Vec<String> {
    let mut lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines
}

#[test]
fn what_is_not_carried_is_refused_with_its_reason() {
    let check = |line: &str, fields: &[(&'static str, &str)], reason: Option<Reason>| {
        let mut head = request(line, fields);
        let _ = head.insert_header("host", "test");
        let found = match admit(&head) {
            Ok(()) => None,
            Err(Stop::Refused(refusal)) => Some(refusal.reason),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(found, reason, "{line} {fields:?}");
    };
    check("POST /v1/chat/completions", &[], None);
    check("CONNECT a:1", &[], Some(Reason::Unsupported));
    check(
        "GET /",
        &[
            ("upgrade", "websocket"),
            ("connection", "Keep-Alive, Upgrade"),
        ],
        None,
    );
    check(
        "POST /",
        &[("upgrade", "websocket"), ("connection", "upgrade")],
        Some(Reason::Unsupported),
    );
    check(
        "GET /",
        &[("upgrade", "irc"), ("connection", "upgrade")],
        Some(Reason::Unsupported),
    );
    // An Upgrade that is not nominated asks for nothing (RFC 9110 §7.8).
    check("GET /", &[("upgrade", "h2c")], None);
    check("POST /", &[("expect", "100-Continue")], None);
    check(
        "POST /",
        &[("expect", "the-moon")],
        Some(Reason::ExpectationFailed),
    );
    // Java's client asks for h2c and goes on without it.
    check(
        "GET /",
        &[("upgrade", "H2C"), ("connection", "upgrade")],
        None,
    );
    check("POST /", &[("transfer-encoding", "Chunked")], None);
    check(
        "POST /",
        &[("transfer-encoding", "gzip, chunked")],
        Some(Reason::Unsupported),
    );
    check("OPTIONS *", &[], None);
    check("GET *", &[], Some(Reason::BadRequest));
    check("GET ftp://a/b", &[], Some(Reason::BadRequest));
}

#[test]
fn a_request_goes_on_with_its_own_fields_and_ours() {
    let head = request(
        "POST /v1/completions?x=1",
        &[
            ("host", "models.example"),
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("x-keep", "2"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("expect", "100-continue"),
            ("x-request-id", "r-1"),
        ],
    );
    let out = to_engine(&head, &marks(Framing::Length(7)));
    assert_eq!(
        shown(&out.headers),
        [
            "content-length: 7",
            "host: models.example",
            "x-gray-tag: v2",
            "x-greylag-hop: 1",
            "x-keep: 2",
            "x-request-id: r-1"
        ]
    );
    assert_eq!(out.uri.to_string(), "/v1/completions?x=1");
    assert_eq!(out.version, Version::HTTP_11);
}

#[test]
fn a_target_in_absolute_form_becomes_a_path_and_its_host() {
    let check = |target: &str, path: &str, host: &str| {
        let mut head = request(&format!("GET {target}"), &[("host", "other")]);
        to_origin_form(&mut head);
        assert_eq!(head.uri.to_string(), path, "{target}");
        assert_eq!(head.headers["host"], host, "{target}");
    };
    check(
        "http://models.example:81/v1/models?a=b",
        "/v1/models?a=b",
        "models.example:81",
    );
    check("HTTP://models.example", "/", "models.example");
    check("http://models.example?a", "/?a", "models.example");
    check(
        "/http://models.example/",
        "/http://models.example/",
        "other",
    );
    check("/v1/models", "/v1/models", "other");
    check("*", "*", "other");
}

#[test]
fn the_callers_trace_goes_on_and_a_new_one_has_no_state() {
    let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = request(
        "POST /",
        &[
            ("traceparent", caller),
            ("tracestate", "a=b"),
            ("baggage", "k=v"),
        ],
    );
    let trace = trace::begin(&traced.headers, [7; 24], || false);
    let out = to_engine(
        &traced,
        &Marks {
            trace: Some(&trace),
            ..marks(Framing::None)
        },
    );
    let sent = out.headers["traceparent"].to_str().unwrap();
    assert_eq!(
        sent,
        "00-0af7651916cd43dd8448eb211c80319c-0707070707070707-01"
    );
    assert_eq!(out.headers["tracestate"], "a=b");
    assert_eq!(out.headers["baggage"], "k=v,gray.tag=v2");

    let broken = request(
        "POST /",
        &[("traceparent", "00-xyz"), ("tracestate", "a=b")],
    );
    let trace = trace::begin(&broken.headers, [7; 24], || false);
    let out = to_engine(
        &broken,
        &Marks {
            trace: Some(&trace),
            ..marks(Framing::None)
        },
    );
    assert!(
        out.headers["traceparent"]
            .to_str()
            .unwrap()
            .ends_with("-00")
    );
    assert!(!out.headers.contains_key("tracestate"));
    assert_eq!(out.headers["baggage"], "gray.tag=v2");
}

#[test]
fn an_answer_is_framed_for_the_client_it_goes_to() {
    let check = |version: Version,
                 method: &str,
                 status: u16,
                 fields: &[(&'static str, &str)],
                 expected: &[&str]| {
        let mut asked = request(&format!("{method} /"), &[]);
        asked.set_version(version);
        let out = to_client(response(status, fields), &asked, "v2", true);
        let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        expected.push("x-greylag-engine: v2".into());
        expected.sort();
        assert_eq!(
            shown(&out.headers),
            expected,
            "{version:?} {method} {status} {fields:?}"
        );
    };
    let (new, old) = (Version::HTTP_11, Version::HTTP_10);
    check(
        new,
        "GET",
        200,
        &[("content-length", "3"), ("connection", "close")],
        &["content-length: 3"],
    );
    check(
        new,
        "GET",
        200,
        &[("transfer-encoding", "chunked")],
        &["transfer-encoding: chunked"],
    );
    check(new, "GET", 200, &[], &["transfer-encoding: chunked"]);
    check(old, "GET", 200, &[("transfer-encoding", "chunked")], &[]);
    check(
        new,
        "HEAD",
        200,
        &[("content-length", "3")],
        &["content-length: 3"],
    );
    check(new, "HEAD", 200, &[("transfer-encoding", "chunked")], &[]);
    check(new, "GET", 204, &[], &[]);
    check(new, "GET", 204, &[("content-length", "0")], &[]);
    check(new, "GET", 304, &[("etag", "\"a\"")], &["etag: \"a\""]);
}

#[test]
fn an_answer_that_will_be_cut_shorter_has_no_length() {
    let out = to_client(
        response(200, &[("content-length", "3")]),
        &request("GET /", &[]),
        "v2",
        false,
    );
    assert_eq!(
        shown(&out.headers),
        ["transfer-encoding: chunked", "x-greylag-engine: v2"]
    );
}

#[test]
fn interim_heads_reach_those_who_can_have_them() {
    let mut asked = request("GET /", &[]);
    asked.set_version(Version::HTTP_11);
    let hints = response(
        103,
        &[
            ("link", "</a>"),
            ("connection", "close"),
            ("content-length", "0"),
        ],
    );
    assert_eq!(
        shown(&interim(hints.clone(), &asked).unwrap().headers),
        ["link: </a>"]
    );
    assert!(interim(response(100, &[]), &asked).is_none());
    asked.set_version(Version::HTTP_10);
    assert!(interim(hints, &asked).is_none());
}
