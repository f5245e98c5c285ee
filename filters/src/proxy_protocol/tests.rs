use proptest::prelude::*;

use super::*;

// A header: command, family and transport, and what stands after the fixed part.
fn header(version_command: u8, family: u8, after: &[u8]) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend([version_command, family]);
    bytes.extend(u16::try_from(after.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(after);
    bytes
}

fn check(bytes: &[u8], source: Source) {
    let length = bytes.len();
    let expected = Ok(Read::Header(Header { source, length }));
    assert_eq!(read(bytes), expected, "{bytes:?}");
    // What follows it is not looked at.
    let mut longer = bytes.to_vec();
    longer.extend_from_slice(b"GET / HTTP/1.1\r\n");
    assert_eq!(read(&longer), expected);
}

fn wrong(bytes: &[u8], fault: Fault) {
    assert_eq!(read(bytes), Err(fault), "{bytes:?}");
}

const V4: [u8; 12] = [203, 0, 113, 7, 10, 0, 0, 1, 0x12, 0x34, 0, 80];

fn v6(source: &str) -> Vec<u8> {
    let source: std::net::Ipv6Addr = source.parse().unwrap();
    let mut after = source.octets().to_vec();
    after.extend([0; 20]);
    after
}

#[test]
fn a_header_says_whose_connection_it_is() {
    let client = |text: &str| Source::Address(text.parse().unwrap());
    check(&header(0x21, 0x11, &V4), client("203.0.113.7"));
    check(&header(0x21, 0x12, &V4), client("203.0.113.7"));
    check(
        &header(0x21, 0x21, &v6("2001:db8::1")),
        client("2001:db8::1"),
    );
    check(
        &header(0x21, 0x21, &v6("::ffff:203.0.113.7")),
        client("203.0.113.7"),
    );
    check(&header(0x21, 0x31, &[0; 216]), Source::Nameless);
    check(&header(0x21, 0x00, &[]), Source::Peer);
}

#[test]
fn a_local_connection_is_the_peers_whatever_else_it_says() {
    check(&header(0x20, 0x00, &[]), Source::Peer);
    check(&header(0x20, 0x11, &V4), Source::Peer);
    check(&header(0x20, 0xff, &[1, 2, 3]), Source::Peer);
}

#[test]
fn what_stands_after_the_addresses_is_skipped() {
    let mut after = V4.to_vec();
    // PP2_TYPE_ALPN "h2", then nonsense.
    after.extend([0x01, 0, 2, b'h', b'2', 0xff]);
    let client = Source::Address("203.0.113.7".parse().unwrap());
    check(&header(0x21, 0x11, &after), client);
    after.resize(usize::from(u16::MAX), 0xee);
    check(&header(0x21, 0x11, &after), client);
    assert_eq!(header(0x21, 0x11, &after).len(), LONGEST);
}

#[test]
fn what_is_no_header_is_told_at_the_first_byte_that_differs() {
    wrong(b"G", Fault::None);
    wrong(b"\r\n\r\n\0\r\nQUIX", Fault::None);
    // A TLS handshake, and HTTP/2's preface.
    wrong(&[22, 3, 1], Fault::None);
    wrong(b"PRI * HTTP/2.0", Fault::None);
    wrong(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", Fault::Version1);
    wrong(b"PROXY UNKNOWN\r\n", Fault::Version1);
    wrong(&header(0x11, 0x11, &V4), Fault::Version(1));
    wrong(&header(0x31, 0x11, &V4), Fault::Version(3));
    wrong(&header(0x22, 0x11, &V4), Fault::Command(2));
    wrong(&header(0x21, 0x10, &V4), Fault::Family(0x10));
    wrong(&header(0x21, 0x41, &V4), Fault::Family(0x41));
    let short = |found, needed| Fault::Short { found, needed };
    wrong(&header(0x21, 0x11, &V4[..11]), short(11, 12));
    wrong(&header(0x21, 0x21, &V4), short(12, 36));
    wrong(&header(0x21, 0x31, &[]), short(0, 216));
}

#[test]
fn a_beginning_asks_for_more() {
    let whole = header(0x21, 0x11, &V4);
    for end in 0..whole.len() {
        let needed = if end < FIXED { FIXED } else { whole.len() };
        assert_eq!(read(&whole[..end]), Ok(Read::More(needed)), "{end}");
    }
    assert_eq!(read(b"PROX"), Ok(Read::More(6)));
    assert_eq!(read(b"P"), Ok(Read::More(6)));
}

proptest! {
    #[test]
    fn every_address_is_read_as_it_was_written(source: [u8; 4], rest in proptest::collection::vec(any::<u8>(), 8..300)) {
        let mut after = source.to_vec();
        after.extend(&rest);
        let bytes = header(0x21, 0x11, &after);
        let expected = Header { source: Source::Address(IpAddr::from(source)), length: bytes.len() };
        prop_assert_eq!(read(&bytes), Ok(Read::Header(expected)));
        fuzz_proxy_protocol(&bytes);
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        fuzz_proxy_protocol(&bytes);
    }

    #[test]
    fn nothing_after_the_signature_panics(version_command: u8, family: u8, after: Vec<u8>, cut in 0_usize..40) {
        let mut bytes = header(version_command, family, &after);
        bytes.truncate(bytes.len().saturating_sub(cut));
        fuzz_proxy_protocol(&bytes);
    }
}
