//! What an inference request asks for.
//!
//! In: the route, the head, the body. Out: a [`Call`], or the [`Refusal`] that vLLM 0.32 would give.
//! Never looks at fields that do not change what the simulator does: they are accepted, as vLLM accepts unknown ones.

use serde_json::{Map, Value};

use crate::request::Head;
use crate::settings::Settings;

/// The two inference routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

impl Route {
    pub(crate) fn of(path: &str) -> Option<Route> {
        match path {
            "/v1/chat/completions" => Some(Route::Chat),
            "/v1/completions" => Some(Route::Completions),
            _ => None,
        }
    }
}

/// What a request asks for, checked.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) route: Route,
    /// One for a chat, one or more for completions.
    pub(crate) prompts: Vec<Prompt>,
    /// Choices a prompt.
    pub(crate) n: usize,
    pub(crate) stream: bool,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) ignore_eos: bool,
    /// The last event bears usage.
    pub(crate) include_usage: bool,
    /// Every event bears usage.
    pub(crate) continuous_usage: bool,
    /// The text follows from the prompt (and this seed) alone: temperature 0, or a seed given.
    pub(crate) greedy: Option<i64>,
}

/// A prompt, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Words, or token ids, of it.
    pub(crate) tokens: u64,
    /// Its JSON, from which a greedy text follows.
    pub(crate) key: Vec<u8>,
}

/// An error answer in vLLM's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
}

impl Refusal {
    /// Refused by the validation of the request's form.
    fn form(message: String, param: Option<&str>) -> Refusal {
        let message = format!("1 validation error:\n  {message}");
        Refusal {
            status: 400,
            kind: "Bad Request",
            message,
            param: param.map(str::to_owned),
        }
    }

    /// Refused for a header of the simulator's own.
    pub(crate) fn header(name: &str, message: String) -> Refusal {
        Refusal {
            status: 400,
            kind: "BadRequestError",
            message,
            param: Some(name.to_owned()),
        }
    }

    /// Refused by the engine, for a parameter's value.
    fn value(message: &str, param: &str, value: Option<&Value>) -> Refusal {
        let value = value.map_or(String::new(), |value| format!(", value={value}"));
        let message = format!("{message} (parameter={param}{value})");
        Refusal {
            status: 400,
            kind: "BadRequestError",
            message,
            param: Some(param.to_owned()),
        }
    }
}

/// The longest answer and what `/v1/models` says of the model.
pub(crate) const MAX_MODEL_LEN: u64 = 131_072;
/// Prompts times `n`.
const MOST_CHOICES: usize = 256;

impl Call {
    /// Reads a request.
    pub(crate) fn read(
        route: Route,
        head: &Head,
        body: &[u8],
        settings: &Settings,
    ) -> Result<Call, Refusal> {
        let media = head
            .header("content-type")
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        if !media.eq_ignore_ascii_case("application/json") {
            return Err(Refusal::form(
                "Unsupported Media Type: Only 'application/json' is allowed".into(),
                None,
            ));
        }
        let fields = object(body)?;
        let prompts = prompts(route, &fields)?;
        known_model(&fields, settings)?;
        if let Some(temperature) = fields
            .get("temperature")
            .and_then(Value::as_f64)
            .filter(|value| *value < 0.0)
        {
            let message = format!("temperature must be non-negative, got {temperature:?}.");
            return Err(Refusal::value(
                &message,
                "temperature",
                fields.get("temperature"),
            ));
        }
        let max_tokens = max_tokens(&fields)?;
        let stream = flag(&fields, "stream");
        let options = fields.get("stream_options").and_then(Value::as_object);
        if options.is_some() && !stream {
            return Err(Refusal::value(
                "Stream options can only be defined when `stream=True`.",
                "stream_options",
                None,
            ));
        }
        let asked = |key| options.is_some_and(|options| flag(options, key));
        let include_usage = settings.force_include_usage || asked("include_usage");
        let n = choices(&fields, prompts.len())?;
        let seed = fields.get("seed").and_then(Value::as_i64);
        let cold = fields.get("temperature").and_then(Value::as_f64) == Some(0.0);
        Ok(Call {
            route,
            prompts,
            n,
            stream,
            max_tokens,
            ignore_eos: flag(&fields, "ignore_eos"),
            include_usage,
            continuous_usage: include_usage
                && (settings.force_include_usage || asked("continuous_usage_stats")),
            greedy: seed.or(cold.then_some(0)),
        })
    }

