//! Keeps web pages away from the API.
//!
//! In: a request's head. Out: the request, or 403. Whoever can open a connection to a loopback address is on this
//! machine, and so is a browser. A page could point a name of its own at 127.0.0.1 (DNS rebinding), which shows in
//! `Host`; or send what a form may send, which shows in `Origin`. There are no CORS fields anywhere, so that a page of
//! another origin cannot read an answer either.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::{Code, Problem, start};

/// What a request may call this server.
#[derive(Debug, Clone, Copy)]
pub struct Guard {
    own: IpAddr,
}

impl Guard {
    /// The guard of a server on this address.
    pub fn of(address: SocketAddr) -> Guard {
        Guard { own: address.ip() }
    }

    fn check(self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = sole(headers, header::HOST)
            .map_err(|found| self.host_refused(&found))?
            .ok_or_else(|| self.host_refused("no field Host"))?;
        let host: Authority = host
            .parse()
            .map_err(|_| self.host_refused(&format!("{:?}", start(host))))?;
        for authority in [Some(&host), uri.authority()].into_iter().flatten() {
            if !self.is_ours(authority) {
                return Err(self.host_refused(&format!("{:?}", start(authority.as_str()))));
            }
        }
        let refused = |found: &str| {
            let what = format!("found {found}; allowed are none and \"http://{host}\"");
            Problem::new(Code::OriginNotAllowed, what)
        };
        match sole(headers, header::ORIGIN) {
            Err(found) => Err(refused(&found)),
            Ok(Some(origin)) if !is_origin(origin, &host) => {
                Err(refused(&format!("{:?}", start(origin))))
            }
            Ok(_) => Ok(()),
        }
    }

    // Any port is allowed: a forwarded port is another on the caller's side.
    fn is_ours(self, authority: &Authority) -> bool {
        let host = authority.host();
        let literal = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let is_plain = !authority.as_str().contains('@');
        let is_loopback = |ip: IpAddr| ip.is_loopback() || ip == self.own;
        is_plain
            && (host.eq_ignore_ascii_case("localhost")
                || literal.parse::<IpAddr>().is_ok_and(is_loopback))
    }

    fn host_refused(self, found: &str) -> Problem {
        let what = format!(
            "found {found}; allowed are \"localhost\", loopback addresses and {}, with any port",
            self.own
        );
        Problem::new(Code::HostNotAllowed, what)
    }
}

/// Lets a request through, or answers 403.
pub async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

// The value of a field that may stand once.
fn sole(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<&str>, String> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("a field {name} that is not ASCII")),
        },
        (Some(_), Some(_)) => Err(format!("several fields {name}")),
    }
}

// Whether a page of this origin was served under this host.
fn is_origin(origin: &str, host: &Authority) -> bool {
    const HTTP: u16 = 80;
    let Some(Ok(authority)) = origin.strip_prefix("http://").map(str::parse::<Authority>) else {
        return false;
    };
    authority.host().eq_ignore_ascii_case(host.host())
        && authority.port_u16().unwrap_or(HTTP) == host.port_u16().unwrap_or(HTTP)
        && !authority.as_str().contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, fields: &[(&'static str, &str)], allowed: Result<(), Code>) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        let guard = Guard::of("127.0.0.9:9901".parse().unwrap());
        let found = guard.check(&uri.parse().unwrap(), &headers);
        match (found, allowed) {
            (Ok(()), Ok(())) => {}
            (Err(problem), Err(code)) => assert_eq!(problem.code(), code, "{problem:?}"),
            (found, _) => panic!("{uri} {fields:?} gave {found:?}"),
        }
    }

    #[test]
    fn only_loopback_names_are_this_server() {
        let host = |host: &str, allowed| check("/", &[("host", host)], allowed);
        for ours in [
            "localhost",
            "LocalHost:9901",
            "localhost:12345",
            "127.0.0.1",
            "127.0.0.1:9901",
            "127.200.3.4:1",
            "[::1]:9901",
            "[::1]",
        ] {
            host(ours, Ok(()));
        }
        for theirs in [
            "evil.example",
            "evil.example:9901",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
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
            host(theirs, Err(Code::HostNotAllowed));
        }
        check("/", &[], Err(Code::HostNotAllowed));
        let twice = [("host", "localhost"), ("host", "localhost")];
        check("/", &twice, Err(Code::HostNotAllowed));
        let target = "http://evil.example/v1/rules";
        check(target, &[("host", "localhost")], Err(Code::HostNotAllowed));
    }

    #[test]
    fn only_a_page_of_this_server_may_call_it() {
        let origin = |host: &str, origin: &str, allowed| {
            check("/", &[("host", host), ("origin", origin)], allowed);
        };
        origin("localhost:9901", "http://localhost:9901", Ok(()));
        origin("[::1]:9901", "http://[::1]:9901", Ok(()));
        origin("localhost", "http://localhost:80", Ok(()));
        for theirs in [
            "http://localhost:9902",
            "http://127.0.0.1:9901",
            "https://localhost:9901",
            "http://evil.example",
            "http://evil.example@localhost:9901",
            "null",
            "",
            "localhost:9901",
            "http://localhost:9901/",
        ] {
            origin("localhost:9901", theirs, Err(Code::OriginNotAllowed));
        }
    }
}
