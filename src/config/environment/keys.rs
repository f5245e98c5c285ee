//! Variables that stand for keys of the file: `GREYLAG_LIMITS_BODY` for `limits.body`.
//!
//! In: the variables whose names begin with `GREYLAG_`. Out: a tree in which each has taken its key's value, or which of them mean
//! nothing. Which names there are follows from the types. `rules` are no variables: they change while Greylag runs.

use super::Environment;
use crate::config::nearest::nearest;
use crate::config::shape::Shape;
use crate::config::survey::Finding;
use crate::config::tree::{Origin, Tree};
use crate::config::wording;

/// How the names begin.
pub(super) const PREFIX: &str = "GREYLAG_";

/// The name of the variable for a path.
pub(in crate::config) fn name(path: &str) -> String {
    format!("{PREFIX}{}", path.to_ascii_uppercase().replace('.', "_"))
}

/// Whether a variable is not meant to configure Greylag: one of its command line's own, or one that Kubernetes sets for a Service
/// whose name begins with `greylag`.
pub(super) fn is_of_others(name: &str, value: &str) -> bool {
    // `greylag-admin` becomes GREYLAG_ADMIN. A Service's port is a URL, which no key has.
    let is_url = ["tcp://", "udp://", "sctp://"].map(|scheme| value.starts_with(scheme));
    let is_port = (name.ends_with("_PORT") || is_of_port(name, &["TCP", "UDP", "SCTP"]))
        && is_url.contains(&true);
    let ends = ["PROTO", "PORT", "ADDR"];
    name.starts_with("GREYLAG_CTL_")
        || name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || is_port
        || ends.iter().any(|end| {
            let port = name
                .strip_suffix(end)
                .and_then(|name| name.strip_suffix('_'));
            port.is_some_and(|port| is_of_port(port, &["TCP", "UDP", "SCTP"]))
        })
}

// `…_PORT_8000_TCP`.
fn is_of_port(name: &str, protocols: &[&str]) -> bool {
    let mut parts = name.rsplitn(3, '_');
    let (protocol, number, rest) = (parts.next(), parts.next(), parts.next());
    protocol.is_some_and(|protocol| protocols.contains(&protocol))
        && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        && rest.is_some_and(|rest| rest.ends_with("_PORT"))
}

impl Environment {
    /// Whether any variable stands for a key.
    pub(in crate::config) fn sets_keys(&self) -> bool {
        self.0.keys().any(|name| name.starts_with(PREFIX))
    }

    /// Whether a variable stands for the key of this path.
    pub(super) fn sets(&self, path: &str) -> bool {
        self.0.contains_key(&name(path))
    }

    /// Gives keys the values of their variables; says what is wrong with the variables themselves.
    pub(in crate::config) fn override_in(&self, tree: &mut Tree) -> Vec<Finding> {
        if !self.sets_keys() {
            return Vec::new();
        }
        let leaves = Shape::of_types().leaves("rules");
        let known: Vec<(String, Vec<String>)> = leaves
            .into_iter()
            .map(|keys| (name(&keys.join(".")), keys))
            .collect();
        let mut findings = Vec::new();
        for (variable, value) in &self.0 {
            let Some(rest) = variable.strip_prefix(PREFIX) else {
                continue;
            };
            let what = match known.iter().find(|(name, _)| name == variable) {
                Some((_, keys)) => match tree.set(keys, value, variable) {
                    Ok(()) => continue,
                    Err(error) => format!("found what is no YAML: {}", wording::of(&error, "it")),
                },
                None => unknown(rest, &known),
            };
            findings.push(Finding {
                origin: Origin::Variable(variable.as_str().into()),
                path: String::new(),
                what,
            });
        }
        findings
    }
}

fn unknown(rest: &str, known: &[(String, Vec<String>)]) -> String {
    let names = known.iter();
    let names = names.filter_map(|(name, _)| name.strip_prefix(PREFIX));
    match nearest(rest, names) {
        _ if rest == "RULES" || rest.starts_with("RULES_") => {
            "unknown variable; `rules` are not set by variables".to_owned()
        }
        Some(name) => format!("unknown variable; did you mean \"{PREFIX}{name}\"?"),
        None => "unknown variable; allowed: GREYLAG_ and the path of a key outside `rules` in upper case, with _ for each dot, such as GREYLAG_LIMITS_BODY".to_owned(),
    }
}

#[cfg(test)]
mod tests;
