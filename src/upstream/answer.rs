//! The head of an engine's answer.
//!
//! In: bytes. Out: a head, or that more is needed. `httparse` reads it; what it lets pass is what Pingora lets pass: names
//! followed by spaces, and lines that go on in the next one.

use std::mem::MaybeUninit;

use bytes::Bytes;
use greylag_filters::hop;
use http::{Version, header};
use httparse::{ParserConfig, Response, Status};
use pingora_http::{ResponseHeader, header_value_from_raw};

use super::Broken;

/// The longest head, in bytes, and the most fields in it.
const LONGEST: (usize, usize) = (1 << 20, 256);

/// The head that `bytes` begin with, and its length; nothing if it is not whole.
///
/// # Errors
/// [`Broken::Garbage`]: this is no head, or too long a one.
pub fn head(bytes: &[u8]) -> Result<Option<(Box<ResponseHeader>, usize)>, Broken> {
    const MOST: usize = LONGEST.1;
    let (longest, _) = LONGEST;
    // Nothing is parsed before there is something: the usual first call.
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut config = ParserConfig::default();
    config.allow_spaces_after_header_name_in_responses(true);
    config.allow_obsolete_multiline_headers_in_responses(true);
    let mut fields = [const { MaybeUninit::uninit() }; MOST];
    let mut found = Response::new(&mut []);
    let parsed = config.parse_response_with_uninit_headers(&mut found, bytes, &mut fields);
    match parsed {
        Ok(Status::Complete(length)) if length <= longest => Ok(Some((
            built(&found, &bytes[..length]).ok_or(Broken::Garbage)?,
            length,
        ))),
        Ok(Status::Partial) if bytes.len() <= longest => Ok(None),
        _ => Err(Broken::Garbage),
    }
}

fn built(found: &Response<'_, '_>, bytes: &[u8]) -> Option<Box<ResponseHeader>> {
    // One copy holds every name and value.
    let all = Bytes::copy_from_slice(bytes);
    let held = |part: &[u8]| {
        let start = part.as_ptr() as usize - bytes.as_ptr() as usize;
        all.slice(start..start + part.len())
    };
    let mut head = Box::new(ResponseHeader::build(found.code?, Some(found.headers.len())).ok()?);
    head.set_version(match found.version {
        Some(1) => Version::HTTP_11,
        _ => Version::HTTP_10,
    });
    head.set_reason_phrase(found.reason).ok()?;
    for field in found.headers.iter() {
        let value = header_value_from_raw(held(field.value));
        head.append_header(held(field.name.as_bytes()), value)
            .ok()?;
    }
    // A length beside a coding is void (RFC 9112 §6.3).
    if head.headers.contains_key(header::TRANSFER_ENCODING) {
        head.remove_header(&header::CONTENT_LENGTH);
    }
    Some(head)
}

/// Whether the connection may carry another request after this answer (RFC 9112 §9.3).
pub fn keeps_connection(head: &ResponseHeader) -> bool {
    let names = |option| hop::names(&head.headers, option);
    match head.version {
        Version::HTTP_11 => !names("close"),
        _ => {
            let is_chunked = head.headers.contains_key(header::TRANSFER_ENCODING);
            names("keep-alive") && !names("close") && !is_chunked
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Box<ResponseHeader>, usize)> {
        for length in 0..text.len() {
            assert_eq!(
                head(&text.as_bytes()[..length]).map(|found| found.is_some()),
                Ok(false),
                "{length} of {text:?}"
            );
        }
        head(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = "HTTP/1.1 200 Fine\r\nX-Odd-Case: a\r\nx-odd-case: b\r\nEmpty:\r\n\r\n";
        let (found, length) = read(text).unwrap();
        assert_eq!((found.status.as_u16(), length), (200, text.len()));
        assert_eq!(found.get_reason_phrase(), Some("Fine"));
        let mut out = Vec::new();
        crate::wire::answer_head(&found, &mut out);
        let expected = text.replace("Empty:", "Empty: ");
        assert_eq!(String::from_utf8_lossy(&out), expected);
        // What follows is no part of it.
        let (_, length) = head(format!("{text}HTTP").as_bytes()).unwrap().unwrap();
        assert_eq!(length, text.len());
    }

    #[test]
    fn a_folded_line_is_one_value() {
        let (found, _) = read("HTTP/1.1 200 OK\r\na: b\r\n  c\r\n\r\n").unwrap();
        assert_eq!(found.headers["a"], "b c");
    }

    #[test]
    fn a_length_beside_a_coding_is_void() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(!read(text).unwrap().0.headers.contains_key("content-length"));
    }

    #[test]
    fn rubbish_is_no_head() {
        for text in [
            "HTTP/2 200\r\n\r\n",
            "x",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\n: a\r\n\r\n",
        ] {
            assert_eq!(
                head(text.as_bytes()).map(drop),
                Err(Broken::Garbage),
                "{text:?}"
            );
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(257));
        assert_eq!(head(many.as_bytes()).map(drop), Err(Broken::Garbage));
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(1 << 20));
        assert_eq!(head(long.as_bytes()).map(drop), Err(Broken::Garbage));
    }

    #[test]
    fn a_connection_is_kept_as_the_head_says() {
        let check = |version: &str, fields: &str, expected: bool| {
            let text = format!("HTTP/{version} 200 OK\r\n{fields}\r\n");
            assert_eq!(
                keeps_connection(&read(&text).unwrap().0),
                expected,
                "{text:?}"
            );
        };
        check("1.1", "", true);
        check("1.1", "Connection: a, Close\r\n", false);
        check(
            "1.1",
            "Connection: keep-alive\r\nConnection: close\r\n",
            false,
        );
        check("1.0", "", false);
        check("1.0", "Connection: Keep-Alive\r\n", true);
        check(
            "1.0",
            "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
            false,
        );
    }
}
