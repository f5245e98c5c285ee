//! Whole answers: errors, and what an engine tells of itself.
//!
//! In: a request's head, or the reason it is refused. Out: a [`Page`]. Never an answer of the model.

use crate::call::{MAX_MODEL_LEN, Refusal};
use crate::engine::Shared;
use crate::http::{CREATED, Server, reason};
use crate::request::Head;
use crate::settings::Settings;
use crate::sigterm::Sigterm;
use crate::triton;
use crate::vllm;

/// A whole answer, told at once.
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// The body goes out in one chunk, where the version of HTTP has chunks.
    pub(crate) chunked: bool,
    pub(crate) fields: Vec<String>,
}

impl Page {
    pub(crate) fn json(status: u16, body: String) -> Page {
        Page {
            status,
            content_type: "application/json",
            body: body.into_bytes(),
            chunked: false,
            fields: Vec::new(),
        }
    }

    pub(crate) fn refusal(refusal: &Refusal) -> Page {
        Page::json(refusal.status, vllm::error(refusal))
    }

    /// An error with this status that no rule of the engine gave.
    pub(crate) fn ordered(server: Server, status: u16, retry_after: Option<u32>) -> Page {
        let message = format!("ordered: {status} {}", reason(status));
        let body = match (status, server) {
            (..400, _) => "{}".to_owned(),
            (400.., Server::Uvicorn) => vllm::error(&Refusal {
                status,
                kind: "SimulatedError",
                message,
                param: None,
            }),
            (400.., Server::Triton) => triton::error(&message),
        };
        Page {
            fields: retry_after
                .map(|seconds| format!("retry-after: {seconds}"))
                .into_iter()
                .collect(),
            ..Page::json(status, body)
        }
    }

    /// The answer to what is not inference; `id` is for the places where vLLM draws one.
    pub(crate) fn beside(head: &Head, settings: &Settings, shared: &Shared, id: &str) -> Page {
        if Server::of(head.path()) == Server::Triton {
            return triton::beside(head, settings);
        }
        let running = || shared.ledger.look().borrow().running;
        match (head.path(), head.method.as_str()) {
            ("/health" | "/ping", "GET" | "HEAD") => {
                let leaves = *shared.sigterm.borrow() == Some(Sigterm::Serves);
                Page::empty(if settings.healthy && !leaves {
                    200
                } else {
                    503
                })
            }
            ("/version", "GET" | "HEAD") => Page::json(200, "{\"version\":\"0.32.0\"}".into()),
            ("/load", "GET" | "HEAD") => {
                Page::json(200, format!("{{\"server_load\":{}}}", running()))
            }
            ("/v1/models", "GET" | "HEAD") => Page::json(
                200,
                vllm::models(&settings.model, id, CREATED, MAX_MODEL_LEN),
            ),
            ("/metrics", "GET" | "HEAD") => Page {
                status: 200,
                content_type: "text/plain; version=1.0.0; charset=utf-8",
                body: shared.tally.page(&settings.model, running()).into_bytes(),
                chunked: false,
                fields: Vec::new(),
            },
            ("/health" | "/ping" | "/version" | "/load" | "/v1/models" | "/metrics", _) => {
                Page::wrong_method("GET")
            }
            ("/v1/chat/completions" | "/v1/completions", _) => Page::wrong_method("POST"),
            _ => Page::json(404, "{\"detail\":\"Not Found\"}".into()),
        }
    }

    fn empty(status: u16) -> Page {
        Page {
            status,
            content_type: "",
            body: Vec::new(),
            chunked: false,
            fields: Vec::new(),
        }
    }

    fn wrong_method(allowed: &str) -> Page {
        Page {
            fields: vec![format!("allow: {allowed}")],
            ..Page::json(405, "{\"detail\":\"Method Not Allowed\"}".into())
        }
    }
}
