//! Where an HTTP/1.1 message's body ends, and how it is marked (RFC 9112 §6, §7).
//!
//! In: heads, and bytes of bodies in any cutting. Out: a body's [`Framing`], its data without the marks, or its data
//! with them. Trailers are read and dropped.

mod chunked;
mod marked;

use http::{HeaderMap, Method, StatusCode, header};

pub use chunked::{Decoder, Malformed};
pub use marked::{Mark, Marked, Short};

/// How a body's end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body, and no field that says so.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, of which the last is empty.
    Chunked,
    /// The connection's end.
    UntilClose,
}

/// An answer whose end cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ambiguous;

/// Whether an answer with this status to this method may have a body (RFC 9110 §6.4.1).
pub fn may_have_body(status: StatusCode, method: &Method) -> bool {
    *method != Method::HEAD
        && !status.is_informational()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED
}

/// The framing of an answer with this head to a request with this method (RFC 9112 §6.3).
///
/// # Errors
/// [`Ambiguous`]: a transfer coding other than `chunked`, or lengths that are none or differ.
pub fn of_answer(
    status: StatusCode,
    headers: &HeaderMap,
    method: &Method,
) -> Result<Framing, Ambiguous> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let coding = codings.next();
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
        || codings.next().is_some()
    {
        return Err(Ambiguous);
    }
    let length = length(headers)?;
    if !may_have_body(status, method) {
        return Ok(Framing::None);
    }
    Ok(match (coding, length) {
        (Some(_), _) => Framing::Chunked,
        (None, Some(length)) => Framing::Length(length),
        (None, None) => Framing::UntilClose,
    })
}

// Equal lengths count as one (RFC 9110 §8.6).
fn length(headers: &HeaderMap) -> Result<Option<u64>, Ambiguous> {
    let mut found = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        for part in value.as_bytes().split(|byte| *byte == b',') {
            let length = digits(part.trim_ascii()).ok_or(Ambiguous)?;
            if found.is_some_and(|found| found != length) {
                return Err(Ambiguous);
            }
            found = Some(length);
        }
    }
    Ok(found)
}

// Digits alone: a sign, which Rust would read, is none.
fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok()?;
    is_number.then(|| text.parse().ok()).flatten()
}

/// The body of the fuzz target: what is chunked is read back, in any cutting, and rubbish is refused alike.
#[cfg(any(test, fuzzing))]
pub fn fuzz_framing(bytes: &[u8]) {
    let Some((&step, rest)) = bytes.split_first() else {
        return;
    };
    let step = usize::from(step).max(1);
    let read = |step: usize| {
        let (mut decoder, mut data, mut taken) = (Decoder::default(), Vec::new(), 0);
        for piece in rest.chunks(step) {
            match decoder.decode(piece, &mut data) {
                Ok(read) => taken += read,
                Err(malformed) => return (Err(malformed), data),
            }
            if decoder.is_done() {
                break;
            }
        }
        (Ok((taken, decoder.is_done())), data)
    };
    assert_eq!(read(step), read(rest.len().max(1)), "the cutting shows");

    let mut marked = Marked::new(Framing::Chunked);
    let mut wire = Vec::new();
    for piece in rest.chunks(step) {
        let mark = marked.mark(piece.len());
        wire.extend_from_slice(mark.before());
        wire.extend_from_slice(piece);
        wire.extend_from_slice(mark.after);
    }
    wire.extend_from_slice(marked.end().expect("chunks may end anywhere"));
    let (mut decoder, mut data) = (Decoder::default(), Vec::new());
    assert_eq!(decoder.decode(&wire, &mut data), Ok(wire.len()));
    assert!(decoder.is_done() && data == rest, "what was marked differs");
}

#[cfg(test)]
mod tests;
