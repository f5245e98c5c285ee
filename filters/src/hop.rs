//! Which fields of a head belong to one connection only.
//!
//! In: a head's fields. Out: the names of those that must not be passed on (RFC 9110 §7.6.1). What a sender nominates in
//! `Connection` is believed, but for the fields that frame or address the message: nominating those would let a caller
//! change what the next server reads.

use http::{HeaderMap, HeaderName, header};

/// The fields of `headers` that are for this connection alone.
pub fn hop_by_hop(headers: &HeaderMap) -> Vec<HeaderName> {
    let nominated = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .filter(|name| !KEPT.contains(name));
    let mut names: Vec<HeaderName> = ALWAYS.iter().cloned().chain(nominated).collect();
    names.retain(|name| headers.contains_key(name));
    names
}

/// Whether `Connection` names `option`, in any case, in any of its fields (RFC 9110 §7.6.1).
pub fn names(headers: &HeaderMap, option: &str) -> bool {
    let values = headers.get_all(header::CONNECTION).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|named| named.trim().eq_ignore_ascii_case(option))
}

const ALWAYS: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

const KEPT: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::AUTHORIZATION,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[(&str, &str)], stripped: &[&str]) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        let mut names: Vec<String> = hop_by_hop(&headers)
            .iter()
            .map(ToString::to_string)
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names, stripped, "{fields:?}");
    }

    #[test]
    fn fields_of_one_connection_are_told_from_the_rest() {
        check(&[("host", "a"), ("content-length", "3")], &[]);
        check(
            &[("Connection", "keep-alive"), ("Keep-Alive", "timeout=5")],
            &["connection", "keep-alive"],
        );
        check(
            &[("te", "trailers"), ("upgrade", "h2c")],
            &["te", "upgrade"],
        );
        check(
            &[
                ("connection", "close, X-Own"),
                ("x-own", "1"),
                ("x-other", "2"),
            ],
            &["connection", "x-own"],
        );
        check(
            &[
                ("connection", "a"),
                ("connection", "b"),
                ("a", "1"),
                ("b", "2"),
            ],
            &["a", "b", "connection"],
        );
    }

    #[test]
    fn what_frames_or_addresses_a_message_cannot_be_nominated() {
        check(
            &[
                ("connection", "host, content-length,authorization"),
                ("host", "a"),
                ("content-length", "3"),
                ("authorization", "x"),
            ],
            &["connection"],
        );
        check(
            &[("connection", "not a name, ,"), ("x", "1")],
            &["connection"],
        );
    }

    #[test]
    fn an_option_is_found_in_any_field_and_case() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        headers.append(header::CONNECTION, "close".parse().unwrap());
        for option in ["keep-alive", "upgrade", "close"] {
            assert!(names(&headers, option), "{option}");
        }
        assert!(!names(&headers, "up") && !names(&HeaderMap::new(), "close"));
    }
}
