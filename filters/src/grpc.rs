//! gRPC over HTTP/2, as far as its bytes and words go (gRPC's PROTOCOL-HTTP2).
//!
//! In: bodies in any cutting, and values of head fields. Out: messages, durations and statuses, and the same written.
//! Nothing of HTTP/2 itself is here, and no message is ever unpacked.

mod splitter;
mod status;
mod timeout;

#[cfg(any(test, fuzzing))]
pub use splitter::fuzz_grpc;
#[cfg(test)]
pub(crate) use splitter::tests::framed;
pub use splitter::{Message, Splitter};
pub use status::{Status, percent_encoded};
pub use timeout::{BadTimeout, read_timeout, write_timeout};

/// Whether a `Content-Type` is one of gRPC: `application/grpc`, alone or with a subtype or parameters. `grpc-web` is another
/// protocol, over plain requests.
pub fn is_media_type(value: &[u8]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let Some((start, rest)) = value.split_at_checked(TYPE.len()) else {
        return false;
    };
    start.eq_ignore_ascii_case(TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

#[cfg(test)]
mod tests {
    use super::is_media_type;

    #[test]
    fn grpc_is_told_from_what_is_called_alike() {
        for value in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC; a=b",
        ] {
            assert!(is_media_type(value.as_bytes()), "{value}");
        }
        for value in [
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/json",
            "",
        ] {
            assert!(!is_media_type(value.as_bytes()), "{value}");
        }
    }
}
