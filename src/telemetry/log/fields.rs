//! All fields of a line of the access log, in one table.
//!
//! In: a record. Out: what each field says of it; the schema and docs/access-log.md are this table too. Names are
//! OpenTelemetry's where it has one. What is not known says nothing.

use greylag_filters::cause::{Grade, Root};
use greylag_filters::meter::{EngineTimes, Figures, Usage};
use greylag_filters::trace::Trace;

use super::said::{Kind, Said, Words};
use crate::record::Record;
use crate::telemetry::names;

/// One field.
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What that means, for people.
    pub meaning: &'static str,
    /// What it says of a record.
    pub of: for<'a> fn(&'a Record) -> Option<Said<'a>>,
}

/// The event that a line tells of.
pub const EVENT: &str = "greylag.exchange";

/// All of them, in the order of a line.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    Field { name: "timestamp", kind: Kind::Time,
        meaning: "when the request's head was read, RFC 3339, UTC",
        of: |record| Some(Said::Time(record.started)) },
    Field { name: "severity_text", kind: Kind::OneOf(SEVERITIES),
        meaning: "`INFO` where all is well, else by `grade`: `WARN`, `ERROR` or `FATAL`",
        of: |record| Some(Said::Text(severity(record).0)) },
    Field { name: "severity_number", kind: Kind::Whole,
        meaning: "the same as OpenTelemetry counts it: 9, 13, 17 or 21",
        of: |record| Some(Said::Whole(severity(record).1)) },
    Field { name: "event_name", kind: Kind::OneOf(&[EVENT]),
        meaning: "`greylag.exchange`: an exchange has ended",
        of: |_| Some(Said::Text(EVENT)) },
    Field { name: "trace_id", kind: Kind::Text,
        meaning: "the trace that it is part of",
        of: |record| trace(record).map(|trace| Said::Hex16(trace.trace_id)) },
    Field { name: "span_id", kind: Kind::Text,
        meaning: "its place there; as sent upstream, unless `rules.trace.inject` is off. See [traces.md](traces.md)",
        of: |record| trace(record).map(|trace| Said::Hex8(trace.span)) },
    Field { name: "greylag.parent_span_id", kind: Kind::Text,
        meaning: "the caller's place there",
        of: |record| trace(record)?.parent.map(Said::Hex8) },
    Field { name: "greylag.sampled", kind: Kind::Flag,
        meaning: "whether the trace is sampled, by the caller's word or else by `rules.trace`",
        of: |record| trace(record).map(|trace| Said::Flag(trace.sampled())) },
    Field { name: names::KEPT, kind: Kind::OneOf(KEPT),
        meaning: "why its span is sent to the collector; absent where it is not",
        of: |record| record.kept.map(|kept| Said::Text(kept.label())) },
    Field { name: names::ERROR_CODE, kind: Kind::Text,
        meaning: "what was wrong, in three levels: where it showed, in what, how it was found. See the table below",
        of: |record| record.cause().map(|cause| Said::Text(cause.code)) },
    Field { name: names::GRADE, kind: Kind::OneOf(GRADES),
        meaning: "how bad it is: `warn` (the caller's doing, or load), `error` (an engine, or the way to it), `fatal` (Greylag itself)",
        of: |record| record.cause().map(|cause| Said::Text(cause.grade().label())) },
    Field { name: names::ROOT_CAUSE, kind: Kind::OneOf(ROOTS),
        meaning: "whose doing it was, see the table below",
        of: |record| record.cause().map(|cause| Said::Text(cause.root.label())) },
    Field { name: names::REQUEST_ID, kind: Kind::Text,
        meaning: "the caller's `x-request-id`, else one of Greylag's",
        of: |record| Some(Said::Text(&record.id)) },
    Field { name: names::X_TRACE_ID, kind: Kind::Text,
        meaning: "the caller's `x-trace-id`, if it is at most 256 bytes",
        of: |record| record.x_trace_id.as_deref().map(Said::Text) },
    Field { name: names::HTTP_REQUEST_METHOD, kind: Kind::Text,
        meaning: "the request's method",
        of: |record| Some(Said::Text(record.method.as_str())) },
    Field { name: names::URL_PATH, kind: Kind::Text,
        meaning: "its path without the query, at most 256 bytes",
        of: |record| Some(Said::Text(&record.path)) },
    Field { name: names::HTTP_ROUTE, kind: Kind::Text,
        meaning: "the inference route; `declared` for a path of `rules.routes`; else `other`",
        of: |record| Some(Said::Text(record.route.label())) },
    Field { name: names::CLIENT_ADDRESS, kind: Kind::Text,
        meaning: "the client's address: the peer's, or the one that a PROXY header or a trusted peer names",
        of: |record| record.client.map(Said::Ip) },
    Field { name: names::HTTP_RESPONSE_STATUS_CODE, kind: Kind::Whole,
        meaning: "the status that the client was sent",
        of: |record| record.status.map(u64::from).map(Said::Whole) },
    Field { name: names::HTTP_REQUEST_BODY_SIZE, kind: Kind::Whole,
        meaning: "bytes of the request's body, as the client sent it",
        of: |record| Some(Said::Whole(record.request_bytes)) },
    Field { name: names::HTTP_RESPONSE_BODY_SIZE, kind: Kind::Whole,
        meaning: "bytes of the answer's body, as the client was sent it",
        of: |record| Some(Said::Whole(record.answer_bytes)) },
    Field { name: names::RPC_GRPC_STATUS_CODE, kind: Kind::Whole,
        meaning: "the status that a gRPC call ended with; `greylag.engine_status` is then what says the same over HTTP",
        of: |record| record.grpc_status.map(|status| Said::Whole(status.code().into())) },
    Field { name: names::OPERATION_NAME, kind: Kind::Text,
        meaning: "what a model was asked to do, in OpenTelemetry's words where it has one",
        of: |record| inference(record).map(|record| Said::Text(record.route.operation())) },
    Field { name: names::REQUEST_MODEL, kind: Kind::Text,
        meaning: "the model that the request names, at most 256 bytes",
        of: |record| record.model.as_deref().map(Said::Text) },
    Field { name: names::REQUEST_STREAM, kind: Kind::Flag,
        meaning: "whether the request asks for a stream",
        of: |record| inference(record).map(|record| Said::Flag(record.stream)) },
    Field { name: names::RESPONSE_MODEL, kind: Kind::Text,
        meaning: "the model that the answer names, at most 256 bytes",
        of: |record| figures(record)?.model.as_deref().map(Said::Text) },
    Field { name: names::FINISH_REASONS, kind: Kind::Words,
        meaning: "why its choices ended, a word each, at most 16",
        of: |record| reasons(record).map(Said::Words) },
    Field { name: names::INPUT_TOKENS, kind: Kind::Whole,
        meaning: "prompt tokens, from usage",
        of: |record| usage(record)?.prompt.map(Said::Whole) },
    Field { name: names::OUTPUT_TOKENS, kind: Kind::Whole,
        meaning: "output tokens, from usage",
        of: |record| usage(record)?.completion.map(Said::Whole) },
    Field { name: names::CACHED_TOKENS, kind: Kind::Whole,
        meaning: "prompt tokens that came from the prefix cache, from usage",
        of: |record| usage(record)?.cached.map(Said::Whole) },
    Field { name: names::REASONING_TOKENS, kind: Kind::Whole,
        meaning: "output tokens that were reasoning, from usage",
        of: |record| usage(record)?.reasoning.map(Said::Whole) },
    Field { name: names::GRAY_TAG, kind: Kind::Text,
        meaning: "the engine's tag, or, where only one engine could be chosen, what a trusted caller or `identity` calls it",
        of: |record| record.tag.as_deref().map(Said::Text) },
    Field { name: names::ENGINE, kind: Kind::Text,
        meaning: "the engine that was chosen",
        of: |record| record.engine.as_deref().map(Said::Text) },
    Field { name: names::ENGINE_STATUS, kind: Kind::Whole,
        meaning: "the status that the engine sent",
        of: |record| record.engine_status.map(u64::from).map(Said::Whole) },
    Field { name: names::SPLIT, kind: Kind::Text,
        meaning: "the split that chose it",
        of: |record| record.split.as_deref().map(Said::Text) },
    Field { name: names::HOW, kind: Kind::Text,
        meaning: "how: `hop` (another Greylag has routed it, so it went to the default engine), `forced`, `sticky`, `draw`, `default`, `sequence` (a Triton sequence goes on where it was begun), or `fallback` where the engine that was found first was not to be had",
        of: |record| record.how.map(|how| Said::Text(how.label())) },
    Field { name: names::ATTEMPTS, kind: Kind::Whole,
        meaning: "how often an engine was tried, also when there was no connection to be had: 0 to 4, at most twice for each of two engines",
        of: |record| Some(Said::Whole(record.attempts.into())) },
    Field { name: names::REUSED, kind: Kind::Flag,
        meaning: "whether the last attempt went over a pooled connection",
        of: |record| Some(Said::Flag(record.reused)) },
    Field { name: "greylag.tunnel", kind: Kind::Flag,
        meaning: "`true` where the engine agreed to switch to WebSocket; the body sizes are then those of the tunnel",
        of: |record| record.is_tunnel.then_some(Said::Flag(true)) },
    Field { name: names::OUTCOME, kind: Kind::Text,
        meaning: "what became of it, see [metrics.md](metrics.md)",
        of: |record| Some(Said::Text(record.outcome.label())) },
    Field { name: names::END, kind: Kind::Text,
        meaning: "how it ended on the wire: `complete`, `engine_closed`, `engine_reset`, `unreachable`, `first_byte_timeout`, `idle_timeout`, `total_timeout`, `client_gone`, `client_stalled`, `drained` or `refused`",
        of: |record| Some(Said::Text(record.end.label())) },
    Field { name: names::REASON, kind: Kind::Text,
        meaning: "why Greylag answered itself or cut the answer, see [refusals.md](refusals.md)",
        of: |record| record.reason.map(|reason| Said::Text(reason.code())) },
    Field { name: names::TRAFFIC, kind: Kind::OneOf(&["real", "test"]),
        meaning: "`real` or `test`",
        of: |record| Some(Said::Text(record.traffic.label())) },
    Field { name: names::LEG, kind: Kind::OneOf(&["primary"]),
        meaning: "`primary`: the leg that answers the caller",
        of: |_| Some(Said::Text("primary")) },
    Field { name: names::RULES_VERSION, kind: Kind::Whole,
        meaning: "the version of the rules that held for the whole exchange",
        of: |record| Some(Said::Whole(record.rules_version)) },
    Field { name: names::RULES_HASH, kind: Kind::Text,
        meaning: "their hash; equal rules have equal hashes on every machine",
        of: |record| Some(Said::Hex8(record.rules_hash.to_be_bytes())) },
    Field { name: "greylag.prompt_bytes", kind: Kind::Whole,
        meaning: "bytes of what a model is to read, as JSON; absent where the body was not read, or has tensors or nothing of the kind",
        of: |record| record.prompt_bytes.map(Said::Whole) },
    Field { name: "greylag.at.request", kind: Kind::Seconds,
        meaning: "since `timestamp`: the request's body was whole",
        of: |record| record.times.request.map(Said::Seconds) },
    Field { name: "greylag.at.connected", kind: Kind::Seconds,
        meaning: "since `timestamp`: there was a connection to the engine",
        of: |record| record.times.connected.map(Said::Seconds) },
    Field { name: "greylag.at.written", kind: Kind::Seconds,
        meaning: "since `timestamp`: the request's last byte was written to the engine",
        of: |record| record.times.written.map(Said::Seconds) },
    Field { name: "greylag.at.head", kind: Kind::Seconds,
        meaning: "since `timestamp`: the answer's head was read",
        of: |record| record.times.head.map(Said::Seconds) },
    Field { name: "greylag.at.first_token", kind: Kind::Seconds,
        meaning: "since `timestamp`: the first token event was read (TTFT from arrival)",
        of: |record| figures(record)?.first_token.map(Said::Seconds) },
    Field { name: "greylag.at.ended", kind: Kind::Seconds,
        meaning: "since `timestamp`: the answer's last byte was written, or the exchange ended otherwise",
        of: |record| record.times.ended.map(Said::Seconds) },
    Field { name: names::TTFT, kind: Kind::Seconds,
        meaning: "from the request's last byte written to the first token event read",
        of: |record| record.ttft().map(Said::Seconds) },
    Field { name: names::FIRST_OUTPUT, kind: Kind::Seconds,
        meaning: "from the request's last byte written to the first visible text",
        of: |record| record.time_to_first_output_token().map(Said::Seconds) },
    Field { name: names::TIME_PER_OUTPUT_TOKEN, kind: Kind::Seconds,
        meaning: "(last − first token event) ÷ (output tokens − 1); absent without usage or for several choices",
        of: |record| figures(record)?.time_per_output_token().map(Said::Seconds) },
    Field { name: names::E2E, kind: Kind::Seconds,
        meaning: "from the request's last byte written to the last token event, or to the end of a plain answer",
        of: |record| record.e2e().map(Said::Seconds) },
    Field { name: "greylag.engine_time.first_token", kind: Kind::Seconds,
        meaning: "what the engine itself says: from scheduling to its first token (vLLM with `--enable-per-request-metrics`)",
        of: |record| engine_times(record)?.time_to_first_token.map(Said::Seconds) },
    Field { name: "greylag.engine_time.queue", kind: Kind::Seconds,
        meaning: "the same: the wait in its queue",
        of: |record| engine_times(record)?.queue.map(Said::Seconds) },
    Field { name: "greylag.engine_time.generation", kind: Kind::Seconds,
        meaning: "the same: from its first token to the last",
        of: |record| engine_times(record)?.generation.map(Said::Seconds) },
    Field { name: "greylag.engine_time.mean_gap", kind: Kind::Seconds,
        meaning: "the same: the mean time from token to token",
        of: |record| engine_times(record)?.mean_gap.map(Said::Seconds) },
    Field { name: "greylag.events", kind: Kind::Whole,
        meaning: "events of the stream",
        of: |record| figures(record).map(|figures| Said::Whole(figures.events)) },
    Field { name: names::TOKEN_EVENTS, kind: Kind::Whole,
        meaning: "those of them that bear tokens",
        of: |record| figures(record).map(|figures| Said::Whole(figures.token_events)) },
    Field { name: "greylag.first_token_event", kind: Kind::Whole,
        meaning: "which of the events was the first of those, counted from 1",
        of: |record| figures(record)?.first_token_event.map(Said::Whole) },
    Field { name: "greylag.terminated", kind: Kind::Flag,
        meaning: "whether the stream's terminator came",
        of: |record| figures(record).map(|figures| Said::Flag(figures.terminated)) },
    Field { name: names::STREAM_ERROR, kind: Kind::Text,
        meaning: "the code or type of an error within the stream",
        of: |record| stream_error(record).map(Said::Text) },
    Field { name: "greylag.json_ok", kind: Kind::Flag,
        meaning: "whether the visible text is JSON, where the request asked for that",
        of: |record| figures(record)?.json_ok.map(Said::Flag) },
    Field { name: "greylag.tool_arguments_ok", kind: Kind::Flag,
        meaning: "whether the arguments of all tool calls are JSON objects, where there are any",
        of: |record| figures(record)?.tool_arguments_ok.map(Said::Flag) },
    Field { name: "greylag.success", kind: Kind::Flag,
        meaning: "whether the answer was of use, before anybody else has judged it; see [metrics.md](metrics.md)",
        of: |record| record.success?.told().0.map(Said::Flag) },
    Field { name: "greylag.flaw", kind: Kind::OneOf(FLAWS),
        meaning: "why it was not",
        of: |record| record.success?.told().1.map(|flaw| Said::Text(flaw.label())) },
    Field { name: names::UNMETERED, kind: Kind::Text,
        meaning: "why the meter stood aside",
        of: |record| figures(record)?.unmetered.map(|why| Said::Text(why.label())) },
    Field { name: "greylag.bad_events", kind: Kind::Whole,
        meaning: "events that the meter could not read; absent when there were none",
        of: |record| some_whole(figures(record)?.bad_events) },
    Field { name: names::REQUESTS, kind: Kind::Whole,
        meaning: "of a call that carries many requests (`ModelStreamInfer`): how many it carried",
        of: |record| record.requests.as_ref().map(|requests| Said::Whole(requests.tally.requests)) },
    Field { name: "greylag.requests.unmetered", kind: Kind::Whole,
        meaning: "those of them that have no figures: too many at once, an id of more than 256 bytes, or unreadable",
        of: |record| some_whole(record.requests.as_ref()?.tally.unmetered) },
    Field { name: "greylag.requests.strays", kind: Kind::Whole,
        meaning: "answers to none of them",
        of: |record| some_whole(record.requests.as_ref()?.tally.strays) },
    Field { name: "greylag.stalled", kind: Kind::Seconds,
        meaning: "seconds for which Greylag itself was held up meanwhile (its thread did not run when it should have); the times are then not the engine's alone",
        of: |record| record.stalled.map(Said::Seconds) },
    Field { name: "greylag.log_share", kind: Kind::Share,
        meaning: "the share of lines like this one that are written (`telemetry.log.share`), where that is not all: a line then stands for 1 ÷ this many",
        of: |record| record.logged.share().map(Said::Share) },
];

