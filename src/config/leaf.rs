//! How addresses and ranges are read, so that a message says what is allowed.
//!
//! In: a text. Out: a value of the standard library's kind, or what was found and what is allowed.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use greylag_filters::written::start;
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::Place;

/// Reads `IP:PORT`.
pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| {
        let found = start(&text);
        D::Error::custom(format_args!(
            "an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\"; found {found:?}"
        ))
    })
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Ip(address) => write!(f, "{address}"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Place, D::Error> {
        let text = String::deserialize(from)?;
        if let Some(path) = text
            .strip_prefix("unix:")
            .filter(|path| path.starts_with('/'))
        {
            return Ok(Place::Unix(path.into()));
        }
        text.parse().map(Place::Ip).map_err(|_| {
            let found = start(&text);
            D::Error::custom(format_args!(
                "an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\", or unix:/PATH; found {found:?}"
            ))
        })
    }
}

impl JsonSchema for Place {
    fn schema_name() -> Cow<'static, str> {
        "Place".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["0.0.0.0:8000", "unix:/run/greylag.sock"] })
    }
}

/// Reads a file's mode, in octal.
pub(super) fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else {
        return Ok(None);
    };
    let is_mode = u32::from_str_radix(&text, 8).is_ok_and(|mode| mode <= 0o777);
    if !is_mode || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let found = start(&text);
        return Err(D::Error::custom(format_args!(
            "a mode is octal digits up to 777, in quotes, such as \"0660\"; found {found:?}"
        )));
    }
    Ok(Some(text))
}

/// A file's mode that was read.
pub(super) fn as_mode(mode: Option<&str>) -> Option<u32> {
    u32::from_str_radix(mode?, 8).ok()
}

/// Reads a list of ranges; a single address is the range of itself.
pub(super) fn ranges<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let ranges = Vec::<Range>::deserialize(from)?;
    Ok(ranges.into_iter().map(|Range(range)| range).collect())
}

struct Range(IpNet);

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Range, D::Error> {
        let text = String::deserialize(from)?;
        let single = |_| text.parse::<IpAddr>().map(IpNet::from);
        text.parse().or_else(single).map(Range).map_err(|_| {
            let found = start(&text);
            D::Error::custom(format_args!(
                "a range is IP/BITS or a single IP, such as \"10.0.0.0/8\" or \"fc00::/7\"; found {found:?}"
            ))
        })
    }
}
