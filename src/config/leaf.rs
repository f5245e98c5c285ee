//! How addresses and ranges are read, so that a message says what is allowed.
//!
//! In: a text. Out: a value of the standard library's kind, or what was found and what is allowed.

use std::net::{IpAddr, SocketAddr};

use greylag_filters::written::start;
use ipnet::IpNet;
use serde::de::{Deserialize, Deserializer, Error};

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
