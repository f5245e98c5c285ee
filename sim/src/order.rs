//! What one request is to get instead of, or on top of, an honest answer.
//!
//! In: the grammar below, from the header `x-sim` or from the settings. Out: an [`Order`].
//! Never guesses: what is not in the grammar is refused with a message that says what is.
//! Over HTTP/2, RST resets the stream and FIN ends the connection; what is no HTTP resets the stream. Of a gRPC call the
//! messages count and `error` is its status; what has to do with text alone does nothing there.
//!
//! ```text
//! ORDER = WORD *( ";" WORD )
//!
//! instead of an answer (one of them at most)
//!   reset                       TCP RST before any byte
//!   close                       FIN before any byte
//!   garbage                     bytes that are not HTTP, then FIN
//!   hang                        nothing, until the client leaves
//!   hang_head                   half a head, then nothing, until the client leaves
//!   early=STATUS                the error answer before the body is read, then FIN
//!   status=STATUS               that status; 204 and 304 without a body, 400 up with an error body
//!     retry_after=SECONDS         and a retry-after header
//!   not_sse                     200 with text/plain
//!
//! before the answer
//!   wait=DELAY                  nothing for so long, not even a head
//!   1xx=STATUS                  an informational answer comes first (100, 102, 103)
//!
//! in the stream, after N token events (0: after the head); in a plain answer, after N bytes of its body; in a
//! WebSocket, after N bytes sent back
//!   cut=N                       ends the connection
//!     how=fin|rst                 by FIN (default) or by RST
//!   stall=N                     nothing more
//!     for=DURATION                for so long (default: until the client leaves)
//!   error=N                     the engine's error event, then [DONE] (streams only)
//!
//! in the shape of the answer
//!   no_done                     the stream ends without [DONE]
//!   gzip                        content-encoding: gzip and bytes that no text reader understands
//!   huge_event=BYTES            the first token event bears a text of so many bytes
//!   comments=N                  N keep-alive comments after every token event
//!   reasoning=N                 the first N token events bear reasoning instead of content (chat)
//!   length                      a stream with content-length instead of chunks
//!   close_after                 answers well, then closes the connection at once, unannounced
//!   greeting=BYTES              so many bytes in the same write as the 101 that accepts a WebSocket
//!
//! in its size and pace
//!   tokens=N or tokens=MIN..MAX   ttft=DELAY   itl=DELAY   tokens_per_event=N
//! ```

use std::time::Duration;

use crate::delay::Delay;
use crate::tokens::Tokens;

mod grammar;

pub use grammar::OrderError;

/// What one request is to get. The default is an honest answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Given instead of an answer.
    pub instead: Option<Instead>,
    /// Before any byte of the answer.
    pub wait: Delay,
    /// The connection ends after so many token events, or bytes of a plain answer's body.
    pub cut: Option<(u64, How)>,
    /// Nothing comes for so long (`None`: until the client leaves) after so many token events, or
    /// bytes of a plain answer's body.
    pub stall: Option<(u64, Option<Duration>)>,
    /// The engine's own error event comes after so many token events, and the stream ends.
    pub error: Option<u64>,
    /// The stream ends without `[DONE]`.
    pub no_done: bool,
    /// The answer says `content-encoding: gzip` and is not text.
    pub gzip: bool,
    /// An informational answer with this status comes first.
    pub interim: Option<u16>,
    /// The first token event bears a text of so many bytes.
    pub huge_event: Option<usize>,
    /// So many keep-alive comments follow every token event.
    pub comments: u32,
    /// So many token events at first bear reasoning.
    pub reasoning: u64,
    /// The stream has a content-length.
    pub length: bool,
    /// The connection closes after the answer, unannounced.
    pub close_after: bool,
    /// So many bytes leave in the same write as the head that accepts a WebSocket.
    pub greeting: usize,
    /// Overrides the settings.
    pub tokens: Option<Tokens>,
    /// Overrides the settings.
    pub ttft: Option<Delay>,
    /// Overrides the settings.
    pub inter_token: Option<Delay>,
    /// Overrides the settings.
    pub tokens_per_event: Option<usize>,
}

/// What comes instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// TCP RST before any byte.
    Reset,
    /// FIN before any byte.
    Close,
    /// Bytes that are not HTTP, then FIN.
    Garbage,
    /// Nothing, until the client leaves.
    Hang,
    /// Half a head, then nothing, until the client leaves.
    HangHead,
    /// An error answer before the body is read, then FIN.
    Early(u16),
    /// An answer with this status.
    Status {
        /// 200 to 599.
        status: u16,
        /// Seconds of a `retry-after` header.
        retry_after: Option<u32>,
    },
    /// A plain text under 200.
    NotSse,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// In order: FIN.
    #[default]
    Fin,
    /// At once: RST.
    Rst,
}
