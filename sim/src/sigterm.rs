//! What becomes of streams and connections when an engine is told to end.
//!
//! In: which of the recorded ways. Out: the news, for whoever waits. Never stops the engine: what happens after its last
//! stream is not told here.

use tokio::sync::watch;

/// How an engine behaves from a SIGTERM on. Each was recorded; what the recordings do not show stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sigterm {
    /// Each stream gets the engine's error event, `[DONE]` where the engine has one, and a clean end: vLLM.
    Aborts,
    /// Streams fall silent on connections that stay open: vLLM at other times, and llama.cpp.
    Hangs,
    /// Streams go on and new requests are served, but `/health` says 503: SGLang.
    Serves,
    /// Streams go on, and new connections are reset: Triton.
    Resets,
}

/// What a signal does to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    Aborted,
    Silenced,
}

/// The signal, for those who look at it.
pub(crate) type Signal = watch::Receiver<Option<Sigterm>>;

/// Waits for a signal that ends streams.
pub(crate) async fn struck(signal: &mut Signal) -> Struck {
    let mut found = None;
    let ends = |signal: &Option<Sigterm>| {
        found = match signal {
            Some(Sigterm::Aborts) => Some(Struck::Aborted),
            Some(Sigterm::Hangs) => Some(Struck::Silenced),
            Some(Sigterm::Serves | Sigterm::Resets) | None => None,
        };
        found.is_some()
    };
    // The sender goes with the engine, whose end ends every stream anyway.
    let _ = signal.wait_for(ends).await;
    match found {
        Some(struck) => struck,
        None => std::future::pending().await,
    }
}