    /// Tokens of all prompts.
    pub(crate) fn prompt_tokens(&self) -> u64 {
        self.prompts.iter().map(|prompt| prompt.tokens).sum()
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Refusal::form(
            "{'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid dictionary or object to extract fields from'}".into(),
            Some("body"),
        )),
        Err(error) => {
            let at = format!("body.{}", error.column());
            let message = format!("{{'type': 'json_invalid', 'loc': '{at}', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {{'error': '{error}'}}}}");
            Err(Refusal::form(message, Some(&at)))
        }
    }
}

fn prompts(route: Route, fields: &Map<String, Value>) -> Result<Vec<Prompt>, Refusal> {
    let (key, found) = match route {
        Route::Chat => (
            "messages",
            fields
                .get("messages")
                .filter(|messages| messages.is_array()),
        ),
        Route::Completions => (
            "prompt",
            fields
                .get("prompt")
                .filter(|prompt| prompt.is_string() || prompt.is_array()),
        ),
    };
    let Some(found) = found else {
        let at = format!("body.{key}");
        let message = format!(
            "{{'type': 'missing', 'loc': '{at}', 'msg': 'Field required', 'input': '<dict of {} items>'}}",
            fields.len()
        );
        return Err(Refusal::form(message, Some(&at)));
    };
    let prompt = |value: &Value| Prompt {
        tokens: tokens(value),
        key: value.to_string().into_bytes(),
    };
    Ok(match (route, found) {
        // A list of texts, or of lists of token ids, is a list of prompts; a list of token ids is one prompt.
        (Route::Completions, Value::Array(items)) if items.iter().any(|item| !item.is_number()) => {
            items.iter().map(prompt).collect()
        }
        (Route::Completions | Route::Chat, whole) => vec![prompt(whole)],
    })
}

/// Words in all texts of a prompt, and one for every token id; roles and types do not count.
fn tokens(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.split_whitespace().count() as u64,
        Value::Number(_) => 1,
        Value::Array(items) => items.iter().map(tokens).sum(),
        Value::Object(fields) => ["content", "text"]
            .iter()
            .filter_map(|key| fields.get(*key))
            .map(tokens)
            .sum(),
        Value::Null | Value::Bool(_) => 0,
    }
}

fn known_model(fields: &Map<String, Value>, settings: &Settings) -> Result<(), Refusal> {
    match fields.get("model").and_then(Value::as_str) {
        Some(model) if model != settings.model => Err(Refusal {
            status: 404,
            kind: "NotFoundError",
            message: format!(
                "The model `{model}` does not exist. Valid aliases: {}.",
                settings.model
            ),
            param: Some("model".into()),
        }),
        _ => Ok(()),
    }
}

fn max_tokens(fields: &Map<String, Value>) -> Result<Option<u64>, Refusal> {
    let named = ["max_completion_tokens", "max_tokens"]
        .into_iter()
        .find_map(|key| Some((key, fields.get(key).filter(|value| !value.is_null())?)));
    let Some((key, value)) = named else {
        return Ok(None);
    };
    match value.as_u64() {
        Some(tokens) if tokens > MAX_MODEL_LEN => {
            let message = format!(
                "{key}={value} cannot be greater than max_model_len={MAX_MODEL_LEN}. Please request fewer output tokens."
            );
            Err(Refusal::value(&message, key, Some(value)))
        }
        Some(tokens) if tokens > 0 => Ok(Some(tokens)),
        _ => Err(Refusal::value(
            &format!("{key} must be at least 1, got {value}."),
            key,
            Some(value),
        )),
    }
}

fn choices(fields: &Map<String, Value>, prompts: usize) -> Result<usize, Refusal> {
    let value = fields.get("n").filter(|value| !value.is_null());
    let n = value.map_or(Some(1), |value| {
        value.as_u64().and_then(|n| usize::try_from(n).ok())
    });
    let message = match n {
        Some(0) | None => "n must be at least 1.".to_owned(),
        Some(n) if n.saturating_mul(prompts) > MOST_CHOICES => {
            format!(
                "n times the number of prompts must be at most {MOST_CHOICES}, got {n} for {prompts}."
            )
        }
        Some(n) => return Ok(n),
    };
    Err(Refusal::value(&message, "n", value))
}

fn flag(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests;
