//! Where an admin API is.
//!
//! In: text such as `http://127.0.0.1:9901`, `https://HOST:PORT` or `unix:/PATH`. Out: what is connected to, and how it is called.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

/// Where an API is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// At a host and port, in the clear or by TLS.
    Net {
        /// A name or an address; of IPv6 without brackets.
        host: String,
        /// The port.
        port: u16,
        /// Whether by TLS.
        is_secure: bool,
    },
    /// At a unix socket.
    Unix(PathBuf),
}

const ALLOWED: &str =
    "allowed are http://HOST:PORT, https://HOST:PORT and unix:/PATH, without a path or user";

impl Target {
    /// In the clear at an address.
    pub fn at(address: SocketAddr) -> Target {
        Target::Net {
            host: address.ip().to_string(),
            port: address.port(),
            is_secure: false,
        }
    }

    /// Whether what is sent there can be read by nobody else: by TLS, or on this machine.
    pub fn is_private(&self) -> bool {
        match self {
            Target::Unix(_) => true,
            Target::Net { is_secure, .. } if *is_secure => true,
            Target::Net { host, .. } => {
                let address = host.parse::<IpAddr>();
                host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
            }
        }
    }

    /// What `Host` says.
    pub(super) fn authority(&self) -> String {
        match self {
            Target::Unix(_) => "localhost".to_owned(),
            Target::Net { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Target::Net { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
            Target::Net { is_secure, .. } => {
                let scheme = if *is_secure { "https" } else { "http" };
                write!(f, "{scheme}://{}", self.authority())
            }
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let refused = || format!("found {text:?}; {ALLOWED}");
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Target::Unix(path.into())),
                false => Err(refused()),
            };
        }
        let uri: Uri = text.parse().map_err(|_| refused())?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refused()),
        };
        let authority = uri.authority().ok_or_else(refused)?;
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !is_bare || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(refused());
        }
        let host = authority.host();
        let literal = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let usual = if is_secure { 443 } else { 80 };
        // `Authority` knows no port that is none, such as that of `host:`.
        let port = match authority.as_str().strip_prefix(host) {
            Some("") => usual,
            Some(rest) => {
                let port = rest.strip_prefix(':').map(str::parse);
                port.and_then(Result::ok).ok_or_else(refused)?
            }
            None => return Err(refused()),
        };
        Ok(Target::Net {
            host: literal.unwrap_or(host).to_owned(),
            port,
            is_secure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_an_api_is_read_and_shown_again() {
        for (text, shown, is_private) in [
            ("http://127.0.0.1:9901", "http://127.0.0.1:9901", true),
            ("http://127.0.0.1:9901/", "http://127.0.0.1:9901", true),
            ("http://[::1]:9901", "http://[::1]:9901", true),
            ("http://LocalHost:1", "http://LocalHost:1", true),
            ("http://a.b", "http://a.b:80", false),
            ("http://10.0.0.1:9901", "http://10.0.0.1:9901", false),
            ("https://a.b", "https://a.b:443", true),
            ("unix:/run/greylag.sock", "unix:/run/greylag.sock", true),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(target.is_private(), is_private, "{text}");
            assert_eq!(target.to_string().parse(), Ok(target));
        }
    }

    #[test]
    fn what_names_none_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "127.0.0.1:9901",
            "localhost:9901",
            "ftp://a:1",
            "http://",
            "http://user:secret@a:1",
            "http://a:1/v1",
            "http://a:1/?q",
            "http://a:99999",
            "http://a:",
            "unix:run/greylag.sock",
        ] {
            let refused = text.parse::<Target>().unwrap_err();
            assert!(refused.contains(ALLOWED), "{refused}");
        }
    }
}
