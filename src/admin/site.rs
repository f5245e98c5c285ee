//! Which names a server beside the traffic goes by, and which pages may call it.
//!
//! In: a request's head. Out: whether it means this server, or a problem. Whoever can open a connection may be a browser. A
//! page could point a name of its own at this address (DNS rebinding), which shows in `Host`; send what a form may
//! send, which shows in `Origin`; or have an image fetched, which shows in `Sec-Fetch-Site`. There are no CORS fields
//! anywhere, so that a page of another origin cannot read an answer either.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use super::problem::{Code, Problem, start};

/// Which addresses `Host` may say, beside names that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literals {
    /// Those of loopback: other ones do not lead here.
    Loopback,
    /// All of them: whoever rebinds a name says the name.
    Any,
    /// Anything: no browser reaches a unix socket.
    Unasked,
}

/// What a request may call this server.
#[derive(Debug, Clone)]
pub struct Site {
    /// Addresses.
    pub literals: Literals,
    /// Names beside `localhost`, in lower case.
    pub names: Vec<String>,
    /// Whether TLS is spoken, so that this server's own pages are `https`.
    pub is_tls: bool,
}

impl Site {
    /// Whether the request means this server, and no page of another one sends it.
    ///
    /// # Errors
    /// What it says instead, and what is allowed.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = self.host(uri, headers)?;
        let scheme = if self.is_tls { "https" } else { "http" };
        let refused = |found: &str| {
            let what = format!("found {found}; allowed are none and \"{scheme}://{host}\"");
            Problem::new(Code::OriginNotAllowed, what)
        };
        match sole(headers, header::ORIGIN) {
            Err(found) => Err(refused(&found)),
            Ok(Some(origin)) if !self.is_origin(origin, &host) => {
                Err(refused(&format!("{:?}", start(origin))))
            }
            Ok(_) => fetched(headers),
        }
    }

    /// The same, where no page at all may send it.
    ///
    /// # Errors
    /// What it says instead, and what is allowed.
    pub fn check_no_page(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        self.host(uri, headers)?;
        match headers.contains_key(header::ORIGIN) {
            true => Err(Problem::new(
                Code::OriginNotAllowed,
                "found a field Origin, which pages send; none is allowed here",
            )),
            false => fetched(headers),
        }
    }

    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Authority, Problem> {
        let host = sole(headers, header::HOST)
            .map_err(|found| self.refused(&found))?
            .ok_or_else(|| self.refused("no field Host"))?;
        let host: Authority = host
            .parse()
            .map_err(|_| self.refused(&format!("{:?}", start(host))))?;
        for authority in [Some(&host), uri.authority()].into_iter().flatten() {
            if !self.is_ours(authority) {
                return Err(self.refused(&format!("{:?}", start(authority.as_str()))));
            }
        }
        Ok(host)
    }

    // Any port is allowed: a forwarded port is another on the caller's side.
    fn is_ours(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let literal = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let is_literal = |ip: IpAddr| match self.literals {
            Literals::Loopback => ip.is_loopback(),
            Literals::Any | Literals::Unasked => true,
        };
        let is_named = |name: &String| name.eq_ignore_ascii_case(host);
        !authority.as_str().contains('@')
            && (self.literals == Literals::Unasked
                || host.eq_ignore_ascii_case("localhost")
                || literal.parse::<IpAddr>().is_ok_and(is_literal)
                || self.names.iter().any(is_named))
    }

    fn refused(&self, found: &str) -> Problem {
        let addresses = match self.literals {
            Literals::Loopback => "\"localhost\", loopback addresses",
            Literals::Any => "\"localhost\", addresses",
            Literals::Unasked => "hosts",
        };
        let what = format!(
            "found {found}; allowed are {addresses} and the names of admin.allowed_hosts, with any port"
        );
        Problem::new(Code::HostNotAllowed, what)
    }

    // Whether a page of this origin was served under this host.
    fn is_origin(&self, origin: &str, host: &Authority) -> bool {
        let (scheme, port) = match self.is_tls {
            true => ("https://", 443_u16),
            false => ("http://", 80),
        };
        let Some(Ok(authority)) = origin.strip_prefix(scheme).map(str::parse::<Authority>) else {
            return false;
        };
        authority.host().eq_ignore_ascii_case(host.host())
            && authority.port_u16().unwrap_or(port) == host.port_u16().unwrap_or(port)
            && !authority.as_str().contains('@')
    }
}

// Browsers say where a page comes from that has something fetched, also where they send no Origin.
fn fetched(headers: &HeaderMap) -> Result<(), Problem> {
    let name = header::HeaderName::from_static("sec-fetch-site");
    let refused = |found: &str| {
        let what =
            format!("found {found} in sec-fetch-site; allowed are \"same-origin\" and \"none\"");
        Err(Problem::new(Code::OriginNotAllowed, what))
    };
    match sole(headers, name) {
        Ok(None | Some("same-origin" | "none")) => Ok(()),
        Ok(Some(other)) => refused(&format!("{:?}", start(other))),
        Err(found) => refused(&found),
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

#[cfg(test)]
mod tests;
