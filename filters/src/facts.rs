//! What a request's body says.

use serde_json::Value;

/// The facts of a JSON body.
#[derive(Clone, Debug)]
pub struct Body {
    /// The model asked for.
    pub model: Option<Box<str>>,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// The values of the wanted keys, in their order.
    pub keys: Vec<Option<Box<str>>>,
}

/// Reads the facts of a body.
pub fn scan(body: &[u8], wanted: &[Box<str>]) -> Result<Body, serde_json::Error> {
    let value: Value = serde_json::from_slice(body)?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(Box::from);
    Ok(Body {
        model: text("model"),
        stream: value.get("stream") == Some(&Value::Bool(true)),
        keys: wanted.iter().map(|key| text(key)).collect(),
    })
}