const SEVERITIES: &[&str] = &["INFO", "WARN", "ERROR", "FATAL"];
const GRADES: &[&str] = &["warn", "error", "fatal"];
const KEPT: &[&str] = &["caller", "share", "error", "fault", "slow"];
const ROOTS: &[&str] = &{
    let mut labels = [""; Root::ALL.len()];
    let mut at = 0;
    while at < labels.len() {
        labels[at] = Root::ALL[at].label();
        at += 1;
    }
    labels
};

// As OpenTelemetry's log data model names and counts severities.
fn severity(record: &Record) -> (&'static str, u64) {
    match record.cause().map(|cause| cause.grade()) {
        None => ("INFO", 9),
        Some(Grade::Warn) => ("WARN", 13),
        Some(Grade::Error) => ("ERROR", 17),
        Some(Grade::Fatal) => ("FATAL", 21),
    }
}

fn trace(record: &Record) -> Option<&Trace> {
    record.trace.as_ref()
}

fn inference(record: &Record) -> Option<&Record> {
    record.route.is_inference().then_some(record)
}

fn figures(record: &Record) -> Option<&Figures> {
    record.figures.as_ref()
}

fn usage(record: &Record) -> Option<Usage> {
    figures(record)?.usage
}

fn engine_times(record: &Record) -> Option<EngineTimes> {
    figures(record)?.engine_times
}

fn reasons(record: &Record) -> Option<Words> {
    let reasons = figures(record)?.finish_reasons;
    reasons.iter().next().map(|_| Words(reasons))
}

fn stream_error(record: &Record) -> Option<&str> {
    figures(record)?.error.as_ref()?.word()
}

// What is worth a field only when it happened.
fn some_whole(count: u64) -> Option<Said<'static>> {
    (count > 0).then_some(Said::Whole(count))
}

const FLAWS: &[&str] = &["outcome", "json", "tool_arguments"];
