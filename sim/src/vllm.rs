//! How vLLM 0.32 writes its answers: events, plain answers, errors, byte for byte but for their values.
//!
//! In: who answers what, and deltas. Out: JSON and event texts. Keys stand in vLLM's order, which is held against
//! captures of a real one. Never frames anything: chunks and heads are `http`'s.

use std::fmt::Write as _;

use serde_json::Value;

use crate::call::{Call, Refusal, Route};
use crate::story::{Delta, Finish};

/// The parts that all events of an answer share.
pub(crate) struct Writer {
    route: Route,
    /// `chatcmpl-…` or `cmpl-…`.
    id: String,
    created: u64,
    model: String,
    prompt_tokens: Vec<u64>,
    n: usize,
    continuous: bool,
    include_usage: bool,
    /// Tokens written, by choice.
    written: Vec<u64>,
    unfinished: usize,
}

/// The text of an event with no more to come.
pub(crate) const DONE: &str = "data: [DONE]\n\n";
/// What comes while no token is due.
pub(crate) const KEEP_ALIVE: &str = ": keep-alive\n\n";
/// What vLLM says when its engine dies in the middle of a stream.
pub(crate) const ERROR_EVENT: &str = "data: {\"error\": {\"message\": \"EngineCore encountered an issue. See stack trace (above) for the root cause.\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}\n\n";
const FINGERPRINT: &str = "vllm-0.32.0-5eed0000";

impl Writer {
    /// `id` without its prefix; `created` in seconds since 1970.
    pub(crate) fn new(call: &Call, model: &str, id: &str, created: u64) -> Writer {
        let prefix = match call.route {
            Route::Chat => "chatcmpl",
            Route::Completions => "cmpl",
        };
        let choices = call.prompts.len() * call.n;
        Writer {
            route: call.route,
            id: format!("{prefix}-{id}"),
            created,
            model: model.to_owned(),
            prompt_tokens: call.prompts.iter().map(|prompt| prompt.tokens).collect(),
            n: call.n,
            continuous: call.continuous_usage,
            include_usage: call.include_usage,
            written: vec![0; choices],
            unfinished: choices,
        }
    }

    fn opening(&self, object: &str) -> String {
        format!(
            "{{\"id\":{},\"object\":\"{object}\",\"created\":{},\"model\":{},\"choices\":[",
            json(&self.id),
            self.created,
            json(&self.model)
        )
    }

