//! Reads one answer as a light client does: its status, its events, its end.
//!
//! In: a connection with a request to send. Out: what became of it. Never holds more than a line of the answer.

use crate::body::{self, Framing, Unread};
use crate::wire::{Gone, Wire};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Ok,
    Refused(u16),
    Error,
    Truncated,
    Nothing,
}

/// A head longer than this, or a line of an event, is given up.
const LONGEST: usize = 1 << 20;

/// Sends `request` and reads its answer; true when the connection can be kept.
pub(crate) async fn read(
    wire: &mut Wire,
    request: &[u8],
    stream: bool,
    on_events: &mut (impl FnMut(u64) + Send),
) -> (Got, bool) {
    // A refusal may stand ready on a connection that takes no more of the request, so a failed write is no end.
    let _ = wire.write(request).await;
    let head = loop {
        match Head::read(wire).await {
            Ok(head) if head.status < 200 => {}
            Ok(head) => break head,
            Err(Unread::Gone | Unread::Bad | Unread::TooLong) => return (Got::Nothing, false),
        }
    };
    let mut lines = Lines::default();
    let mut sink = |bytes: &[u8]| on_events(lines.feed(bytes));
    let whole = match head.framing {
        Some(framing) => body::read(wire, framing, usize::MAX, &mut sink)
            .await
            .is_ok(),
        None => to_the_end(wire, &mut sink).await,
    };
    let got = match head.status {
        200..300 if lines.error => Got::Error,
        200..300 if !whole || (stream && !lines.done) => Got::Truncated,
        200..300 => Got::Ok,
        status => Got::Refused(status),
    };
    (got, whole && head.keep)
}

async fn to_the_end(wire: &mut Wire, sink: &mut (impl FnMut(&[u8]) + Send)) -> bool {
    loop {
        sink(&std::mem::take(&mut wire.inbox));
        if let Err(Gone) = wire.fill().await {
            return true;
        }
    }
}

struct Head {
    status: u16,
    /// `None`: to the end of the connection.
    framing: Option<Framing>,
    keep: bool,
}

impl Head {
    async fn read(wire: &mut Wire) -> Result<Head, Unread> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 128];
            let mut answer = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(length) =
                answer.parse(&wire.inbox).map_err(|_| Unread::Bad)?
            {
                let status = answer.code.unwrap_or_default();
                let value = |name: &str| {
                    let field = answer
                        .headers
                        .iter()
                        .find(|field| field.name.eq_ignore_ascii_case(name));
                    field.and_then(|field| std::str::from_utf8(field.value).ok())
                };
                let framing = if status < 200 || status == 204 || status == 304 {
                    Some(Framing::Length(0))
                } else if value("transfer-encoding")
                    .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
                {
                    Some(Framing::Chunked)
                } else {
                    value("content-length")
                        .and_then(|length| length.parse().ok())
                        .map(Framing::Length)
                };
                let closes =
                    value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
                let keep = framing.is_some() && !closes && answer.version == Some(1);
                wire.inbox.drain(..length);
                return Ok(Head {
                    status,
                    framing,
                    keep,
                });
            }
            if wire.inbox.len() > LONGEST {
                return Err(Unread::TooLong);
            }
            wire.fill().await?;
        }
    }
}

/// The lines of an event stream, as far as they are counted.
#[derive(Default)]
struct Lines {
    /// The start of a line whose end has not come; at most [`LONGEST`] bytes of it.
    held: Vec<u8>,
    done: bool,
    error: bool,
}

impl Lines {
    /// Takes bytes in any cutting, and returns how many lines with data they end.
    fn feed(&mut self, bytes: &[u8]) -> u64 {
        let mut events = 0;
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = LONGEST.saturating_sub(self.held.len()).min(piece.len());
            self.held.extend(piece.iter().take(room));
            if pieces.peek().is_none() {
                break;
            }
            if let Some(data) = self.held.strip_prefix(b"data:") {
                let data = data.trim_ascii();
                self.done |= data == b"[DONE]";
                self.error |= data.starts_with(b"{\"error\"");
                events += u64::from(data != b"[DONE]");
            }
            self.held.clear();
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_in_any_cutting() {
        let text =
            b": keep-alive\n\ndata: {\"a\":1}\n\ndata:{\"error\": {}}\r\n\r\ndata: [DONE]\n\n";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let events: u64 = text.chunks(size).map(|bytes| lines.feed(bytes)).sum();
            assert_eq!(
                (events, lines.done, lines.error),
                (2, true, true),
                "in pieces of {size}"
            );
        }
    }
}
