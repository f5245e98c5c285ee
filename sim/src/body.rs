//! Reads bodies from a connection, by length or in chunks, on either side of it.
//!
//! In: bytes in any cutting. Out: the same bytes without their framing, in pieces as they come. Never holds more than one
//! read; what comes after the body stays in the inbox.

use crate::wire::{Gone, Wire};

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After so many bytes.
    Length(usize),
    /// With an empty chunk.
    Chunked,
}

/// Why no message could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The other side left.
    Gone,
    /// What came is not HTTP/1.
    Bad,
    /// The head or the body is longer than we take.
    TooLong,
}

impl From<Gone> for Unread {
    fn from(_: Gone) -> Unread {
        Unread::Gone
    }
}

/// A chunk's size line, extensions included.
const LONGEST_CHUNK_LINE: usize = 4 << 10;
const LONGEST_TRAILERS: usize = 64 << 10;

/// Reads a whole body of at most `limit` bytes into `sink`.
pub(crate) async fn read(
    wire: &mut Wire,
    framing: Framing,
    limit: usize,
    sink: &mut (impl FnMut(&[u8]) + Send),
) -> Result<(), Unread> {
    match framing {
        Framing::Length(length) if length > limit => Err(Unread::TooLong),
        Framing::Length(length) => pass(wire, length, sink).await,
        Framing::Chunked => chunks(wire, limit, sink).await,
    }
}

/// Passes on exactly `left` bytes.
async fn pass(
    wire: &mut Wire,
    mut left: usize,
    sink: &mut (impl FnMut(&[u8]) + Send),
) -> Result<(), Unread> {
    while left > 0 {
        if wire.inbox.is_empty() {
            wire.fill().await?;
        }
        let length = left.min(wire.inbox.len());
        sink(wire.inbox.get(..length).unwrap_or_default());
        wire.inbox.drain(..length);
        left -= length;
    }
    Ok(())
}

async fn chunks(
    wire: &mut Wire,
    limit: usize,
    sink: &mut (impl FnMut(&[u8]) + Send),
) -> Result<(), Unread> {
    let mut left = limit;
    loop {
        let size = loop {
            match httparse::parse_chunk_size(&wire.inbox).map_err(|_| Unread::Bad)? {
                httparse::Status::Complete((line, size)) => {
                    wire.inbox.drain(..line);
                    break usize::try_from(size).map_err(|_| Unread::TooLong)?;
                }
                httparse::Status::Partial if wire.inbox.len() > LONGEST_CHUNK_LINE => {
                    return Err(Unread::Bad);
                }
                httparse::Status::Partial => wire.fill().await?,
            }
        };
        if size == 0 {
            return trailers(wire).await;
        }
        left = left.checked_sub(size).ok_or(Unread::TooLong)?;
        pass(wire, size, sink).await?;
        let mut end = Vec::new();
        pass(wire, 2, &mut |bytes: &[u8]| end.extend_from_slice(bytes)).await?;
        if end != b"\r\n" {
            return Err(Unread::Bad);
        }
    }
}

/// Reads the lines after the last chunk up to the empty one, and forgets them.
async fn trailers(wire: &mut Wire) -> Result<(), Unread> {
    let mut read = 0;
    loop {
        while let Some(end) = wire.inbox.windows(2).position(|two| two == b"\r\n") {
            wire.inbox.drain(..end + 2);
            if end == 0 {
                return Ok(());
            }
            read += end;
        }
        if read + wire.inbox.len() > LONGEST_TRAILERS {
            return Err(Unread::TooLong);
        }
        wire.fill().await?;
    }
}
