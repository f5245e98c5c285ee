//! Names the kind of work a path asks for.
//!
//! In: a path without its query. Out: a [`Route`] from a closed list. A path with a trailing or doubled slash is
//! another path: the engines answer 404 to it.

use crate::meter::Dialect;
use crate::refusal::Family;

mod declared;
mod triton;

pub(crate) use declared::Declared;
pub use triton::model;

/// The inference routes, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// OpenAI chat completions.
    ChatCompletions,
    /// OpenAI legacy completions.
    Completions,
    /// OpenAI responses.
    Responses,
    /// OpenAI embeddings.
    Embeddings,
    /// vLLM score.
    Score,
    /// Jina and Cohere rerank, as vLLM serves it.
    Rerank,
    /// OpenAI audio: transcriptions, translations, speech.
    Audio,
    /// Anthropic messages.
    Messages,
    /// SGLang's own generation.
    Generate,
    /// llama.cpp's own completion.
    LlamaCompletion,
    /// TGI's own stream.
    GenerateStream,
    /// Triton's KServe v2 inference, over HTTP.
    TritonInfer,
    /// Triton's generate extension: one JSON answer.
    TritonGenerate,
    /// The same as a stream.
    TritonGenerateStream,
    /// KServe v2 inference over gRPC: one message and one answer.
    ModelInfer,
    /// Triton's gRPC stream: many requests and many answers in one call.
    ModelStreamInfer,
    /// A path that the rules have declared, with the dialect of its answers. Which path it is, is not kept: a route is
    /// copied everywhere and is a metric label, so it must be small, and no rule may add to the labels.
    Declared(Dialect),
    /// Anything else: carried to the default engine.
    Other,
}

impl Route {
    /// The route of a path, given without its query, as far as it is known without rules; see
    /// [`Ruleset::route`](crate::rules::Ruleset::route).
    pub fn of(path: &str) -> Route {
        match path {
            "/v1/chat/completions" => Route::ChatCompletions,
            "/v1/completions" => Route::Completions,
            "/v1/responses" => Route::Responses,
            "/v1/embeddings" => Route::Embeddings,
            "/v1/score" => Route::Score,
            "/v1/rerank" => Route::Rerank,
            "/v1/messages" => Route::Messages,
            "/generate" => Route::Generate,
            "/completion" => Route::LlamaCompletion,
            "/generate_stream" => Route::GenerateStream,
            "/inference.GRPCInferenceService/ModelInfer" => Route::ModelInfer,
            "/inference.GRPCInferenceService/ModelStreamInfer" => Route::ModelStreamInfer,
            other => match other.strip_prefix("/v1/audio/") {
                Some(rest) if !rest.is_empty() && !rest.contains('/') => Route::Audio,
                Some(_) => Route::Other,
                None => triton::route(other).unwrap_or(Route::Other),
            },
        }
    }

    /// Whether the route is split, collected and measured.
    pub fn is_inference(self) -> bool {
        self != Route::Other
    }

