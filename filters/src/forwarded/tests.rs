use proptest::prelude::*;

use super::*;

const PEER: &str = "10.0.0.1";

fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets().starts_with(&[10]),
        IpAddr::V6(v6) => v6.segments().starts_with(&[0xfd00]),
    }
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn check(fields: &[(&'static str, &str)], expected: &str) {
    let found = client(&headers(fields), PEER.parse().unwrap(), is_trusted);
    assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{fields:?}");
}

#[test]
fn the_rightmost_address_that_is_not_trusted_is_the_clients() {
    let xff = |value: &str, expected: &str| check(&[("x-forwarded-for", value)], expected);
    check(&[], PEER);
    xff("203.0.113.7", "203.0.113.7");
    xff("6.6.6.6, 203.0.113.7", "203.0.113.7");
    xff("6.6.6.6, 203.0.113.7, 10.0.0.2,10.0.0.3", "203.0.113.7");
    // All are trusted: the one that began it.
    xff("10.0.0.9, 10.0.0.2", "10.0.0.9");
    xff("203.0.113.7:4711", "203.0.113.7");
    xff("[2001:db8::1]:4711", "2001:db8::1");
    xff("[2001:db8::1]", "2001:db8::1");
    xff("2001:db8::1", "2001:db8::1");
    xff("203.0.113.7, fd00::1", "203.0.113.7");
    xff("::ffff:203.0.113.7", "203.0.113.7");
    xff("203.0.113.7, ::ffff:10.0.0.4", "203.0.113.7");
}

#[test]
fn lines_are_one_list() {
    check(
        &[
            ("x-forwarded-for", "6.6.6.6, 203.0.113.7"),
            ("x-forwarded-for", "10.0.0.2"),
        ],
        "203.0.113.7",
    );
    check(
        &[
            ("forwarded", "for=203.0.113.7"),
            ("forwarded", "for=10.0.0.2"),
        ],
        "203.0.113.7",
    );
}

#[test]
fn what_is_no_address_ends_the_walk() {
    let xff = |value: &str, expected: &str| check(&[("x-forwarded-for", value)], expected);
    xff("203.0.113.7, unknown", PEER);
    xff("203.0.113.7, unknown, 10.0.0.2", "10.0.0.2");
    xff("a.example", PEER);
    xff("203.0.113", PEER);
    xff("[203.0.113.7]", PEER);
    xff("", PEER);
    xff("203.0.113.7, , ", "203.0.113.7");
    check(&[("forwarded", "for=_hidden")], PEER);
    check(&[("forwarded", "for=203.0.113.7, proto=https")], PEER);
    check(&[("forwarded", "for=203.0.113.7;for=203.0.113.8")], PEER);
    check(&[("forwarded", "for")], PEER);
    check(&[("forwarded", "for=\"203.0.113.7")], PEER);
    // What a client has left open hides nothing that proxies have added.
    check(
        &[(
            "forwarded",
            "for=6.6.6.6;host=\"a, for=203.0.113.7, for=10.0.0.2",
        )],
        "203.0.113.7",
    );
    check(
        &[("x-forwarded-for", "\", 203.0.113.7, 10.0.0.2")],
        "203.0.113.7",
    );
}

#[test]
fn forwarded_is_read_where_it_stands_alone() {
    let forwarded = |value: &str, expected: &str| check(&[("forwarded", value)], expected);
    forwarded("for=203.0.113.7", "203.0.113.7");
    forwarded("For=203.0.113.7;proto=https;by=10.0.0.1", "203.0.113.7");
    forwarded("proto=https; for=\"203.0.113.7:80\"", "203.0.113.7");
    forwarded("for=\"[2001:db8::1]:4711\"", "2001:db8::1");
    forwarded("for=6.6.6.6, for=203.0.113.7, for=10.0.0.2", "203.0.113.7");
    forwarded(
        r#"for=203.0.113.7, host="a,b\",c";for=10.0.0.2"#,
        "203.0.113.7",
    );
    check(
        &[
            ("forwarded", "for=6.6.6.6"),
            ("x-forwarded-for", "203.0.113.7"),
        ],
        "203.0.113.7",
    );
    check(
        &[("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "")],
        PEER,
    );
}

#[test]
fn only_so_many_entries_are_looked_at() {
    let list = |trusted: usize| format!("203.0.113.7{}", ", 10.0.0.2".repeat(trusted));
    check(&[("x-forwarded-for", &list(MOST - 1))], "203.0.113.7");
    check(&[("x-forwarded-for", &list(MOST))], "10.0.0.2");
    let empty = format!("203.0.113.7{}", ",".repeat(MOST));
    check(&[("x-forwarded-for", &empty)], PEER);
    let forwarded = format!("for=203.0.113.7{}", ", for=10.0.0.2".repeat(MOST));
    check(&[("forwarded", &forwarded)], "10.0.0.2");
}

#[test]
fn a_peer_is_added_to_the_list_that_is_there() {
    let check = |fields: &[(&'static str, &str)], peer: &str, name: &str, expected: &str| {
        let (field, value) = with_peer(&headers(fields), peer.parse().unwrap());
        assert_eq!(
            (field.as_str(), str::from_utf8(&value).unwrap()),
            (name, expected)
        );
    };
    check(&[], PEER, "x-forwarded-for", PEER);
    check(&[], "fd00::1", "x-forwarded-for", "fd00::1");
    check(
        &[("x-forwarded-for", "a"), ("x-forwarded-for", "b, c")],
        PEER,
        "x-forwarded-for",
        "a, b, c, 10.0.0.1",
    );
    let forwarded = [("forwarded", "for=a")];
    check(&forwarded, PEER, "forwarded", "for=a, for=10.0.0.1");
    check(
        &forwarded,
        "fd00::1",
        "forwarded",
        "for=a, for=\"[fd00::1]\"",
    );
}

#[test]
fn the_fields_of_a_proxy_are_named_once() {
    for name in [X_FORWARDED_FOR, header::FORWARDED] {
        assert!(FIELDS.contains(&name));
    }
}

fn entry() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|octets| IpAddr::from(octets).to_string()),
        any::<[u16; 8]>().prop_map(|segments| IpAddr::from(segments).to_string()),
        (0_u8..4).prop_map(|last| format!("10.0.0.{last}")),
        "[a-z0-9.:\\[\\]\"]{0,12}",
    ]
}

proptest! {
    #[test]
    fn nobody_can_speak_for_those_after_them(
        forged in proptest::collection::vec(entry(), 0..4),
        client_octets: [u8; 4],
        proxies in proptest::collection::vec(0_u8.., 0..8),
    ) {
        let address = IpAddr::from(client_octets);
        prop_assume!(!is_trusted(address));
        let mut list = forged;
        list.push(address.to_string());
        list.extend(proxies.iter().map(|last| format!("10.0.0.{last}")));
        let found = client(&headers(&[("x-forwarded-for", &list.join(", "))]), PEER.parse().unwrap(), is_trusted);
        prop_assert_eq!(found, address);
        let elements: Vec<String> = list.iter().map(|address| format!("for={address}")).collect();
        let found = client(&headers(&[("forwarded", &elements.join(","))]), PEER.parse().unwrap(), is_trusted);
        prop_assert_eq!(found, address);
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        fuzz_forwarded(&bytes);
    }

    #[test]
    fn no_text_that_looks_like_the_fields_panics(text in "([xf](for=|\"|,|;|10\\.0\\.0\\.2|\\[::1\\]|:80|9\\.9\\.9\\.9|\\\\| ){0,12}\n){0,4}") {
        fuzz_forwarded(text.as_bytes());
    }
}