    fn chunk_object(&self) -> &'static str {
        match self.route {
            Route::Chat => "chat.completion.chunk",
            Route::Completions => "text_completion",
        }
    }

    /// The event that tells who speaks; completions have none.
    pub(crate) fn role(&self, index: usize) -> Option<String> {
        match self.route {
            Route::Chat => Some(format!(
                "data: {}{{\"index\":{index},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\"finish_reason\":null}}]{},\"prompt_token_ids\":null,\"prompt_text\":null}}\n\n",
                self.opening(self.chunk_object()),
                self.continuous_usage(index),
            )),
            Route::Completions => None,
        }
    }

    /// The event of one delta.
    pub(crate) fn delta(&mut self, delta: &Delta) -> String {
        if let Some(written) = self.written.get_mut(delta.index) {
            *written += delta.tokens;
        }
        self.unfinished -= usize::from(delta.finish.is_some());
        let reason = reason(delta.finish);
        let text = json(&delta.text);
        let mut event = format!("data: {}", self.opening(self.chunk_object()));
        let field = if delta.reasoning {
            "reasoning"
        } else {
            "content"
        };
        let stop = if delta.finish.is_some() {
            ",\"stop_reason\":null"
        } else {
            ""
        };
        // Writing to a String cannot fail.
        let _ = match self.route {
            Route::Chat => write!(
                event,
                "{{\"index\":{},\"delta\":{{\"{field}\":{text}}},\"logprobs\":null,\"finish_reason\":{reason}{stop},\"token_ids\":null}}]",
                delta.index
            ),
            Route::Completions => write!(
                event,
                "{{\"index\":{},\"text\":{text},\"logprobs\":null,\"finish_reason\":{reason},\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}}]",
                delta.index
            ),
        };
        event.push_str(&self.continuous_usage(delta.index));
        if self.unfinished == 0 && !self.include_usage {
            let _ = write!(event, ",\"system_fingerprint\":\"{FINGERPRINT}\"");
        }
        event.push_str("}\n\n");
        event
    }

    /// Usage of one choice so far, where every event bears it.
    fn continuous_usage(&self, index: usize) -> String {
        if !self.continuous {
            return String::new();
        }
        let prompt = self
            .prompt_tokens
            .get(index / self.n)
            .copied()
            .unwrap_or_default();
        let details = match self.route {
            Route::Chat => ",\"completion_tokens_details\":null",
            Route::Completions => "",
        };
        format!(
            ",\"usage\":{{{}{details}}}",
            usage(prompt, self.written.get(index).copied().unwrap_or_default())
        )
    }

    /// The event with the sum of usage, where it was asked for.
    pub(crate) fn usage(&self) -> Option<String> {
        self.include_usage.then(|| {
            format!(
                "data: {}],\"usage\":{{{}}},\"system_fingerprint\":\"{FINGERPRINT}\"}}\n\n",
                self.opening(self.chunk_object()),
                usage(self.prompt_tokens.iter().sum(), self.written.iter().sum()),
            )
        })
    }

    /// The whole answer of a call without `stream`, from all its deltas.
    pub(crate) fn plain(&mut self, deltas: &[Delta]) -> String {
        let choices: Vec<String> = (0..self.written.len())
            .map(|index| self.choice(index, deltas))
            .collect();
        let object = match self.route {
            Route::Chat => "chat.completion",
            Route::Completions => "text_completion",
        };
        let prompt = match self.route {
            Route::Chat => {
                "\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"prompt_text\":null,"
            }
            Route::Completions => "",
        };
        format!(
            "{}{}],\"service_tier\":null,\"system_fingerprint\":\"{FINGERPRINT}\",\"usage\":{{{},\"prompt_tokens_details\":null,\"completion_tokens_details\":null}},{prompt}\"kv_transfer_params\":null,\"ec_transfer_params\":null,\"metrics\":null}}",
            self.opening(object),
            choices.join(","),
            usage(self.prompt_tokens.iter().sum(), self.written.iter().sum()),
        )
    }

    fn choice(&mut self, index: usize, deltas: &[Delta]) -> String {
        let (mut content, mut thoughts, mut finish) = (String::new(), String::new(), None);
        for delta in deltas.iter().filter(|delta| delta.index == index) {
            if delta.reasoning {
                &mut thoughts
            } else {
                &mut content
            }
            .push_str(&delta.text);
            finish = finish.or(delta.finish);
            if let Some(written) = self.written.get_mut(index) {
                *written += delta.tokens;
            }
        }
        let reason = reason(finish);
        match self.route {
            Route::Chat => {
                let reasoning = if thoughts.is_empty() {
                    "null".to_owned()
                } else {
                    json(&thoughts)
                };
                format!(
                    "{{\"index\":{index},\"message\":{{\"role\":\"assistant\",\"content\":{},\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\"reasoning\":{reasoning}}},\"logprobs\":null,\"finish_reason\":{reason},\"stop_reason\":null,\"token_ids\":null,\"routed_experts\":null}}",
                    json(&content),
                )
            }
            Route::Completions => format!(
                "{{\"index\":{index},\"text\":{},\"logprobs\":null,\"finish_reason\":{reason},\"stop_reason\":null,\"token_ids\":null,\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"routed_experts\":null}}",
                json(&(thoughts + &content)),
            ),
        }
    }
}

/// An error answer.
pub(crate) fn error(refusal: &Refusal) -> String {
    let param = refusal.param.as_deref().map_or("null".to_owned(), json);
    format!(
        "{{\"error\":{{\"message\":{},\"type\":\"{}\",\"param\":{param},\"code\":{}}}}}",
        json(&refusal.message),
        refusal.kind,
        refusal.status
    )
}

/// The page of `/v1/models`.
pub(crate) fn models(model: &str, id: &str, created: u64, longest: u64) -> String {
    let name = json(model);
    format!(
        "{{\"object\":\"list\",\"data\":[{{\"id\":{name},\"object\":\"model\",\"created\":{created},\"owned_by\":\"vllm\",\"root\":{name},\"parent\":null,\"max_model_len\":{longest},\"permission\":[{{\"id\":\"modelperm-{id}\",\"object\":\"model_permission\",\"created\":{created},\"allow_create_engine\":false,\"allow_sampling\":true,\"allow_logprobs\":true,\"allow_search_indices\":false,\"allow_view\":true,\"allow_fine_tuning\":false,\"organization\":\"*\",\"group\":null,\"is_blocking\":false}}]}}]}}"
    )
}

fn usage(prompt: u64, completion: u64) -> String {
    format!(
        "\"prompt_tokens\":{prompt},\"total_tokens\":{},\"completion_tokens\":{completion}",
        prompt + completion
    )
}

fn reason(finish: Option<Finish>) -> &'static str {
    match finish {
        None => "null",
        Some(Finish::Stop) => "\"stop\"",
        Some(Finish::Length) => "\"length\"",
    }
}

/// A JSON string; like vLLM's, it escapes only what must be.
fn json(text: &str) -> String {
    Value::from(text).to_string()
}
