//! The header that a load balancer puts before a connection: PROXY protocol, version 2
//! (<https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>).
//!
//! In: the first bytes of a connection. Out: whose connection it is and how long the header is, or that more must be read,
//! or what is wrong. It is told at the first byte that is wrong. Version 1, which is text without a fixed length, is only
//! recognised.

use std::net::IpAddr;

/// What every header begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// How long what is fixed is: signature, version and command, family and transport, the length of the rest.
pub const FIXED: usize = 16;
/// How long a header can be, in bytes: the length of the rest has 16 bits.
pub const LONGEST: usize = FIXED + u16::MAX as usize;
/// What version 1 begins with.
const VERSION_1: &[u8; 6] = b"PROXY ";

/// Whose connection it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// The peer's own: a health check of the load balancer's, or a client that it says nothing of.
    Peer,
    /// A client's at this address.
    Address(IpAddr),
    /// A client's that came to the load balancer over a unix socket, so it has no address.
    Nameless,
}

/// A header that is whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Whose connection it is.
    pub source: Source,
    /// How long it is in bytes, with what is left unread at its end (TLVs); at most [`LONGEST`].
    pub length: usize,
}

/// What the beginning of a connection says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Read {
    /// A header, all of which is there.
    Header(Header),
    /// As far as it goes it is one; it goes on up to so many bytes at least.
    More(usize),
}

/// Why it is no header of version 2.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Something else begins here.
    #[error("found no PROXY header; a binary one (version 2) must come first")]
    None,
    /// Version 1.
    #[error(
        "found a PROXY header of version 1, which is text; only version 2, which is binary, is read"
    )]
    Version1,
    /// A version that is not known.
    #[error("found version {0} of the PROXY protocol, allowed is 2")]
    Version(u8),
    /// A command that is not known.
    #[error("found the PROXY command {0}, allowed are 0 (LOCAL) and 1 (PROXY)")]
    Command(u8),
    /// A family and transport that are not known.
    #[error("found the PROXY address family and transport {0:#04x}, which are not known")]
    Family(u8),
    /// Less than the addresses need.
    #[error(
        "found a PROXY header of {found} bytes after the fixed part, its addresses need {needed}"
    )]
    Short {
        /// The length that it gives.
        found: usize,
        /// What its addresses need.
        needed: usize,
    },
}

/// Reads the first bytes of a connection.
///
/// # Errors
/// A [`Fault`]: it is no header of version 2, whatever follows.
pub fn read(bytes: &[u8]) -> Result<Read, Fault> {
    let text = bytes.len().min(VERSION_1.len());
    if text > 0 && bytes.get(..text) == VERSION_1.get(..text) {
        return match text < VERSION_1.len() {
            true => Ok(Read::More(VERSION_1.len())),
            false => Err(Fault::Version1),
        };
    }
    let signed = bytes.len().min(SIGNATURE.len());
    if bytes.get(..signed) != SIGNATURE.get(..signed) {
        return Err(Fault::None);
    }
    let command = match bytes.get(12) {
        None => return Ok(Read::More(FIXED)),
        Some(byte) if byte >> 4 != 2 => return Err(Fault::Version(byte >> 4)),
        Some(byte) => byte & 0x0f,
    };
    if command > 1 {
        return Err(Fault::Command(command));
    }
    let Some(&[family, high, low]) = bytes.get(13..FIXED) else {
        return Ok(Read::More(FIXED));
    };
    let rest = usize::from(u16::from_be_bytes([high, low]));
    let length = FIXED + rest;
    // What LOCAL says of addresses means nothing.
    let needed = match command {
        0 => 0,
        _ => addresses(family)?,
    };
    if rest < needed {
        return Err(Fault::Short {
            found: rest,
            needed,
        });
    }
    let Some(after) = bytes.get(FIXED..length) else {
        return Ok(Read::More(length));
    };
    let source = match (needed, after.first_chunk::<4>(), after.first_chunk::<16>()) {
        (IPV4, Some(octets), _) => Source::Address(IpAddr::from(*octets)),
        (IPV6, _, Some(octets)) => Source::Address(IpAddr::from(*octets).to_canonical()),
        (UNIX, ..) => Source::Nameless,
        _ => Source::Peer,
    };
    Ok(Read::Header(Header { source, length }))
}

// How long both addresses and both ports are together.
const IPV4: usize = 12;
const IPV6: usize = 36;
const UNIX: usize = 216;

// How long the addresses of a family (high four bits) and transport (low four: stream or datagram) are.
fn addresses(family: u8) -> Result<usize, Fault> {
    match family {
        0x00 => Ok(0),
        0x11 | 0x12 => Ok(IPV4),
        0x21 | 0x22 => Ok(IPV6),
        0x31 | 0x32 => Ok(UNIX),
        other => Err(Fault::Family(other)),
    }
}

/// What a fuzzer feeds: no bytes may panic, and what is told of a beginning holds for all of it.
#[cfg(any(test, fuzzing))]
pub fn fuzz_proxy_protocol(bytes: &[u8]) {
    let whole = read(bytes);
    for end in 0..bytes.len().min(FIXED + UNIX + 2) {
        let beginning = bytes.get(..end).unwrap_or_default();
        match read(beginning) {
            Ok(Read::More(needed)) => assert!(end < needed && needed <= LONGEST),
            Ok(Read::Header(header)) => {
                assert!(header.length <= end);
                assert_eq!(whole, Ok(Read::Header(header)));
            }
            Err(fault) => assert_eq!(whole, Err(fault)),
        }
    }
    if let Ok(Read::Header(header)) = whole {
        assert!((FIXED..=bytes.len()).contains(&header.length));
    }
}

#[cfg(test)]
mod tests;
