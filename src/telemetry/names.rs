//! All names of a span: its attributes, its events, and what OpenTelemetry's conventions call things.
//!
//! In: a version of the conventions on generative AI. Out: the names that differ between versions; the others are the same in
//! all. The table of docs/traces.md is this file's, for people.

use crate::config::Semconv;

pub(super) const SERVICE_NAME: &str = "service.name";
pub(super) const SERVICE_VERSION: &str = "service.version";
pub(super) const SERVICE_INSTANCE_ID: &str = "service.instance.id";
pub(super) const K8S_POD_UID: &str = "k8s.pod.uid";
pub(super) const TELEMETRY_SDK_LANGUAGE: &str = "telemetry.sdk.language";
pub(super) const TELEMETRY_SDK_NAME: &str = "telemetry.sdk.name";

pub(super) const HTTP_REQUEST_METHOD: &str = "http.request.method";
pub(super) const HTTP_RESPONSE_STATUS_CODE: &str = "http.response.status_code";
pub(super) const HTTP_REQUEST_BODY_SIZE: &str = "http.request.body.size";
pub(super) const HTTP_RESPONSE_BODY_SIZE: &str = "http.response.body.size";
pub(super) const HTTP_ROUTE: &str = "http.route";
pub(super) const URL_PATH: &str = "url.path";
pub(super) const CLIENT_ADDRESS: &str = "client.address";
pub(super) const SERVER_ADDRESS: &str = "server.address";
pub(super) const SERVER_PORT: &str = "server.port";
pub(super) const RPC_GRPC_STATUS_CODE: &str = "rpc.grpc.status_code";
pub(super) const ERROR_TYPE: &str = "error.type";

pub(super) const OPERATION_NAME: &str = "gen_ai.operation.name";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";

pub(super) const GRAY_TAG: &str = "gray.tag";
pub(super) const GRAY_ENABLED: &str = "gray.enabled";

pub(super) const REQUEST_ID: &str = "greylag.request_id";
pub(super) const X_TRACE_ID: &str = "greylag.x_trace_id";
pub(super) const KEPT: &str = "greylag.kept";
pub(super) const ENGINE: &str = "greylag.engine";
pub(super) const ENGINE_STATUS: &str = "greylag.engine_status";
pub(super) const SPLIT: &str = "greylag.split";
pub(super) const HOW: &str = "greylag.how";
pub(super) const OUTCOME: &str = "greylag.outcome";
pub(super) const END: &str = "greylag.end";
pub(super) const REASON: &str = "greylag.reason";
pub(super) const STREAM_ERROR: &str = "greylag.stream_error";
pub(super) const RULES_VERSION: &str = "greylag.rules_version";
pub(super) const RULES_HASH: &str = "greylag.rules_hash";
pub(super) const TRAFFIC: &str = "greylag.traffic";
pub(super) const LEG: &str = "greylag.leg";
pub(super) const ATTEMPTS: &str = "greylag.attempts";
pub(super) const REUSED: &str = "greylag.reused";
pub(super) const TTFT: &str = "greylag.ttft";
pub(super) const FIRST_OUTPUT: &str = "greylag.time_to_first_output_token";
pub(super) const TIME_PER_OUTPUT_TOKEN: &str = "greylag.time_per_output_token";
pub(super) const E2E: &str = "greylag.e2e";
pub(super) const TOKEN_EVENTS: &str = "greylag.token_events";
pub(super) const UNMETERED: &str = "greylag.unmetered";
pub(super) const REQUESTS: &str = "greylag.requests";

/// The first token event was read.
pub(super) const EVENT_FIRST_TOKEN: &str = "gen_ai.first_token";
/// The request's last byte was written to the engine.
pub(super) const EVENT_WRITTEN: &str = "greylag.request_written";
/// The client was found to have left.
pub(super) const EVENT_CLIENT_LEFT: &str = "greylag.client_left";

/// The names that a version of the conventions has; none: it knows nothing of the kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub provider: &'static str,
    pub stream: Option<&'static str>,
    pub time_to_first_chunk: Option<&'static str>,
    pub cached_tokens: Option<&'static str>,
    pub reasoning_tokens: Option<&'static str>,
}

impl Names {
    /// Those of a version.
    pub(super) fn of(version: Semconv) -> Names {
        match version {
            Semconv::Latest => Names {
                provider: "gen_ai.provider.name",
                stream: Some("gen_ai.request.stream"),
                time_to_first_chunk: Some("gen_ai.response.time_to_first_chunk"),
                cached_tokens: Some("gen_ai.usage.cache_read.input_tokens"),
                reasoning_tokens: Some("gen_ai.usage.reasoning.output_tokens"),
            },
            Semconv::V1_36 => Names {
                provider: "gen_ai.system",
                stream: None,
                time_to_first_chunk: None,
                cached_tokens: None,
                reasoning_tokens: None,
            },
        }
    }
}
