//! Why Greylag answers itself.
//!
//! In: a reason. Out: its stable code, and the status that goes with it.

/// Why Greylag answered itself, or ended an answer. The code is stable: callers and alerts may depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The request is not HTTP, or ambiguous HTTP.
    BadRequest,
    /// The request's head is longer than what is read of one.
    HeadTooLarge,
    /// The client took too long to send its request.
    RequestTimeout,
    /// The body must be edited and is longer than `limits.body`.
    BodyTooLarge,
    /// The body must be edited and is no JSON object.
    InvalidJson,
    /// An `Expect` other than `100-continue`.
    ExpectationFailed,
    /// The request has passed too many Greylags.
    LoopDetected,
    /// `CONNECT`, or an `Upgrade` that is not carried.
    Unsupported,
    /// `limits.memory` is spent.
    MemorySpent,
    /// `limits.connections` is reached.
    TooManyConnections,
    /// No connection to the engine.
    EngineUnreachable,
    /// The engine is down, and the split says `on_unhealthy: fail`.
    EngineUnhealthy,
    /// The engine has as many requests as its `pool.requests` allows.
    EngineFull,
    /// The engine's `api_key_file` holds no key.
    NoApiKey,
    /// The engine closed or reset the connection without an answer.
    EngineClosed,
    /// What the engine sent is no HTTP answer.
    EngineGarbage,
    /// The engine took longer than `timeouts.first_byte`.
    FirstByteTimeout,
    /// The engine was silent for longer than `timeouts.idle` within its answer.
    IdleTimeout,
    /// The exchange took longer than `timeouts.total`.
    TotalTimeout,
    /// No TLS connection came about; there is nobody to answer.
    TlsHandshake,
    /// No header of the PROXY protocol came first where one must; there is nobody to answer.
    ProxyHeader,
    /// A peer that is not trusted connected where a PROXY header comes first; there is nobody to answer.
    ProxyUntrusted,
    /// A gRPC call took longer than its `grpc-timeout`.
    DeadlineExceeded,
    /// A gRPC call for an engine that has no `grpc`.
    NoGrpc,
    /// The client took nothing for longer than `limits.write`.
    ClientStalled,
    /// `limits.drain` passed while the answer ran.
    Drained,
    /// A fault of Greylag's own.
    Internal,
}

impl Reason {
    /// All of them.
    pub const ALL: &[Reason] = &[
        Reason::BadRequest,
        Reason::HeadTooLarge,
        Reason::RequestTimeout,
        Reason::BodyTooLarge,
        Reason::InvalidJson,
        Reason::ExpectationFailed,
        Reason::LoopDetected,
        Reason::Unsupported,
        Reason::MemorySpent,
        Reason::TooManyConnections,
        Reason::EngineUnreachable,
        Reason::EngineUnhealthy,
        Reason::EngineFull,
        Reason::NoApiKey,
        Reason::EngineClosed,
        Reason::EngineGarbage,
        Reason::FirstByteTimeout,
        Reason::IdleTimeout,
        Reason::TotalTimeout,
        Reason::TlsHandshake,
        Reason::ProxyHeader,
        Reason::ProxyUntrusted,
        Reason::DeadlineExceeded,
        Reason::NoGrpc,
        Reason::ClientStalled,
        Reason::Drained,
        Reason::Internal,
    ];

    /// The value of `x-greylag-reason`, and of the label `reason`.
    pub fn code(self) -> &'static str {
        match self {
            Reason::BadRequest => "bad_request",
            Reason::HeadTooLarge => "head_too_large",
            Reason::RequestTimeout => "request_timeout",
            Reason::BodyTooLarge => "body_too_large",
            Reason::InvalidJson => "invalid_json",
            Reason::ExpectationFailed => "expectation_failed",
            Reason::LoopDetected => "loop_detected",
            Reason::Unsupported => "unsupported",
            Reason::MemorySpent => "memory_spent",
            Reason::TooManyConnections => "too_many_connections",
            Reason::EngineUnreachable => "engine_unreachable",
            Reason::EngineUnhealthy => "engine_unhealthy",
            Reason::EngineFull => "engine_full",
            Reason::NoApiKey => "no_api_key",
            Reason::EngineClosed => "engine_closed",
            Reason::EngineGarbage => "engine_garbage",
            Reason::FirstByteTimeout => "first_byte_timeout",
            Reason::IdleTimeout => "idle_timeout",
            Reason::TotalTimeout => "total_timeout",
            Reason::TlsHandshake => "tls_handshake",
            Reason::ProxyHeader => "proxy_header",
            Reason::ProxyUntrusted => "proxy_untrusted",
            Reason::DeadlineExceeded => "deadline_exceeded",
            Reason::NoGrpc => "no_grpc",
            Reason::ClientStalled => "client_stalled",
            Reason::Drained => "drained",
            Reason::Internal => "internal",
        }
    }

    /// The status that goes with it, where an answer can still be given.
    pub fn status(self) -> u16 {
        match self {
            Reason::BadRequest
            | Reason::InvalidJson
            | Reason::TlsHandshake
            | Reason::ProxyHeader => 400,
            Reason::ProxyUntrusted => 403,
            Reason::RequestTimeout | Reason::ClientStalled => 408,
            Reason::BodyTooLarge => 413,
            Reason::ExpectationFailed => 417,
            Reason::HeadTooLarge => 431,
            Reason::Internal | Reason::NoApiKey => 500,
            Reason::Unsupported => 501,
            Reason::EngineUnreachable
            | Reason::EngineClosed
            | Reason::EngineGarbage
            | Reason::NoGrpc => 502,
            Reason::MemorySpent
            | Reason::TooManyConnections
            | Reason::EngineUnhealthy
            | Reason::EngineFull
            | Reason::Drained => 503,
            Reason::FirstByteTimeout
            | Reason::IdleTimeout
            | Reason::TotalTimeout
            | Reason::DeadlineExceeded => 504,
            Reason::LoopDetected => 508,
        }
    }

    /// Seconds after which the same request may well succeed.
    pub fn retry_after(self) -> Option<u32> {
        match self.status() {
            503 => Some(1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_code_of_its_own_and_a_status_of_an_error() {
        let mut codes: Vec<&str> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert!((400..600).contains(&reason.status()), "{reason:?}");
        }
    }
}
