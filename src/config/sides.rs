//! The listeners beside the traffic: the admin API, and metrics and health.
//!
//! In: their keys. Out: where they are and who may ask there, or what does not fit together.

use std::net::SocketAddr;
use std::path::PathBuf;

use greylag_filters::written::start;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{LONGEST_SOCKET, Problems};
use super::{ListenerTls, Place, leaf};

/// The admin API's listener.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// `IP:PORT`, where an address that is not loopback needs `token_file`, or `unix:/PATH`. Default: `127.0.0.1:9901`.
    pub address: Place,
    /// Who may connect to a unix socket, as `chmod` says it in octal; means nothing beside a port. Default: `"0600"`.
    #[serde(
        deserialize_with = "leaf::mode",
        skip_serializing_if = "Option::is_none"
    )]
    pub mode: Option<String>,
    /// A file of tokens, one of which each request must bring, also on loopback and on a unix socket: `NAME ROLE TOKEN` a
    /// line, where ROLE is `read` or `write` and TOKEN 16 to 256 visible ASCII characters; lines that begin with `#` say
    /// nothing. A changed file is used by the next request; while it is wrong, the tokens before it are used on. Default: none,
    /// so whoever can connect may do all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Names that `Host` may say beside `localhost` and addresses, here and where `observe.drain` is asked; a port behind one
    /// means nothing, since any is allowed. Default: none.
    pub allowed_hosts: Vec<String>,
    /// Speaks TLS on it, and HTTP/1.1 over that. Files are PEM; new ones are used by the next handshake. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            address: Place::Ip(SocketAddr::from(([127, 0, 0, 1], 9901))),
            mode: None,
            token_file: None,
            allowed_hosts: Vec::new(),
            tls: None,
        }
    }
}

impl Admin {
    /// The mode of a unix socket.
    pub fn mode(&self) -> u32 {
        const USUAL: u32 = 0o600;
        leaf::as_mode(self.mode.as_deref()).unwrap_or(USUAL)
    }

    /// Whether others than this machine can connect.
    pub fn is_off_loopback(&self) -> bool {
        match &self.address {
            Place::Ip(address) => !address.ip().is_loopback(),
            Place::Unix(_) => false,
        }
    }

    /// The names that are allowed, in lower case and without ports.
    pub fn hosts(&self) -> Vec<String> {
        let name = |host: &String| without_port(host).to_ascii_lowercase();
        self.allowed_hosts.iter().map(name).collect()
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        if self.is_off_loopback() && self.token_file.is_none() {
            let what = format!(
                "found {}, which others than this machine can reach: it needs admin.token_file; allowed without one are loopback addresses, such as 127.0.0.1:9901, and unix:/PATH",
                self.address
            );
            problems.add("admin.address", what);
        }
        if let Place::Unix(path) = &self.address {
            if path.as_os_str().len() > LONGEST_SOCKET {
                let what = format!("found a path of more than {LONGEST_SOCKET} bytes");
                problems.add("admin.address", what);
            }
            if self.tls.is_some() {
                let what = "found it beside a unix socket, where TLS is not spoken";
                problems.add("admin.tls", what);
            }
        }
        for (index, host) in self.allowed_hosts.iter().enumerate() {
            if !is_name(without_port(host)) {
                let found = start(host);
                let what = format!(
                    "found {found:?}, allowed are names such as \"greylag.example\"; addresses need none"
                );
                problems.add(&format!("admin.allowed_hosts[{index}]"), what);
            }
        }
    }
}

// A port behind a name is any, so it may as well be left out.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        Some(_) | None => host,
    }
}

fn is_name(host: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (1..=253).contains(&host.len())
        && host.bytes().all(is_letter)
        && host.parse::<std::net::IpAddr>().is_err()
}

/// The listener for metrics and health.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Observe {
    /// `IP:PORT`. Default: `0.0.0.0:9902`.
    #[serde(deserialize_with = "leaf::address")]
    pub address: SocketAddr,
    /// The path that a `preStop` hook of the engine's container asks: from then on the pod is not ready, and the answer
    /// comes once nothing is under way, or `limits.drain` has passed. Whoever knows it and can connect can drain this
    /// process. It begins with a slash and is none of the listener's own. Default: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
}

