//! Heads on their way through: what is refused, what is taken off, what is put on.
//!
//! In: the head as it came. Out: the head as it goes on. It differs by the fields of one connection, by what a caller
//! claims who is not believed (force, traffic class, whose request it is), and by the fields that are ours: to the engine
//! `traceparent`, `tracestate`, `baggage`, `x-gray-tag`, `x-greylag-hop`, `x-forwarded-for` or `forwarded` where it is
//! told of peers, and `accept-encoding` where a stream must be read; to the client `x-greylag-engine`; and `date` and
//! `connection`, which are written with it.

use greylag_filters::framing::{Framing, may_have_body};
use greylag_filters::hop::{self, hop_by_hop};
use greylag_filters::hops;
use greylag_filters::identity::GRAY;
use greylag_filters::trace::{self, Trace};
use greylag_filters::triton;
use http::{HeaderName, HeaderValue, Method, StatusCode, Version, header};
use pingora_http::{RequestHeader, ResponseHeader};

use super::stop::Stop;
use crate::reply::Reason;

/// Turns a target in absolute form (`http://HOST/PATH`), which clients send to proxies, into its path, and its authority
/// into `Host`, as the server behind a proxy gets them (RFC 9112 §3.2.2). To be done before anything looks at the path.
pub fn to_origin_form(head: &mut RequestHeader) {
    let absolute = ["http://", "https://"].iter().find_map(|scheme| {
        let (start, target) = head.raw_path().split_at_checked(scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme.as_bytes())
            .then_some(target)
    });
    let Some(target) = absolute else { return };
    let end = target.iter().position(|byte| matches!(byte, b'/' | b'?'));
    let (authority, rest) = target.split_at(end.unwrap_or(target.len()));
    let (Ok(authority), mut path) = (HeaderValue::from_bytes(authority), rest.to_vec()) else {
        return;
    };
    if !path.starts_with(b"/") {
        path.insert(0, b'/');
    }
    if head.set_raw_path(&path).is_ok() {
        let _ = head.insert_header("host", authority);
    }
}

/// Refuses what is not carried, and what the next server could read in another way. Where the next request begins is
/// then a matter of opinion, so the connection must end.
pub fn admit(head: &RequestHeader) -> Result<(), Stop> {
    if head.method == Method::CONNECT {
        return Err(Stop::refuse(
            Reason::Unsupported,
            "CONNECT is not carried: this is a reverse proxy",
        ));
    }
    if let Some(protocol) = foreign_upgrade(head) {
        return Err(Stop::refuse(
            Reason::Unsupported,
            format!(
                "the only upgrade that is carried is one to websocket, asked for by GET over HTTP/1.1 without a body; found {protocol:?}"
            ),
        ));
    }
    // Pingora has made sure that the last coding is `chunked`, and reads no other.
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    if !codings.all(is_chunked)
        || head
            .headers
            .get_all(header::TRANSFER_ENCODING)
            .iter()
            .count()
            > 1
    {
        return Err(Stop::refuse(
            Reason::Unsupported,
            "the only transfer coding that is read is chunked, once",
        ));
    }
    let whole_server = head.method == Method::OPTIONS && head.raw_path() == b"*";
    if !whole_server && !head.raw_path().starts_with(b"/") {
        return Err(Stop::refuse(
            Reason::BadRequest,
            "the request's target is neither a path nor an http URL",
        ));
    }
    if head.version == Version::HTTP_11 && !head.headers.contains_key(header::HOST) {
        return Err(Stop::refuse(
            Reason::BadRequest,
            "an HTTP/1.1 request needs a Host",
        ));
    }
    // Over HTTP/1 Pingora has refused these.
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let is_host = |host: &HeaderValue| !host.as_bytes().iter().any(|byte| b"@ /".contains(byte));
    if !hosts.next().is_none_or(is_host) || hosts.next().is_some() {
        return Err(Stop::refuse(
            Reason::BadRequest,
            "a request has one Host at most, of a name and a port alone, which is that of its target",
        ));
    }
    let mut expected = head.headers.get_all(header::EXPECT).iter();
    if !expected.all(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(Stop::refuse(
            Reason::ExpectationFailed,
            "the only expectation that can be met is 100-continue",
        ));
    }
    Ok(())
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().eq_ignore_ascii_case(b"chunked")
}

// An upgrade that is asked for and cannot be carried. One to h2c alone is ignored, as RFC 9110 §7.8 allows: Java's client
// asks for it with every first request, and goes on with HTTP/1.1.
fn foreign_upgrade(head: &RequestHeader) -> Option<&HeaderValue> {
    let is_ours = asks_for_websocket(head);
    let mut upgrades = head.headers.get_all(header::UPGRADE).iter();
    upgrades.find(|protocol| {
        !protocol.as_bytes().eq_ignore_ascii_case(b"h2c")
            && !is_ours
            && hop::names(&head.headers, "upgrade")
    })
}

/// Whether a request asks to switch to WebSocket, as RFC 6455 §4.1 does.
pub fn asks_for_websocket(head: &RequestHeader) -> bool {
    let mut upgrades = head.headers.get_all(header::UPGRADE).iter();
    let is_websocket =
        |protocol: &HeaderValue| protocol.as_bytes().eq_ignore_ascii_case(b"websocket");
    let has_body = head.headers.contains_key(header::TRANSFER_ENCODING)
        || content_length(head).is_some_and(|length| length > 0);
    upgrades.next().is_some_and(is_websocket)
        && upgrades.next().is_none()
        && !has_body
        && !hop::names(&head.headers, "close")
        && head.method == Method::GET
        && head.version == Version::HTTP_11
        && hop::names(&head.headers, "upgrade")
}

