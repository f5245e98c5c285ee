//! The address of an engine: `http://HOST:PORT` or `https://HOST:PORT`, with at most a lone slash after it, or
//! `unix:/PATH`.
//!
//! In: the text of a rule. Out: where to connect, and whether TLS is spoken there. A path, a query or user info would be
//! dropped in silence by a relay that keeps the caller's path, so they are refused. Nothing is resolved here.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use crate::written::{Written, start, written};

/// Where an engine listens.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Address {
    /// A DNS name in lower case, an IPv4 address, or an IPv6 address without brackets; `localhost` for a unix socket.
    pub host: Box<str>,
    /// From 1 to 65535; 80 for a unix socket.
    pub port: u16,
    /// Whether TLS is spoken there.
    pub tls: bool,
    /// The unix socket's path, absolute, if it is one: then host and port are words for `Host` alone.
    pub socket: Option<Box<Path>>,
}

/// Why a text is no address of an engine.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what the variant means")]
pub enum Fault {
    #[error(
        "an engine's url starts with \"http://\", \"https://\" or \"unix:/\"; found {0:?} (allowed: \"http://HOST:PORT\", \"https://HOST:PORT\" or \"unix:/PATH\")"
    )]
    Scheme(String),
    #[error("a unix socket's path is absolute and at most 107 bytes long; found {0:?}")]
    Socket(String),
    #[error(
        "an engine's url ends after its port, since callers' paths are kept; found {0:?} after it (allowed: \"http://HOST:PORT\", \"https://HOST:PORT\" or \"unix:/PATH\")"
    )]
    Rest(String),
    #[error(
        "an engine's url holds no user info; found an \"@\" (allowed: \"http://HOST:PORT\", \"https://HOST:PORT\" or \"unix:/PATH\")"
    )]
    UserInfo,
    #[error(
        "{0:?} is no host (allowed: a DNS name, an IPv4 address, an IPv6 address in brackets such as \"[::1]\")"
    )]
    Host(String),
    #[error("a port is a number from 1 to 65535; found {0:?}")]
    Port(String),
}

impl Address {
    /// Host and port as they stand in a `Host` header and in `CONNECT`: `host:port`, IPv6 in brackets.
    pub fn authority(&self) -> String {
        if self.socket.is_some() {
            self.host.to_string()
        } else if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Address, Fault> {
        if let Some(path) = text.strip_prefix("unix:") {
            return on_socket(path);
        }
        let (rest, tls) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => return Err(Fault::Scheme(start(text))),
        };
        // User info may hold a password: it is not repeated in the message.
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        if authority.contains('@') {
            return Err(Fault::UserInfo);
        }
        if let Some(extra) = rest
            .strip_prefix(authority)
            .filter(|extra| !matches!(*extra, "" | "/"))
        {
            return Err(Fault::Rest(start(extra)));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => {
                let (host, after) = v6
                    .split_once(']')
                    .ok_or_else(|| Fault::Host(start(authority)))?;
                let host: Ipv6Addr = host.parse().map_err(|_| Fault::Host(start(authority)))?;
                let port = match after {
                    "" => None,
                    _ => Some(
                        after
                            .strip_prefix(':')
                            .ok_or_else(|| Fault::Host(start(authority)))?,
                    ),
                };
                (host.to_string(), port)
            }
            None => {
                let (host, port) = match authority.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (authority, None),
                };
                if authority.parse::<Ipv6Addr>().is_ok() || !is_host(host) {
                    return Err(Fault::Host(start(authority)));
                }
                (host.to_ascii_lowercase(), port)
            }
        };
        Ok(Address {
            host: host.into(),
            port: port.map_or(Ok(if tls { 443 } else { 80 }), read_port)?,
            tls,
            socket: None,
        })
    }
}

fn on_socket(path: &str) -> Result<Address, Fault> {
    // What the kernel has room for (unix(7)), but for the byte that ends it.
    const LONGEST: usize = 107;
    if !path.starts_with('/') || path.len() > LONGEST || path.contains('\0') {
        return Err(Fault::Socket(start(path)));
    }
    Ok(Address {
        host: "localhost".into(),
        port: 80,
        tls: false,
        socket: Some(Path::new(path).into()),
    })
}

fn read_port(text: &str) -> Result<u16, Fault> {
    let digits = text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(Fault::Port(start(text))),
    }
}

