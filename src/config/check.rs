//! What must hold between the keys of a configuration.
//!
//! In: a configuration whose values are well-formed each. Out: everything that is wrong with it, rules aside, which are
//! compiled on their own.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use greylag_filters::rules::Problem;
use greylag_filters::units::{Period, Size};

use super::{Config, Listener, Place, Protocol};

/// The most worker threads.
const WORKERS: usize = 256;
/// The longest path of a unix socket: what the kernel has room for (unix(7)), but for the byte that ends it.
pub(super) const LONGEST_SOCKET: usize = 107;

impl Config {
    /// All problems, rules aside.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        self.check_addresses(&mut problems);
        if !(1..=WORKERS).contains(&self.workers) {
            let what = format!("found {}, allowed are 1 to {WORKERS}", self.workers);
            problems.add("workers", what);
        }
        self.check_limits(&mut problems);
        self.telemetry.otlp.check(&mut problems);
        problems.0
    }

    fn check_addresses(&self, problems: &mut Problems) {
        if self.listen.is_empty() {
            problems.add("listen", "found no address, at least one is needed");
        }
        let mut taken: Vec<(String, SocketAddr)> = Vec::new();
        let listen = self.listen.iter().enumerate();
        let ports = listen.filter_map(|(index, listener)| match &listener.address {
            Place::Ip(address) => Some((format!("listen[{index}].address"), *address)),
            Place::Unix(_) => None,
        });
        let admin = match &self.admin.address {
            Place::Ip(address) => Some(("admin.address".to_owned(), *address)),
            Place::Unix(_) => None,
        };
        let observe = ("observe.address".to_owned(), self.observe.address);
        let all = ports.chain(admin).chain([observe]);
        for (path, address) in all {
            if let Some((other, there)) = taken.iter().find(|(_, there)| overlap(address, *there)) {
                let what = format!("{address} is taken by {other} ({there})");
                problems.add(&path, what);
            }
            taken.push((path, address));
        }
        for (index, listener) in self.listen.iter().enumerate() {
            self.check_listener(&format!("listen[{index}]"), listener, problems);
        }
        self.admin.check(problems);
        self.observe.check(problems);
    }

    fn check_listener(&self, path: &str, listener: &Listener, problems: &mut Problems) {
        let Place::Unix(socket) = &listener.address else {
            if listener.mode.is_some() {
                let what = format!("found a mode beside {}, a port has none", listener.address);
                problems.add(&format!("{path}.mode"), what);
            }
            if listener.tls.is_some() && listener.protocol == Protocol::H2c {
                let what = "found `h2c`, which is HTTP/2 without TLS, beside `tls`, which offers HTTP/2 by itself";
                problems.add(&format!("{path}.protocol"), what);
            }
            return;
        };
        let same = |other: &&Listener| other.address == listener.address;
        let is_admins = self.admin.address == listener.address;
        if self.listen.iter().filter(same).count() > 1 || is_admins {
            let what = format!("{} is there more than once", listener.address);
            problems.add(&format!("{path}.address"), what);
        }
        if socket.as_os_str().len() > LONGEST_SOCKET {
            let what = format!("found a path of more than {LONGEST_SOCKET} bytes");
            problems.add(&format!("{path}.address"), what);
        }
        if listener.proxy_protocol {
            let what =
                "found it beside a unix socket, whose peers have no address that could be trusted";
            problems.add(&format!("{path}.proxy_protocol"), what);
        }
        if listener.tls.is_some() {
            let what = "found it beside a unix socket, where TLS is not spoken";
            problems.add(&format!("{path}.tls"), what);
        }
    }

    /// Whether `limits.memory` leaves nothing for bodies.
    pub(super) fn memory_problem(&self) -> Option<String> {
        let limits = &self.limits;
        let (ring, waiting) = (limits.ring, Size::new(self.waiting_memory()));
        let is_spent = limits.memory.bytes() > 0 && self.body_memory() == 0;
        is_spent.then(|| {
            format!(
                "found {}, of which limits.ring ({ring}) and what waits to be logged and sent ({waiting}) leave nothing for bodies",
                limits.memory
            )
        })
    }

    fn check_limits(&self, problems: &mut Problems) {
        let limits = &self.limits;
        if limits.connections == 0 {
            problems.add("limits.connections", "found 0, at least 1 is needed");
        }
        if !(1..=65_536).contains(&limits.h2_streams) {
            let what = format!("found {}, allowed are 1 to 65536", limits.h2_streams);
            problems.add("limits.h2_streams", what);
        }
        let mut size = |path: &str, size: Size| {
            if size.bytes() == 0 {
                problems.add(path, "found 0B, at least 1B is needed");
            }
        };
        size("limits.body", limits.body);
        size("limits.memory", limits.memory);
        size("limits.event", limits.event);
        if let Some(what) = self.memory_problem() {
            problems.add("limits.memory", what);
        }
        let mut period = |path: &str, period: Period, least: Duration| {
            if period.get() < least {
                problems.add(path, format!("found {period}, it must be longer than 0s"));
            } else if period.get() > Period::LONGEST {
                problems.add(path, format!("found {period}, allowed is up to 365d"));
            }
        };
        period("limits.write", limits.write, Duration::from_nanos(1));
        period("limits.drain", limits.drain, Duration::ZERO);
        period("limits.drain_wait", limits.drain_wait, Duration::ZERO);
    }
}

/// What is wrong, in the order in which it was found.
#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, path: &str, what: impl Into<String>) {
        self.0.push(Problem {
            path: path.to_owned(),
            what: what.into(),
        });
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &[Problem] {
        &self.0
    }
}

// Whether the two cannot both be listened on. Port 0 is another port each time.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    // Linux lets `[::]` take IPv4 connections too.
    let covers = |wide: IpAddr, narrow: IpAddr| {
        wide.is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    a.port() == b.port()
        && a.port() != 0
        && (a.ip() == b.ip() || covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn addresses_overlap_where_the_system_would_refuse_the_second() {
        let check = |a: &str, b: &str, expected: bool| {
            let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(overlap(a, b), expected, "{a} {b}");
            assert_eq!(overlap(b, a), expected, "{b} {a}");
        };
        check("127.0.0.1:1", "127.0.0.1:1", true);
        check("127.0.0.1:1", "127.0.0.1:2", false);
        check("127.0.0.1:1", "127.0.0.2:1", false);
        check("0.0.0.0:1", "127.0.0.1:1", true);
        check("[::]:1", "127.0.0.1:1", true);
        check("[::]:1", "0.0.0.0:1", true);
        check("0.0.0.0:1", "[::1]:1", false);
        check("127.0.0.1:0", "127.0.0.1:0", false);
    }
}
