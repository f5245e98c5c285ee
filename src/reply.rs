//! Every answer that Greylag makes itself.
//!
//! In: why it answers. Out: a status, a stable code in `x-greylag-reason`, and a body in the shape that the caller's
//! client library parses: OpenAI's error object (`{"error": {message, type, param, code}}`). The message says what was
//! found and what is allowed, and never holds anything of a prompt.

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
    /// `CONNECT`, or an `Upgrade` that is not carried.
    Unsupported,
    /// `limits.memory` is spent.
    MemorySpent,
    /// `limits.connections` is reached.
    TooManyConnections,
    /// No connection to the engine.
    EngineUnreachable,
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
            Reason::Unsupported => "unsupported",
            Reason::MemorySpent => "memory_spent",
            Reason::TooManyConnections => "too_many_connections",
            Reason::EngineUnreachable => "engine_unreachable",
            Reason::EngineClosed => "engine_closed",
            Reason::EngineGarbage => "engine_garbage",
            Reason::FirstByteTimeout => "first_byte_timeout",
            Reason::IdleTimeout => "idle_timeout",
            Reason::TotalTimeout => "total_timeout",
            Reason::ClientStalled => "client_stalled",
            Reason::Drained => "drained",
            Reason::Internal => "internal",
        }
    }

    /// The status that goes with it, where an answer can still be given.
    pub fn status(self) -> u16 {
        match self {
            Reason::BadRequest | Reason::InvalidJson => 400,
            Reason::RequestTimeout | Reason::ClientStalled => 408,
            Reason::BodyTooLarge => 413,
            Reason::ExpectationFailed => 417,
            Reason::HeadTooLarge => 431,
            Reason::Internal => 500,
            Reason::Unsupported => 501,
            Reason::EngineUnreachable | Reason::EngineClosed | Reason::EngineGarbage => 502,
            Reason::MemorySpent | Reason::TooManyConnections | Reason::Drained => 503,
            Reason::FirstByteTimeout | Reason::IdleTimeout | Reason::TotalTimeout => 504,
        }
    }

    // Seconds after which the same request may well succeed.
    fn retry_after(self) -> Option<u32> {
        match self.status() {
            503 => Some(1),
            _ => None,
        }
    }

    // OpenAI's `type`: whose fault it is, in its clients' terms.
    fn kind(self) -> &'static str {
        match self.status() {
            400..=499 => "invalid_request_error",
            _ => "server_error",
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
    pub fn answer(&self) -> (Box<ResponseHeader>, Vec<u8>) {
        let body = serde_json::to_vec(&serde_json::json!({ "error": {
            "message": self.message,
            "type": self.reason.kind(),
            "param": null,
            "code": self.reason.code(),
        }}))
        .expect("a map of strings serialises");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_ours_is_what_openais_client_parses() {
        let refusal = Refusal::new(
            Reason::MemorySpent,
            "all of limits.memory (64MiB) is in use",
        );
        let (head, body) = refusal.answer();
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