    /// What is asked: `gen_ai.operation.name` where OpenTelemetry's conventions have a word for it, else one of the same kind.
    pub fn operation(self) -> &'static str {
        match self {
            Route::ModelStreamInfer => "infer",
            other => other.dialect().map_or("other", Dialect::operation),
        }
    }

    /// How its answers are read; absent where they are not. Those of [`Route::ModelStreamInfer`] are read beside their
    /// requests, by [`crate::meter::InferStream`].
    pub fn dialect(self) -> Option<Dialect> {
        match self {
            Route::ChatCompletions => Some(Dialect::Chat),
            Route::Completions => Some(Dialect::Completions),
            Route::TritonInfer => Some(Dialect::TritonInfer),
            Route::TritonGenerate | Route::TritonGenerateStream => Some(Dialect::TritonGenerate),
            Route::ModelInfer => Some(Dialect::ModelInfer),
            Route::Responses => Some(Dialect::Responses),
            Route::Embeddings => Some(Dialect::Embeddings),
            Route::Score => Some(Dialect::Score),
            Route::Rerank => Some(Dialect::Rerank),
            Route::Audio => Some(Dialect::Audio),
            Route::Messages => Some(Dialect::Messages),
            Route::Generate => Some(Dialect::Generate),
            Route::LlamaCompletion => Some(Dialect::LlamaCompletion),
            Route::GenerateStream => Some(Dialect::GenerateStream),
            Route::Declared(dialect) => Some(dialect),
            Route::ModelStreamInfer | Route::Other => None,
        }
    }

    /// The shape in which its callers expect a refusal.
    pub fn family(self) -> Family {
        match self {
            Route::ModelStreamInfer => Family::Grpc,
            other => other.dialect().map_or(Family::OpenAi, Dialect::family),
        }
    }

    /// The metric label: the path, or its template, or `declared` for all that rules have declared.
    pub fn label(self) -> &'static str {
        match self {
            Route::ChatCompletions => "/v1/chat/completions",
            Route::Completions => "/v1/completions",
            Route::Responses => "/v1/responses",
            Route::Embeddings => "/v1/embeddings",
            Route::Score => "/v1/score",
            Route::Rerank => "/v1/rerank",
            Route::Audio => "/v1/audio/*",
            Route::Messages => "/v1/messages",
            Route::Generate => "/generate",
            Route::LlamaCompletion => "/completion",
            Route::GenerateStream => "/generate_stream",
            Route::TritonInfer => "/v2/models/*/infer",
            Route::TritonGenerate => "/v2/models/*/generate",
            Route::TritonGenerateStream => "/v2/models/*/generate_stream",
            Route::ModelInfer => "/inference.GRPCInferenceService/ModelInfer",
            Route::ModelStreamInfer => "/inference.GRPCInferenceService/ModelStreamInfer",
            Route::Declared(_) => "declared",
            Route::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_route_of_its_exact_spelling() {
        let check = |path: &str, route: Route| assert_eq!(Route::of(path), route, "{path}");
        check("/v1/chat/completions", Route::ChatCompletions);
        check("/v1/completions", Route::Completions);
        check("/v1/audio/transcriptions", Route::Audio);
        check("/v1/messages", Route::Messages);
        check("/generate", Route::Generate);
        check("/completion", Route::LlamaCompletion);
        check("/generate_stream", Route::GenerateStream);
        check("/v1/chat/completions/", Route::Other);
        check("//v1/chat/completions", Route::Other);
        check("/v1//completions", Route::Other);
        check("/V1/completions", Route::Other);
        check("/v1/completions/x", Route::Other);
        check("/v1/messages/count_tokens", Route::Other);
        check("/v1/responses/resp_1", Route::Other);
        check("/v1/audio/", Route::Other);
        check("/v1/audio/speech/", Route::Other);
        check("/v1/audio//speech", Route::Other);
        check("/v1/models", Route::Other);
        check(
            "/inference.GRPCInferenceService/ModelInfer",
            Route::ModelInfer,
        );
        check(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            Route::ModelStreamInfer,
        );
        check("/inference.GRPCInferenceService/ServerLive", Route::Other);
        check("/inference.GRPCInferenceService/ModelInfer/", Route::Other);
        check("/health", Route::Other);
        check("/", Route::Other);
        check("", Route::Other);
    }

    #[test]
    fn a_label_that_is_a_path_leads_back_to_its_route() {
        for route in [
            Route::ChatCompletions,
            Route::Completions,
            Route::Responses,
            Route::Embeddings,
            Route::Score,
            Route::Rerank,
            Route::Audio,
            Route::Messages,
            Route::Generate,
            Route::LlamaCompletion,
            Route::GenerateStream,
            Route::TritonInfer,
            Route::TritonGenerate,
            Route::TritonGenerateStream,
            Route::ModelInfer,
            Route::ModelStreamInfer,
            Route::Other,
        ] {
            assert_eq!(Route::of(route.label()), route);
            assert_eq!(route.is_inference(), route != Route::Other);
            assert!(route.is_inference() || route.dialect().is_none());
        }
    }
}