impl Default for Observe {
    fn default() -> Self {
        Observe {
            address: SocketAddr::from(([0, 0, 0, 0], 9902)),
            drain: None,
        }
    }
}

impl Observe {
    pub(super) fn check(&self, problems: &mut Problems) {
        const OWN: [&str; 5] = ["/metrics", "/livez", "/readyz", "/verdict", "/hooks"];
        let Some(path) = &self.drain else { return };
        let is_path = path.starts_with('/')
            && path.len() <= 256
            && path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        let is_under = |own: &&&str| {
            let below = path.strip_prefix(**own);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let found = start(path);
        if !is_path {
            let what = format!(
                "found {found:?}, allowed is a path of up to 256 visible ASCII characters that begins with a slash and has no `?` and no `#`"
            );
            problems.add("observe.drain", what);
        } else if let Some(own) = OWN.iter().find(is_under) {
            let what = format!(
                "found {found:?}, which is taken: what begins with {own} is the listener's own"
            );
            problems.add("observe.drain", what);
        }
    }
}

#[cfg(test)]
mod tests {
    use greylag_filters::rules::Problem;

    use super::*;

    fn found(check: impl FnOnce(&mut Problems)) -> Vec<String> {
        let mut problems = Problems::default();
        check(&mut problems);
        problems.all().iter().map(Problem::to_string).collect()
    }

    #[test]
    fn off_loopback_tokens_are_needed() {
        let check = |yaml: &str, expected: &str| {
            let admin: Admin = serde_saphyr::from_str(yaml).unwrap();
            let found = found(|problems| admin.check(problems)).join("\n");
            let is_expected = match expected {
                "" => found.is_empty(),
                part => found.contains(part),
            };
            assert!(is_expected, "{yaml}: {found}");
        };
        check("{}", "");
        check("address: '[::1]:1'", "");
        check("address: unix:/run/admin.sock", "");
        check("address: '0.0.0.0:1'", "admin.address: found 0.0.0.0:1");
        check("address: '[::]:1'", "needs admin.token_file");
        check("address: '[::ffff:127.0.0.1]:1'", "needs admin.token_file");
        check("{ address: '0.0.0.0:1', token_file: /t }", "");
        check(
            "{ address: unix:/a, tls: { cert: c, key: k } }",
            "admin.tls: found it",
        );
        check(
            &format!("address: unix:/{}", "a".repeat(107)),
            "more than 107",
        );
        check("allowed_hosts: [greylag.example, 'a:9901', LOCAL_1]", "");
        for wrong in [
            "''",
            "10.0.0.1",
            "'[::1]'",
            "'a b'",
            "'http://a'",
            "'*.a'",
            "'a:x'",
        ] {
            check(
                &format!("allowed_hosts: [a, {wrong}]"),
                "admin.allowed_hosts[1]: found",
            );
        }
    }

    #[test]
    fn a_name_is_compared_without_its_port_and_in_lower_case() {
        let admin: Admin =
            serde_saphyr::from_str("allowed_hosts: ['Greylag.Example:9901', b]").unwrap();
        assert_eq!(admin.hosts(), ["greylag.example", "b"]);
    }

    #[test]
    fn the_path_of_the_drain_is_nobody_elses() {
        let check = |path: &str, is_allowed: bool| {
            let observe = Observe {
                drain: Some(path.to_owned()),
                ..Observe::default()
            };
            let found = found(|problems| observe.check(problems));
            assert_eq!(found.is_empty(), is_allowed, "{path}: {found:?}");
        };
        for path in ["/drain", "/drain/7f3a", "/metricsx", "/{x}", "/:x", "/%41"] {
            check(path, true);
        }
        for path in [
            "",
            "drain",
            "/a b",
            "/a?b",
            "/a#b",
            "/ä",
            "/metrics",
            "/metrics/drain",
            "/livez",
            "/readyz",
            "/hooks/x",
            "/verdict",
        ] {
            check(path, false);
        }
        check(&format!("/{}", "a".repeat(256)), false);
    }
}
