//! gRPC's messages and statuses on a stream of HTTP/2.
//!
//! In: pieces of a body; messages. Out: messages; frames. Never takes a compressed message: it has no way to read it.

use bytes::{Bytes, BytesMut};

use super::{Fault, Kind};
use crate::http2::{Lane, map};
use crate::request::LONGEST_BODY;
use crate::wire::Gone;

/// Reads messages out of a body.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    unread: BytesMut,
}

impl Messages {
    /// Adds a piece of the body.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
    }

    /// The next whole message, if it has come.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some([compressed, length @ ..]) = self.unread.first_chunk::<5>() else {
            return Ok(None);
        };
        if *compressed != 0 {
            let message = "the simulator reads no compressed messages";
            return Err(Fault::new(Kind::Unimplemented, message));
        }
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > LONGEST_BODY {
            return Err(Fault::invalid(format!(
                "a message of {length} bytes is too long"
            )));
        }
        if self.unread.len() < 5 + length {
            return Ok(None);
        }
        let mut message = self.unread.split_to(5 + length);
        Ok(Some(message.split_off(5).freeze()))
    }

    /// Reads the one message of a call whose client sends no more.
    pub(crate) async fn only(lane: &mut Lane) -> Result<Result<Bytes, Fault>, Gone> {
        let mut messages = Messages::default();
        while let Some(piece) = lane.piece().await? {
            messages.feed(&piece);
            lane.room(piece.len());
        }
        let first = messages.next().transpose();
        let missing = || Err(Fault::new(Kind::Internal, "there is no message"));
        Ok(first.unwrap_or_else(missing))
    }
}

/// Sends a message, and before the first one the head.
pub(crate) async fn send(lane: &mut Lane, message: &[u8]) -> Result<(), Gone> {
    if !lane.begun() {
        let fields = [
            ("content-type", "application/grpc"),
            ("grpc-accept-encoding", "identity, deflate, gzip"),
        ];
        lane.begin(200, map(fields));
    }
    lane.data(framed(message).into(), false).await
}

/// A message with gRPC's prefix: not compressed, so long.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Ends a call well. Without a message before it, the status stands in the only head.
pub(crate) fn finish(lane: &mut Lane) -> Result<(), Gone> {
    end(lane, &[("grpc-status", "0")])
}

/// Ends a call with an error.
pub(crate) fn fail(lane: &mut Lane, fault: &Fault) -> Result<(), Gone> {
    let code = fault.kind.code().to_string();
    let message = percent(&fault.message);
    end(lane, &[("grpc-status", &code), ("grpc-message", &message)])
}

fn end(lane: &mut Lane, status: &[(&str, &str)]) -> Result<(), Gone> {
    if lane.begun() {
        return lane.trailers(map(status.iter().copied()));
    }
    let head = [("content-type", "application/grpc")];
    lane.begin(200, map(head.iter().chain(status).copied()));
    lane.open(true)
}

/// A message as gRPC's HTTP/2 mapping has it: printable ASCII but for `%`.
fn percent(message: &str) -> String {
    message
        .bytes()
        .map(|byte| match byte {
            b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_any_cutting() {
        let stream = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01z";
        for cut in 0..=stream.len() {
            let (first, rest) = stream.split_at(cut);
            let (mut messages, mut found) = (Messages::default(), Vec::new());
            for piece in [first, rest] {
                messages.feed(piece);
                while let Some(message) = messages.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, ["abc", "", "z"], "cut at {cut}");
        }
    }

    #[test]
    fn a_compressed_message_is_refused_and_so_is_one_too_long() {
        for (bytes, kind) in [
            (b"\x01\0\0\0\x03", Kind::Unimplemented),
            (b"\0\xff\xff\xff\xff", Kind::InvalidArgument),
        ] {
            let mut messages = Messages::default();
            messages.feed(bytes);
            assert_eq!(messages.next().map_err(|fault| fault.kind), Err(kind));
        }
    }

    #[test]
    fn a_message_of_a_status_is_printable() {
        assert_eq!(percent("it's 5 % of Zoë\n"), "it's 5 %25 of Zo%C3%AB%0A");
    }
}
