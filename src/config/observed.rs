//! Where the observe listener of a process is, for those who ask it from beside that process.
//!
//! In: the configuration file, if there is one, and the environment. Out: the address to ask. Nothing else in the file is read: a
//! process goes on with what it began with, so an edit that cannot be used says nothing of its health.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde::Deserialize;

use super::read::{malformed, text_of};
use super::{Environment, Fault, Observe, leaf, survey, tree};

const VARIABLE: &str = "GREYLAG_OBSERVE_ADDRESS";

// The one key that is looked for; others may say what they like.
#[derive(Deserialize)]
struct Glance {
    #[serde(default)]
    observe: Listener,
}

#[derive(Deserialize)]
#[serde(default)]
struct Listener {
    #[serde(deserialize_with = "leaf::address")]
    address: SocketAddr,
}

// A single value, as a variable holds it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Value(#[serde(deserialize_with = "leaf::address")] SocketAddr);

impl Default for Listener {
    fn default() -> Self {
        Listener {
            address: Observe::default().address,
        }
    }
}

impl Observe {
    /// Where a process with this file and this environment is asked: what the variable says, else the file, else the
    /// default. A listener on all addresses is asked on loopback.
    ///
    /// # Errors
    /// A [`Fault`]: the file cannot be read, or what stands where an address should is none.
    pub fn address_to_ask(
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<SocketAddr, Fault> {
        let address = match (environment.get(VARIABLE), file) {
            (Some(value), _) => of_variable(value)?,
            (None, Some(file)) => of_file(file)?,
            (None, None) => Observe::default().address,
        };
        Ok(reachable(address))
    }
}

fn of_variable(value: &str) -> Result<SocketAddr, Fault> {
    let options = serde_saphyr::options! { with_snippet: false };
    let read = serde_saphyr::from_str_with_options::<Value>(value, options);
    let line = |error| format!("environment: {VARIABLE}: {}", survey::general(&error).what);
    read.map(|Value(address)| address)
        .map_err(|error| Fault::Problems {
            problems: vec![line(error)],
        })
}

fn of_file(file: &Path) -> Result<SocketAddr, Fault> {
    let text = text_of(file)?;
    let options = serde_saphyr::options! { with_snippet: false };
    let glance = serde_saphyr::from_str_with_options::<Glance>(&text, options);
    glance
        .map(|glance| glance.observe.address)
        .map_err(|error| {
            let place = error.location().map(tree::place);
            let what = survey::general(&error).what;
            malformed(&file.display().to_string(), place, what)
        })
}

fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_counts_before_the_file_and_the_file_before_the_default() {
        let path = std::env::temp_dir().join(format!("greylag-observed-{}", std::process::id()));
        let check = |text: Option<&str>, variable: &str, expected: &str| {
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let environment = Environment::of([(VARIABLE, variable)]);
            let found = Observe::address_to_ask(text.map(|_| &*path), &environment);
            let found = match found {
                Ok(address) => address.to_string(),
                Err(fault) => fault.to_string().replace(path.to_str().unwrap(), "FILE"),
            };
            assert_eq!(found, expected, "{text:?} {variable:?}");
        };
        check(None, "", "127.0.0.1:9902");
        check(None, "127.0.0.1:1", "127.0.0.1:1");
        check(None, "\"[::]:1\"", "[::1]:1");
        check(Some("workers: 1"), "", "127.0.0.1:9902");
        check(Some("observe: {}"), "", "127.0.0.1:9902");
        check(
            Some("observe: { address: \"0.0.0.0:2\" }"),
            "",
            "127.0.0.1:2",
        );
        check(Some("observe: { address: \"[::]:2\" }"), "", "[::1]:2");
        check(
            Some("observe: { address: \"10.0.0.1:2\" }"),
            "0.0.0.0:3",
            "127.0.0.1:3",
        );
        // The process goes on while its file is being edited.
        check(
            Some("worker: 1\nobserve: { drane: /x, address: \"127.0.0.1:2\" }\nrules: 7\n"),
            "",
            "127.0.0.1:2",
        );
        check(
            Some("observe: { address: here }"),
            "",
            "FILE:1:21: an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\"; found \"here\"",
        );
        check(
            None,
            "here",
            "environment: GREYLAG_OBSERVE_ADDRESS: an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\"; found \"here\"",
        );
        std::fs::remove_file(&path).unwrap();
    }
}
