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
