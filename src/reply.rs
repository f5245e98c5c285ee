//! Every answer that Greylag makes itself.
//!
//! In: why it answers. Out: a status, a stable code in `x-greylag-reason`, and a body in the shape that the caller's
//! client library parses: OpenAI's error object (`{"error": {message, type, param, code}}`). The message says what was
//! found and what is allowed, and never holds anything of a prompt.

use std::time::Duration;

use greylag_filters::grpc;
use greylag_filters::refusal::{self, Family};
use http::{HeaderMap, HeaderValue};
use pingora_http::ResponseHeader;

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

    // Seconds after which the same request may well succeed.
    fn retry_after(self) -> Option<u32> {
        match self.status() {
            503 => Some(1),
            _ => None,
        }
    }
}

/// A refusal: why, and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What was found and what is allowed, without a full stop.
    pub message: String,
}

impl Refusal {
    /// A refusal with its sentence.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Refusal {
            reason,
            message: message.into(),
        }
    }

    /// The answer's head and body.
    pub fn answer(&self, family: Family) -> (Box<ResponseHeader>, Vec<u8>) {
        // Who speaks HTTP/1 reads no trailers, whatever the path.
        let family = match family {
            Family::Grpc => Family::OpenAi,
            other => other,
        };
        let (code, status) = (self.reason.code(), self.reason.status());
        let body = match refusal::write(family, code, &self.message, status) {
            refusal::Refusal::Json(body) => body,
            refusal::Refusal::Call { message, .. } => message.into_bytes(),
        };
        let mut head = ResponseHeader::build(self.reason.status(), Some(5))
            .expect("the statuses of `Reason` are valid");
        let mut set = |name: &'static str, value: String| {
            head.insert_header(name, value)
                .expect("a name and a value of ours are valid");
        };
        set("content-type", "application/json".into());
        set("content-length", body.len().to_string());
        set("x-greylag-reason", self.reason.code().into());
        if let Some(seconds) = self.reason.retry_after() {
            set("retry-after", seconds.to_string());
        }
        (Box::new(head), body)
    }
}

impl Refusal {
    /// The same for a gRPC client: an answer that is all trailers.
    pub fn grpc_answer(&self) -> Box<ResponseHeader> {
        let mut head = ResponseHeader::build_no_case(200, Some(4)).expect("200 is a status");
        head.insert_header("content-type", "application/grpc")
            .expect("a name and a value of ours are valid");
        for (name, value) in &self.grpc_trailers() {
            // They are valid already.
            let _ = head.insert_header(name, value);
        }
        Box::new(head)
    }

    /// What ends a gRPC answer in Greylag's name.
    pub fn grpc_trailers(&self) -> HeaderMap {
        let status = grpc::Status::of_refusal(self.reason.status());
        let message = grpc::percent_encoded(&self.message);
        let mut trailers = HeaderMap::with_capacity(3);
        let mut set = |name: &'static str, value: String| {
            let value = HeaderValue::try_from(value).expect("what is encoded is ASCII");
            trailers.insert(name, value);
        };
        set("grpc-status", status.code().to_string());
        set("grpc-message", message);
        set("x-greylag-reason", self.reason.code().into());
        trailers
    }
}

/// The refusal of a client that sent nothing of its body for so long.
pub fn body_pause(pause: Duration) -> Refusal {
    let pause = humantime::format_duration(pause);
    Refusal::new(
        Reason::RequestTimeout,
        format!("nothing of the request's body came for {pause}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_ours_is_what_openais_client_parses() {
        let refusal = Refusal::new(
            Reason::MemorySpent,
            "all of limits.memory (64MiB) is in use",
        );
        let (head, body) = refusal.answer(Family::OpenAi);
        assert_eq!(head.status.as_u16(), 503);
        assert_eq!(head.headers["x-greylag-reason"], "memory_spent");
        assert_eq!(head.headers["retry-after"], "1");
        assert_eq!(head.headers["content-length"], body.len().to_string());
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["type"], "server_error");
        assert_eq!(body["error"]["code"], "memory_spent");
        assert_eq!(body["error"]["message"], refusal.message);
        assert!(body["error"]["param"].is_null());
    }
}
