use super::*;
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

fn head(fields: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in fields.iter().map(field) {
        headers.append(name, value);
    }
    headers
}

#[test]
fn an_answers_framing_is_what_its_head_says() {
    let check = |fields: &[(&str, &str)], expected: Result<Framing, Ambiguous>| {
        let found = of_answer(StatusCode::OK, &head(fields), &Method::POST);
        assert_eq!(found, expected, "{fields:?}");
    };
    check(&[], Ok(Framing::UntilClose));
    check(&[("content-length", "12")], Ok(Framing::Length(12)));
    check(&[("content-length", " 12 , 12")], Ok(Framing::Length(12)));
    check(
        &[("content-length", "12"), ("content-length", "12")],
        Ok(Framing::Length(12)),
    );
    check(
        &[("content-length", "12"), ("content-length", "13")],
        Err(Ambiguous),
    );
    for wrong in ["", "-1", "+1", "1 2", "0x10", "12,", "99999999999999999999"] {
        check(&[("content-length", wrong)], Err(Ambiguous));
    }
    check(&[("transfer-encoding", "chunked")], Ok(Framing::Chunked));
    check(&[("transfer-encoding", "Chunked")], Ok(Framing::Chunked));
    check(
        &[("transfer-encoding", "chunked"), ("content-length", "3")],
        Ok(Framing::Chunked),
    );
    for wrong in ["gzip", "gzip, chunked", "chunked, chunked", ""] {
        check(&[("transfer-encoding", wrong)], Err(Ambiguous));
    }
    check(
        &[
            ("transfer-encoding", "chunked"),
            ("transfer-encoding", "chunked"),
        ],
        Err(Ambiguous),
    );
}

#[test]
fn some_answers_have_no_body_whatever_their_head_says() {
    let check = |status: u16, method: Method, expected: Framing| {
        let status = StatusCode::from_u16(status).unwrap();
        let found = of_answer(status, &head(&[("content-length", "5")]), &method);
        assert_eq!(found, Ok(expected), "{status} to {method}");
    };
    check(200, Method::GET, Framing::Length(5));
    check(200, Method::HEAD, Framing::None);
    check(204, Method::GET, Framing::None);
    check(304, Method::GET, Framing::None);
    check(103, Method::GET, Framing::None);
    check(404, Method::GET, Framing::Length(5));
}

// The data of `wire`, the same in every cutting, and how many bytes are not its.
fn check(wire: &str, expected: Result<(&str, usize), Malformed>) {
    for step in 1..=wire.len().max(1) {
        let (mut decoder, mut data, mut taken) = (Decoder::default(), Vec::new(), 0);
        let mut found = Ok(());
        for piece in wire.as_bytes().chunks(step) {
            match decoder.decode(piece, &mut data) {
                Ok(read) => taken += read,
                Err(malformed) => {
                    found = Err(malformed);
                    break;
                }
            }
        }
        let found = found.map(|()| (String::from_utf8_lossy(&data), wire.len() - taken));
        let found = found.as_ref().map(|(data, over)| (&**data, *over));
        assert_eq!(
            found,
            expected.as_ref().map(|found| *found),
            "{wire:?} by {step}"
        );
        if wire.ends_with("0\r\n\r\n") {
            assert!(decoder.is_done());
        }
    }
}

#[test]
fn chunks_are_read_in_any_cutting() {
    check("0\r\n\r\n", Ok(("", 0)));
    check("3\r\nabc\r\n0\r\n\r\n", Ok(("abc", 0)));
    check("3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", Ok(("abcd", 0)));
    check(
        "00A\r\n0123456789\r\n000\r\n\r\nHTTP",
        Ok(("0123456789", 4)),
    );
    check("3;a=b\r\nabc\r\n0;last\r\n\r\n", Ok(("abc", 0)));
    check("3 \r\nabc\r\n0\r\n\r\n", Ok(("abc", 0)));
    check("0\r\nx-a: b\r\nx-c: d\r\n\r\n", Ok(("", 0)));
    check("5\r\nab", Ok(("ab", 0)));
}

#[test]
fn what_is_no_chunk_is_refused() {
    for wire in [
        "\r\n",
        "x",
        "-1\r\n",
        "3\nabc\r\n",
        "3\rabc",
        "3\r\nabcd\r\n",
        "3\r\nabc\n",
        "3;a\nabc",
        "0\r\n\n",
        "0\r\nx: y\n\r\n",
        "ffffffffffffffff\r\n",
        ";a\r\n",
    ] {
        check(wire, Err(Malformed));
    }
    let long = |extra: usize| format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(extra));
    let mut data = Vec::new();
    assert!(
        Decoder::default()
            .decode(long(8 << 10).as_bytes(), &mut data)
            .is_ok()
    );
    assert!(
        Decoder::default()
            .decode(long((8 << 10) + 1).as_bytes(), &mut data)
            .is_err()
    );
    let trailers = format!("0\r\n{}", "x: y\r\n".repeat(20_000));
    assert!(
        Decoder::default()
            .decode(trailers.as_bytes(), &mut data)
            .is_err()
    );
}

#[test]
fn a_promised_length_is_kept() {
    let mut marked = Marked::new(Framing::Length(5));
    assert_eq!(marked.mark(3).take, 3);
    assert_eq!(marked.end(), Err(Short));
    assert_eq!(marked.mark(3).take, 2);
    assert_eq!(marked.mark(3).take, 0);
    assert_eq!(marked.end(), Ok(&b""[..]));
    assert_eq!(Marked::new(Framing::None).mark(3).take, 0);
    assert_eq!(Marked::new(Framing::UntilClose).mark(3).take, 3);
}

#[test]
fn a_chunks_size_is_written_in_hexadecimal() {
    let check = |size: usize, line: &str| {
        let mark = Marked::new(Framing::Chunked).mark(size);
        assert_eq!(String::from_utf8_lossy(mark.before()), line);
    };
    check(0, "");
    check(1, "1\r\n");
    check(15, "f\r\n");
    check(16, "10\r\n");
    check(0xABC, "abc\r\n");
    check(usize::MAX, &format!("{:x}\r\n", usize::MAX));
}

proptest! {
    #[test]
    fn any_bytes_are_framed_and_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_framing(&bytes);
    }

    #[test]
    fn bytes_like_chunks_read_alike_in_any_cutting(step: u8, text in "([0-3a;\r\n x]|\r\n|1\r\nx\r\n){0,30}") {
        let mut bytes = vec![step];
        bytes.extend_from_slice(text.as_bytes());
        fuzz_framing(&bytes);
    }
}
