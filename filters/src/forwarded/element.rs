//! The lists of both fields: their entries, and the address in one.

use std::iter::from_fn;
use std::net::{IpAddr, SocketAddr};

/// The entries of a value from its end, with the spaces around them. With `quotes` a comma in quotes is part of its
/// entry. Read from the end, quotes that a client has left open take in nothing of what proxies have added after them.
pub(super) fn from_the_end(value: &[u8], quotes: bool) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    from_fn(move || {
        let list = rest?;
        let comma = last_comma(list, quotes);
        let (before, entry) = match comma.and_then(|comma| list.split_at_checked(comma)) {
            Some((before, entry)) => (Some(before), entry.get(1..).unwrap_or_default()),
            None => (None, list),
        };
        rest = before;
        Some(entry)
    })
}

fn last_comma(list: &[u8], quotes: bool) -> Option<usize> {
    let mut quoted = false;
    let mut from_end = list.iter().enumerate().rev();
    let (comma, _) = from_end.find(|(at, byte)| {
        match byte {
            b'"' if quotes => quoted ^= !is_escaped(list, *at),
            b',' => return !quoted,
            _ => {}
        }
        false
    })?;
    Some(comma)
}

// Whether an odd number of backslashes stands before what stands at `at`.
fn is_escaped(list: &[u8], at: usize) -> bool {
    let before = list.get(..at).unwrap_or_default();
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// The address of an entry of `x-forwarded-for`: IPv4 or IPv6, alone, in brackets, or with a port.
pub(super) fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry).ok()?;
    let bare = || text.parse::<IpAddr>();
    let with_port = |_| text.parse::<SocketAddr>().map(|address| address.ip());
    let address = bare().or_else(with_port).ok().or_else(|| {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        inside.parse().ok().filter(IpAddr::is_ipv6)
    })?;
    Some(address.to_canonical())
}

/// The address of an element of `forwarded`: its `for`, once, quoted or not (RFC 7239 §4 and §6).
pub(super) fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = Some(element);
    while let Some(pairs) = rest {
        let (pair, after) = cut(pairs, b';');
        rest = after;
        let (name, value) = cut(pair.trim_ascii(), b'=');
        if name.eq_ignore_ascii_case(b"for") {
            let value = value.filter(|_| found.is_none())?;
            found = Some(value);
        }
    }
    let value = found?;
    let inside = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    // An address needs no escape, so a value that has one is none.
    address(inside.unwrap_or(value))
}

// What stands before the first `at` outside quotes, and what stands after it.
fn cut(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    let (mut quoted, mut escaped) = (false, false);
    let end = text.iter().position(|byte| {
        let is_end = !quoted && *byte == at;
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ => {}
        }
        is_end
    });
    match end.and_then(|end| text.split_at_checked(end)) {
        Some((before, after)) => (before, after.get(1..)),
        None => (text, None),
    }
}

/// Whether no value leaves quotes open, so that joining values changes no entry.
#[cfg(any(test, fuzzing))]
pub(super) fn are_closed(headers: &http::HeaderMap) -> bool {
    // A comma before the value begins it anew only outside quotes.
    headers.values().all(|value| {
        let longer = [b",", value.as_bytes()].concat();
        from_the_end(&longer, true)
            .last()
            .is_some_and(<[u8]>::is_empty)
    })
}
