//! Every answer that Greylag makes itself.
//!
//! In: why it answers. Out: a status, a stable code in `x-greylag-reason`, and a body in the shape that the caller's
//! client library parses, which `greylag_filters::refusal` knows. The message says what was
//! found and what is allowed, and never holds anything of a prompt.

use std::time::Duration;

use greylag_filters::grpc;
pub use greylag_filters::refusal::Reason;
use greylag_filters::refusal::{self, Family};
use http::{HeaderMap, HeaderValue};
use pingora_http::ResponseHeader;

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
