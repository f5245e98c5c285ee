//! Whose request it is, as the proxies on its way say.
//!
//! In: a head's fields, the peer that sent them, and who is trusted. Out: the client's address. The lists of
//! `x-forwarded-for` and `forwarded` (RFC 7239) are walked from the right, as each proxy adds to their end: the first
//! address that is not trusted is the client's, since what stands before it is only its word. `forwarded` is read where
//! there is no `x-forwarded-for`.

mod element;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, header};

/// The field that most proxies write.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The fields that say whose request it is. Of who is not trusted they are a lie in waiting.
pub const FIELDS: [HeaderName; 3] = [
    X_FORWARDED_FOR,
    header::FORWARDED,
    HeaderName::from_static("x-real-ip"),
];

/// So many entries are looked at; of a longer list the client is the last of them.
pub const MOST: usize = 64;

/// The client's address, by the word of a peer that is trusted: the peer's own where nothing says more.
///
/// An entry that is no address (`unknown`, a name, nonsense) ends the walk: the client is then the last address before
/// it. Empty entries mean nothing. An address may have a port.
pub fn client(headers: &HeaderMap, peer: IpAddr, is_trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    let read = match headers.contains_key(&X_FORWARDED_FOR) {
        true => element::address,
        false => element::forwarded_for,
    };
    let mut found = peer;
    for entry in entries(headers) {
        if !is_trusted(found) {
            break;
        }
        match read(entry) {
            Some(address) => found = address,
            None => break,
        }
    }
    found
}

/// The field that is written when a peer is added to the list of those that a request has passed, and its value: the one
/// that the caller used, else `x-forwarded-for`. All its values become one, with the peer at its end.
pub fn with_peer(headers: &HeaderMap, peer: IpAddr) -> (HeaderName, Vec<u8>) {
    let uses_forwarded =
        !headers.contains_key(&X_FORWARDED_FOR) && headers.contains_key(header::FORWARDED);
    let (name, entry) = match (uses_forwarded, peer) {
        (false, _) => (X_FORWARDED_FOR, peer.to_string()),
        (true, IpAddr::V4(_)) => (header::FORWARDED, format!("for={peer}")),
        (true, IpAddr::V6(_)) => (header::FORWARDED, format!("for=\"[{peer}]\"")),
    };
    let mut value = Vec::new();
    let before = headers.get_all(&name).iter();
    let before = before.map(|line| line.as_bytes().trim_ascii());
    for part in before.filter(|line| !line.is_empty()) {
        value.extend_from_slice(part);
        value.extend_from_slice(b", ");
    }
    value.extend_from_slice(entry.as_bytes());
    (name, value)
}

// The entries of the list that counts, from its end, at most `MOST` with the empty ones.
fn entries(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let (name, quotes) = match headers.contains_key(&X_FORWARDED_FOR) {
        true => (X_FORWARDED_FOR, false),
        false => (header::FORWARDED, true),
    };
    let lines = headers.get_all(name).iter().rev();
    lines
        .flat_map(move |line| element::from_the_end(line.as_bytes(), quotes))
        .take(MOST)
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
}

/// What a fuzzer feeds: lines that are taken for fields. No bytes may panic, and who is not trusted has the last word.
#[cfg(any(test, fuzzing))]
pub fn fuzz_forwarded(bytes: &[u8]) {
    use http::HeaderValue;

    let mut headers = HeaderMap::new();
    for line in bytes.split(|b| *b == b'\n') {
        let (kind, value) = line.split_first().unwrap_or((&0, &[]));
        let name = if *kind == b'x' {
            X_FORWARDED_FOR
        } else {
            header::FORWARDED
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    let peer = IpAddr::from([10, 0, 0, 1]);
    let is_trusted =
        |address: IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets().starts_with(&[10]));
    let found = client(&headers, peer, is_trusted);
    assert_eq!(client(&headers, peer, |_| false), peer);
    // Passed on with the peer added, it means the same to the next proxy, unless the list was at its bound.
    let (name, value) = with_peer(&headers, peer);
    let value = HeaderValue::from_bytes(&value).expect("parts of values and an address");
    let entries = entries(&headers).count();
    let mut next = headers.clone();
    next.insert(name, value);
    let seen = client(&next, IpAddr::from([10, 0, 0, 2]), is_trusted);
    let commas = bytes.iter().filter(|b| matches!(b, b',' | b'\n')).count();
    if entries + commas + 2 < MOST && element::are_closed(&headers) {
        assert_eq!(seen, found);
    }
}

#[cfg(test)]
mod tests;