/// The length that a request's head gives its body. Pingora has refused heads in which it is ambiguous, so of several
/// that are equal the first is taken.
pub fn content_length(head: &RequestHeader) -> Option<u64> {
    let value = head.headers.get(header::CONTENT_LENGTH)?;
    value.to_str().ok()?.split(',').next()?.trim().parse().ok()
}

/// What is put on a request's head.
pub struct Marks<'a> {
    /// What the exchange is called.
    pub tag: &'a str,
    /// How many Greylags have passed the request on, with this one.
    pub hop: u8,
    /// The field that says who has passed it on, where it is to be said.
    pub forwarded: Option<&'a (HeaderName, Vec<u8>)>,
    /// The exchange's trace, unless tracing is off.
    pub trace: Option<&'a Trace>,
    /// The engine's own `Host`, unless the caller's is kept.
    pub host: Option<&'a str>,
    /// The fields that are taken off, since their sender is not believed.
    pub claims: &'a [HeaderName],
    /// Whether the answer must come uncompressed.
    pub identity: bool,
    /// The body's framing.
    pub framing: Framing,
    /// How much of the body is JSON before Triton's tensors, where that has changed.
    pub json_length: Option<usize>,
    /// Whether the caller asks to switch to WebSocket.
    pub is_upgrade: bool,
}

/// The head that goes to the engine.
pub fn to_engine(head: &RequestHeader, marks: &Marks<'_>) -> Box<RequestHeader> {
    let mut out = Box::new(head.clone());
    for name in hop_by_hop(&head.headers) {
        out.remove_header(&name);
    }
    for name in marks.claims {
        out.remove_header(name);
    }
    out.remove_header(&header::EXPECT);
    out.set_version(Version::HTTP_11);
    match marks.host {
        Some(host) => set(&mut out, "host", host),
        None if !out.headers.contains_key(header::HOST) => set(&mut out, "host", ""),
        None => {}
    }
    frame(&mut out, marks.framing);
    if let Some(length) = marks.json_length {
        set(&mut out, triton::JSON_LENGTH, &length.to_string());
    }
    if marks.is_upgrade {
        set(&mut out, "connection", "upgrade");
        set(&mut out, "upgrade", "websocket");
    }
    if marks.identity {
        set(&mut out, "accept-encoding", "identity");
    }
    if let Some((name, value)) = marks.forwarded
        && let Ok(value) = HeaderValue::from_bytes(value)
    {
        let _ = out.insert_header(name.clone(), value);
    }
    set(&mut out, hops::FIELD, &marks.hop.to_string());
    set(&mut out, GRAY, marks.tag);
    if let Some(trace) = marks.trace {
        mark_trace(&mut out, head, trace, marks.tag);
    }
    out
}

fn frame(head: &mut RequestHeader, framing: Framing) {
    if let Framing::Length(length) = framing {
        return set(head, "content-length", &length.to_string());
    }
    head.remove_header(&header::CONTENT_LENGTH);
    if framing == Framing::Chunked {
        set(head, "transfer-encoding", "chunked");
    }
}

fn mark_trace(out: &mut RequestHeader, head: &RequestHeader, trace: &Trace, tag: &str) {
    let parent = trace.traceparent();
    if let Ok(value) = HeaderValue::from_bytes(&parent) {
        let _ = out.insert_header("traceparent", value);
    }
    // A caller's state belongs to a caller's trace; of a trace that is ours there is none.
    if !trace.keeps_tracestate() {
        out.remove_header("tracestate");
    }
    if let Some(baggage) = trace::baggage(&head.headers, "gray.tag", tag)
        && let Ok(value) = HeaderValue::from_bytes(&baggage)
    {
        out.remove_header("baggage");
        let _ = out.insert_header("baggage", value);
    }
}

fn set(head: &mut RequestHeader, name: &'static str, value: &str) {
    // The values are ours or were a head's before; one that is none all the same leaves the head as it is.
    let _ = head.insert_header(name, value);
}

/// The head that goes to the client.
pub fn to_client(
    mut out: Box<ResponseHeader>,
    request: &RequestHeader,
    tag: &str,
    keep_length: bool,
) -> Box<ResponseHeader> {
    for name in hop_by_hop(&out.headers) {
        out.remove_header(&name);
    }
    out.set_version(Version::HTTP_11);
    // One without a body by its status has no length either (RFC 9110 §8.6); one of 304 is that of the answer there would be.
    if !keep_length || out.status == StatusCode::NO_CONTENT {
        out.remove_header(&header::CONTENT_LENGTH);
    }
    let has_length = out.headers.contains_key(header::CONTENT_LENGTH);
    // HTTP/1.0 knows no chunks: without a length the connection's end is the body's.
    if may_have_body(out.status, &request.method)
        && !has_length
        && request.version == Version::HTTP_11
    {
        let _ = out.insert_header("transfer-encoding", "chunked");
    }
    let _ = out.insert_header("x-greylag-engine", tag);
    out
}

/// An interim head (1xx) as it goes to the client, or nothing where the client cannot have it: 100 was ours to give,
/// 101 was not asked for, and HTTP/1.0 knows none.
pub fn interim(
    mut head: Box<ResponseHeader>,
    request: &RequestHeader,
) -> Option<Box<ResponseHeader>> {
    let passes = request.version == Version::HTTP_11
        && !matches!(
            head.status,
            StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS
        );
    passes.then(|| {
        for name in hop_by_hop(&head.headers) {
            head.remove_header(&name);
        }
        head.remove_header(&header::CONTENT_LENGTH);
        head
    })
}

#[cfg(test)]
#[path = "head/tests.rs"]
mod tests;
