//! All names of a span, and those of them that the log has too: its attributes, its events, and what OpenTelemetry's conventions call things.
//!
//! In: a version of the conventions on generative AI. Out: the names that differ between versions; the others are the same in
//! all. The table of docs/traces.md is this file's, for people.

use crate::config::Semconv;

pub const SERVICE_NAME: &str = "service.name";
pub const SERVICE_VERSION: &str = "service.version";
pub const SERVICE_INSTANCE_ID: &str = "service.instance.id";
pub const K8S_POD_UID: &str = "k8s.pod.uid";
pub const TELEMETRY_SDK_LANGUAGE: &str = "telemetry.sdk.language";
pub const TELEMETRY_SDK_NAME: &str = "telemetry.sdk.name";

pub const HTTP_REQUEST_METHOD: &str = "http.request.method";
pub const HTTP_RESPONSE_STATUS_CODE: &str = "http.response.status_code";
pub const HTTP_REQUEST_BODY_SIZE: &str = "http.request.body.size";
pub const HTTP_RESPONSE_BODY_SIZE: &str = "http.response.body.size";
pub const HTTP_ROUTE: &str = "http.route";
pub const URL_PATH: &str = "url.path";
pub const CLIENT_ADDRESS: &str = "client.address";
pub const SERVER_ADDRESS: &str = "server.address";
pub const SERVER_PORT: &str = "server.port";
pub const RPC_GRPC_STATUS_CODE: &str = "rpc.grpc.status_code";
pub const ERROR_TYPE: &str = "error.type";

pub const ERROR_CODE: &str = "error.code";
pub const GRADE: &str = "grade";
pub const ROOT_CAUSE: &str = "root_cause";

pub const OPERATION_NAME: &str = "gen_ai.operation.name";
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";

pub const GRAY_TAG: &str = "gray.tag";
pub const GRAY_ENABLED: &str = "gray.enabled";

pub const REQUEST_ID: &str = "greylag.request_id";
pub const X_TRACE_ID: &str = "greylag.x_trace_id";
pub const KEPT: &str = "greylag.kept";
pub const ENGINE: &str = "greylag.engine";
pub const ENGINE_STATUS: &str = "greylag.engine_status";
pub const SPLIT: &str = "greylag.split";
pub const HOW: &str = "greylag.how";
pub const OUTCOME: &str = "greylag.outcome";
pub const END: &str = "greylag.end";
pub const REASON: &str = "greylag.reason";
pub const STREAM_ERROR: &str = "greylag.stream_error";
pub const RULES_VERSION: &str = "greylag.rules_version";
pub const RULES_HASH: &str = "greylag.rules_hash";
pub const TRAFFIC: &str = "greylag.traffic";
pub const LEG: &str = "greylag.leg";
pub const ATTEMPTS: &str = "greylag.attempts";
pub const REUSED: &str = "greylag.reused";
pub const TTFT: &str = "greylag.ttft";
pub const FIRST_OUTPUT: &str = "greylag.time_to_first_output_token";
pub const TIME_PER_OUTPUT_TOKEN: &str = "greylag.time_per_output_token";
pub const E2E: &str = "greylag.e2e";
pub const TOKEN_EVENTS: &str = "greylag.token_events";
pub const UNMETERED: &str = "greylag.unmetered";
pub const REQUESTS: &str = "greylag.requests";

/// The first token event was read.
pub const EVENT_FIRST_TOKEN: &str = "gen_ai.first_token";
/// The request's last byte was written to the engine.
pub const EVENT_WRITTEN: &str = "greylag.request_written";
/// The client was found to have left.
pub const EVENT_CLIENT_LEFT: &str = "greylag.client_left";

/// The names that a version of the conventions has; none: it knows nothing of the kind.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    pub provider: &'static str,
    pub stream: Option<&'static str>,
    pub time_to_first_chunk: Option<&'static str>,
    pub cached_tokens: Option<&'static str>,
    pub reasoning_tokens: Option<&'static str>,
}

impl Names {
    /// Those of a version.
    pub fn of(version: Semconv) -> Names {
        match version {
            Semconv::Latest => Names {
                provider: "gen_ai.provider.name",
                stream: Some(REQUEST_STREAM),
                time_to_first_chunk: Some("gen_ai.response.time_to_first_chunk"),
                cached_tokens: Some(CACHED_TOKENS),
                reasoning_tokens: Some(REASONING_TOKENS),
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