/// A DNS name (RFC 1123, and the underscore that Compose and Kubernetes setups use) or an IPv4 address.
fn is_host(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // No top-level domain is all digits, so such a name is an IPv4 address or a slip.
    let numeric = name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    if numeric {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    name.len() <= 253 && name.split('.').all(label)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.socket, self.tls) {
            (Some(path), _) => write!(f, "unix:{}", path.display()),
            (None, true) => write!(f, "https://{}", self.authority()),
            (None, false) => write!(f, "http://{}", self.authority()),
        }
    }
}

impl Written for Address {
    const ALLOWED: &'static str = "an engine's url is \"http://HOST:PORT\" or \"https://HOST:PORT\" with a DNS name, an IPv4 address or an IPv6 address in brackets (without a port it is 80 or 443), or \"unix:/PATH\"";
    const PATTERN: &'static str =
        r"^(https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?/?|unix:/.+)$";
    const EXAMPLE: &'static str = "http://127.0.0.1:8000";
}

written!(Address, deserialize_str);

#[cfg(test)]
mod tests {
    use super::Address;

    fn check(text: &str, expected: Result<&str, &str>) {
        match (text.parse::<Address>(), expected) {
            (Ok(address), Ok(authority)) => {
                assert_eq!(address.authority(), authority, "{text:?}");
                assert_eq!(address.to_string().parse(), Ok(address));
            }
            (Err(fault), Err(part)) => assert!(fault.to_string().contains(part), "{fault}"),
            (found, _) => panic!("{text:?} gave {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn names_and_addresses_are_taken() {
        check("http://127.0.0.1:8100", Ok("127.0.0.1:8100"));
        check("http://engine", Ok("engine:80"));
        check("http://engine:8100/", Ok("engine:8100"));
        check("http://Cand.Models.svc:8000", Ok("cand.models.svc:8000"));
        check("http://a_b.c-d.:1", Ok("a_b.c-d.:1"));
        check("http://[::1]:8000", Ok("[::1]:8000"));
        check("http://[0:0::1]", Ok("[::1]:80"));
        check("http://10.de:65535", Ok("10.de:65535"));
        check("https://a", Ok("a:443"));
        check("https://[::1]:8443/", Ok("[::1]:8443"));
        check("unix:/run/a b.sock", Ok("localhost"));
    }

    #[test]
    fn all_else_is_refused_with_what_is_allowed() {
        check("https://a:1/v1", Err("\"/v1\" after it"));
        check("ftp://a:1", Err("\"https://\" or \"unix:/\""));
        check("unix:a", Err("is absolute"));
        check("unix:", Err("is absolute"));
        check(&format!("unix:/{}", "a".repeat(107)), Err("at most 107"));
        check("a:1", Err("starts with \"http://\""));
        check("HTTP://a:1", Err("starts with \"http://\""));
        check("", Err("starts with \"http://\""));
        check("http://a:1//", Err("\"//\" after it"));
        check("http://a:1/v1", Err("\"/v1\" after it"));
        check("http://a:1?x", Err("\"?x\" after it"));
        check("http://a:1#x", Err("\"#x\" after it"));
        check("http://u:secret@a:1", Err("holds no user info"));
        check("http://", Err("\"\" is no host"));
        check("http://:80", Err("\":80\" is no host"));
        check("http://a b:80", Err("is no host"));
        check("http://-a:80", Err("is no host"));
        check("http://a..b:80", Err("is no host"));
        check("http://1.2.3:80", Err("is no host"));
        check("http://256.1.1.1:80", Err("is no host"));
        check("http://::1", Err("is no host"));
        check("http://[::1", Err("is no host"));
        check("http://[::1]8", Err("is no host"));
        check("http://[fe80::1%eth0]:1", Err("is no host"));
        check("http://ä:1", Err("is no host"));
        check("http://a:", Err("found \"\""));
        check("http://a:0", Err("found \"0\""));
        check("http://a:+80", Err("found \"+80\""));
        check("http://a:65536", Err("found \"65536\""));
        check("http://a:000080", Err("found \"000080\""));
        check("http://a:b", Err("found \"b\""));
    }

    #[test]
    fn a_password_is_not_repeated() {
        let fault = "http://u:secret@a:1".parse::<Address>().unwrap_err();
        assert!(!fault.to_string().contains("secret"));
    }
}
