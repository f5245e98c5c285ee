//! The shapes of the answers that Greylag gives itself.
//!
//! In: whom the caller takes for its server, a reason's code, a sentence and a status. Out: a body, or the status and
//! message of a call. Heads are written elsewhere, and nothing of a prompt comes in.

mod reason;

pub use reason::Reason;

use crate::grpc::{Status, percent_encoded};

/// What a client library takes for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// OpenAI's error object.
    OpenAi,
    /// Anthropic's.
    Anthropic,
    /// Triton's one text.
    Triton,
    /// A status and a message in a head or trailer.
    Grpc,
}

/// A refusal in the caller's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A body of type `application/json`.
    Json(Vec<u8>),
    /// The end of a call.
    Call {
        /// For `grpc-status`.
        status: Status,
        /// For `grpc-message`, encoded.
        message: String,
    },
}

/// Writes a refusal. `code`: the stable word for machines; `message`: the sentence for people; `http`: the status that goes
/// with it over HTTP.
pub fn write(family: Family, code: &str, message: &str, http: u16) -> Refusal {
    let json = |value: serde_json::Value| Refusal::Json(value.to_string().into_bytes());
    match family {
        Family::OpenAi => json(serde_json::json!({"error": {
            "message": message,
            "type": kind(http),
            "param": null,
            "code": code,
        }})),
        Family::Anthropic => json(serde_json::json!({
            "type": "error",
            "error": { "type": anthropic_kind(http), "message": message },
        })),
        Family::Triton => json(serde_json::json!({ "error": message })),
        Family::Grpc => Refusal::Call {
            status: Status::of_refusal(http),
            message: percent_encoded(message),
        },
    }
}

/// OpenAI's `type`: whose fault it is, in its clients' terms.
fn kind(http: u16) -> &'static str {
    match http {
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

/// Anthropic's `type`, by its table of errors; 503 is overload, as vLLM has it on this route.
fn anthropic_kind(http: u16) -> &'static str {
    match http {
        413 => "request_too_large",
        400..=499 => "invalid_request_error",
        503 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Route;
    use proptest::prelude::*;

    fn body(family: Family, message: &str, http: u16) -> serde_json::Value {
        match write(family, "memory_spent", message, http) {
            Refusal::Json(body) => serde_json::from_slice(&body).expect("JSON"),
            Refusal::Call { .. } => panic!("no body for {family:?}"),
        }
    }

    #[test]
    fn each_family_gets_the_shape_that_its_clients_parse() {
        assert_eq!(
            body(Family::OpenAi, "all \"is\" used", 503),
            serde_json::json!({"error": {
                "message": "all \"is\" used",
                "type": "server_error",
                "param": null,
                "code": "memory_spent",
            }})
        );
        for (http, kind) in [
            (400, "invalid_request_error"),
            (413, "request_too_large"),
            (503, "overloaded_error"),
            (502, "api_error"),
        ] {
            assert_eq!(
                body(Family::Anthropic, "no", http),
                serde_json::json!({"type": "error", "error": {"type": kind, "message": "no"}})
            );
        }
        let kind = body(Family::OpenAi, "no", 400)["error"]["type"].clone();
        assert_eq!(kind, "invalid_request_error");
        assert_eq!(
            body(Family::Triton, "all \"is\" used", 503),
            serde_json::json!({"error": "all \"is\" used"})
        );
        assert_eq!(
            write(Family::Grpc, "memory_spent", "100% used", 503),
            Refusal::Call {
                status: Status::Unavailable,
                message: "100%25 used".to_owned(),
            }
        );
    }

    #[test]
    fn a_route_has_the_family_of_its_engine() {
        let check = |path: &str, family: Family| assert_eq!(Route::of(path).family(), family);
        check("/v1/chat/completions", Family::OpenAi);
        check("/v1/models", Family::OpenAi);
        check("/v1/messages", Family::Anthropic);
        check("/v2/models/a/infer", Family::Triton);
        check("/v2/models/a/generate", Family::Triton);
        check("/v2/models/a/generate_stream", Family::Triton);
        check("/inference.GRPCInferenceService/ModelInfer", Family::Grpc);
        check(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            Family::Grpc,
        );
    }

    #[test]
    fn tritons_own_errors_have_the_same_shape() {
        for capture in crate::capture::all() {
            if capture.name.starts_with("triton/") && capture.status != 200 && !capture.sse {
                let theirs: serde_json::Value =
                    serde_json::from_slice(&capture.body()).expect("JSON");
                let text = theirs["error"].as_str().expect("a text");
                assert_eq!(
                    body(Family::Triton, text, capture.status),
                    theirs,
                    "{}",
                    capture.name
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_sentence_stays_as_it_is(message: String, http in 100u16..600) {
            let openai = body(Family::OpenAi, &message, http);
            prop_assert_eq!(openai["error"]["message"].as_str(), Some(&*message));
            let triton = body(Family::Triton, &message, http);
            prop_assert_eq!(triton["error"].as_str(), Some(&*message));
        }
    }
}
