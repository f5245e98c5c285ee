//! The attributes of a span.
//!
//! In: a record. Out: what OpenTelemetry's conventions name of it, and what only Greylag knows. What is not known is not there.

use greylag_filters::meter::Figures;
use greylag_filters::outcome::Outcome;
use greylag_filters::rules::engine::Kind;
use opentelemetry::{Array, KeyValue, StringValue, Value};

use crate::record::Record;
use crate::telemetry::names::{self, Names};

/// All attributes, in groups.
pub(super) fn of(record: &Record, names: &Names) -> Vec<KeyValue> {
    let mut list = List(Vec::with_capacity(48));
    http(record, &mut list);
    own(record, &mut list);
    if record.route.is_inference() {
        generation(record, names, &mut list);
    }
    if let Some(figures) = &record.figures {
        answer(record, figures, names, &mut list);
    }
    list.0
}

// What is asked of a model.
fn generation(record: &Record, naming: &Names, list: &mut List) {
    list.add(names::OPERATION_NAME, record.route.operation());
    list.add_known(naming.provider, record.kind.map(provider));
    let model = record.model.as_deref();
    list.add_known(names::REQUEST_MODEL, model.map(str::to_owned));
    if let (Some(name), true) = (naming.stream, record.stream) {
        list.add(name, true);
    }
}

// What the meter made of the answer.
fn answer(record: &Record, figures: &Figures, naming: &Names, list: &mut List) {
    let model = figures.model.as_deref();
    list.add_known(names::RESPONSE_MODEL, model.map(str::to_owned));
    let reasons: Vec<StringValue> = figures
        .finish_reasons
        .words()
        .map(StringValue::from)
        .collect();
    if !reasons.is_empty() {
        list.add(names::FINISH_REASONS, Value::Array(Array::String(reasons)));
    }
    let usage = figures.usage.unwrap_or_default();
    let counts = [
        (Some(names::INPUT_TOKENS), usage.prompt),
        (Some(names::OUTPUT_TOKENS), usage.completion),
        (naming.cached_tokens, usage.cached),
        (naming.reasoning_tokens, usage.reasoning),
        (Some(names::TOKEN_EVENTS), Some(figures.token_events)),
    ];
    for (name, count) in counts {
        if let Some(name) = name {
            list.add_known(name, count.map(whole));
        }
    }
    let times = [
        (naming.time_to_first_chunk, record.ttft()),
        (Some(names::TTFT), record.ttft()),
        (
            Some(names::FIRST_OUTPUT),
            record.time_to_first_output_token(),
        ),
        (
            Some(names::TIME_PER_OUTPUT_TOKEN),
            figures.time_per_output_token(),
        ),
        (Some(names::E2E), record.e2e()),
    ];
    for (name, time) in times {
        if let Some(name) = name {
            list.add_known(name, time.map(|time| time.as_secs_f64()));
        }
    }
    let error = figures.error.as_ref().and_then(|error| error.word());
    list.add_known(names::STREAM_ERROR, error.map(str::to_owned));
    list.add_known(
        names::UNMETERED,
        figures.unmetered.map(|reason| reason.label()),
    );
}

// What HTTP's and gRPC's conventions name.
fn http(record: &Record, list: &mut List) {
    list.add(names::HTTP_REQUEST_METHOD, record.method.to_string());
    list.add(names::URL_PATH, record.path.to_string());
    if record.route.is_inference() {
        list.add(names::HTTP_ROUTE, record.route.label());
    }
    list.add_known(
        names::HTTP_RESPONSE_STATUS_CODE,
        record.status.map(i64::from),
    );
    list.add(names::HTTP_REQUEST_BODY_SIZE, whole(record.request_bytes));
    list.add(names::HTTP_RESPONSE_BODY_SIZE, whole(record.answer_bytes));
    list.add_known(
        names::CLIENT_ADDRESS,
        record.client.map(|client| client.to_string()),
    );
    if let Some(target) = &record.target {
        let address = &target.address;
        match &address.socket {
            Some(path) => list.add(names::SERVER_ADDRESS, path.display().to_string()),
            None => {
                list.add(names::SERVER_ADDRESS, address.host.to_string());
                list.add(names::SERVER_PORT, i64::from(address.port));
            }
        }
    }
    let grpc = record.grpc_status.map(|status| i64::from(status.code()));
    list.add_known(names::RPC_GRPC_STATUS_CODE, grpc);
    list.add_known(names::ERROR_TYPE, error(record));
    if let Some(cause) = record.cause() {
        list.add(names::ERROR_CODE, cause.code);
        list.add(names::GRADE, cause.grade().label());
        list.add(names::ROOT_CAUSE, cause.root.label());
    }
}

// What only Greylag knows.
fn own(record: &Record, list: &mut List) {
    let owned = |text: &str| text.to_owned();
    list.add_known(names::GRAY_TAG, record.tag.as_deref().map(owned));
    list.add(names::GRAY_ENABLED, record.split.is_some());
    list.add(names::REQUEST_ID, record.id.to_string());
    list.add_known(names::X_TRACE_ID, record.x_trace_id.as_deref().map(owned));
    list.add_known(names::KEPT, record.kept.map(|kept| kept.label()));
    list.add_known(names::ENGINE, record.engine.as_deref().map(owned));
    list.add_known(names::ENGINE_STATUS, record.engine_status.map(i64::from));
    list.add_known(names::SPLIT, record.split.as_deref().map(owned));
    list.add_known(names::HOW, record.how.map(|how| how.label()));
    list.add(names::OUTCOME, record.outcome.label());
    list.add(names::END, record.end.label());
    list.add_known(names::REASON, record.reason.map(|reason| reason.code()));
    list.add(names::RULES_VERSION, whole(record.rules_version));
    list.add(names::RULES_HASH, format!("{:016x}", record.rules_hash));
    list.add(names::TRAFFIC, record.traffic.label());
    list.add(names::LEG, "primary");
    list.add(names::ATTEMPTS, i64::from(record.attempts));
    list.add(names::REUSED, record.reused);
    let requests = record.requests.as_ref();
    list.add_known(
        names::REQUESTS,
        requests.map(|requests| whole(requests.tally.requests)),
    );
}

// The conventions have no value for inference servers, and allow others.
fn provider(kind: Kind) -> &'static str {
    match kind {
        Kind::Vllm => "vllm",
        Kind::Sglang => "sglang",
        Kind::Llamacpp => "llamacpp",
        Kind::Triton => "triton",
        Kind::Openai => "openai",
    }
}

// Why it failed, in few different words: an engine's status, a reason of ours, or the outcome.
fn error(record: &Record) -> Option<String> {
    if !record.outcome.is_error() {
        return None;
    }
    let status = record.engine_status.filter(|status| *status >= 400);
    let reason = record.reason.map(|reason| reason.code());
    Some(match (record.outcome, status) {
        (Outcome::EngineError, Some(status)) => status.to_string(),
        (outcome, _) => reason.unwrap_or_else(|| outcome.label()).to_owned(),
    })
}

// A count as OpenTelemetry has numbers.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

// Attributes; what is not known is not added.
struct List(Vec<KeyValue>);

impl List {
    fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push(KeyValue::new(name, value));
    }

    fn add_known(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}
