//! Reads from a request's body what rules ask about.
//!
//! In: a whole body, and the names of the keys that rules want. Out: a [`Body`], or the first [`Fault`] if it is
//! not one JSON object. One walk at the speed of a vector search, no tree; what is kept is short, however long the
//! prompt.

mod form;
pub mod triton;

use crate::json::{Cursor, Fault, Flaw, Kind, Member, Spans, Text};
use crate::triton::Request;

/// What a request body says.
///
/// Of duplicate keys the last one counts, as in Python's `json`, and so in vLLM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// `model`, if it is a string.
    pub model: Option<Box<str>>,
    /// `stream` is true.
    pub stream: bool,
    /// `user`, if it is a string.
    pub user: Option<Box<str>>,
    /// `n`, the number of choices asked for.
    pub n: Option<u64>,
    /// `stream_options.include_usage` is there, and neither false nor null.
    pub include_usage: bool,
    /// The same of `stream_options.continuous_usage_stats`.
    pub continuous_usage: bool,
    /// `stream_options` is there, but neither an object nor null.
    pub odd_options: bool,
    /// The answer begins with the last message once more: `echo` is true, and that message is an assistant's and says
    /// something. So vLLM has it for chat.
    pub echoes: bool,
    /// It asks for an answer in JSON.
    pub wants_json: bool,
    /// `tools` is an array that is not empty.
    pub has_tools: bool,
    /// The bytes of the values of what a model is to read, under whatever keys its server takes it; absent where there are
    /// none.
    pub prompt_bytes: Option<u64>,
    /// The values of the keys that were wanted, in that order: strings as read, numbers and booleans as written.
    /// Absent: null, an array, an object, or longer than [`LONGEST`].
    pub keys: Vec<Option<Box<str>>>,
    /// What only requests to Triton say; absent where the body was not read as one.
    pub triton: Option<Box<Request>>,
    /// Where the members stand, for [`crate::edit::splice`].
    pub spans: Spans,
}

/// The longest value that is kept, in bytes as it stands in the body; a longer one counts as absent.
pub const LONGEST: usize = 4096;

/// Reads a body. `wanted`: keys of the outer object.
pub fn scan(body: &[u8], wanted: &[Box<str>]) -> Result<Body, Fault> {
    read(body, wanted, |cursor, _| cursor.skip())
}

/// Reads a body. `each` sees every member of the outer object as [`Spans::walk`] has it.
fn read<'a>(
    body: &'a [u8],
    wanted: &[Box<str>],
    each: impl FnMut(&mut Cursor<'a>, Text<'a>) -> Result<Kind, Fault>,
) -> Result<Body, Fault> {
    if let Err(error) = std::str::from_utf8(body) {
        return Err(Fault {
            what: Flaw::Utf8,
            at: error.valid_up_to(),
        });
    }
    let spans = Spans::walk(body, each)?;
    let mut facts = Body {
        keys: vec![None; wanted.len()],
        ..Body::default()
    };
    let (mut echo, mut last_messages) = (false, &[][..]);
    let mut prompts = [None; PROMPTS.len()];
    for member in spans.members() {
        let key = member.key(body);
        let value = member.value(body);
        let size = value.len() as u64;
        if key.is("model") {
            facts.model = string(member, body);
        } else if key.is("stream") {
            facts.stream = value == b"true";
        } else if key.is("user") {
            facts.user = string(member, body);
        } else if key.is("n") {
            facts.n = Cursor::new(value).count()?;
        } else if key.is("messages") {
            last_messages = value;
        } else if key.is("stream_options") {
            (facts.include_usage, facts.continuous_usage) = stream_options(member, value)?;
            facts.odd_options = !matches!(member.kind(), Kind::Object | Kind::Null);
        } else if key.is("echo") {
            echo = value == b"true";
        } else if key.is("tools") {
            facts.has_tools = member.kind() == Kind::Array && holds_something(value);
        } else {
            facts.wants_json |= form::asks_json(key, member, value)?;
        }
        // What is one object holds options: Responses have a `text` that says the form of the answer.
        let says = !matches!(member.kind(), Kind::Object | Kind::Null);
        for (prompt, length) in PROMPTS.iter().zip(&mut prompts) {
            if key.is(prompt) {
                *length = says.then_some(size);
            }
        }
        for (wanted, kept) in wanted.iter().zip(&mut facts.keys) {
            if key.is(wanted) {
                *kept = scalar(member, body);
            }
        }
    }
    facts.echoes = echo && form::ends_with_assistant(last_messages)?;
    let some = prompts.iter().any(Option::is_some);
    facts.prompt_bytes = some.then(|| prompts.iter().flatten().sum());
    facts.spans = spans;
    Ok(facts)
}

/// The keys under which servers take what a model is to read: OpenAI's (chat, completions, Responses, embeddings), Anthropic's
/// `system`, SGLang's `text`, TGI's `inputs`, Triton's `text_input`, and those of score and rerank.
const PROMPTS: [&str; 12] = [
    "messages",
    "prompt",
    "input",
    "instructions",
    "system",
    "text",
    "inputs",
    "text_input",
    "query",
    "documents",
    "text_1",
    "text_2",
];

/// Whether there is more than white space between an array's brackets.
fn holds_something(array: &[u8]) -> bool {
    let inner = array.get(1..array.len().saturating_sub(1));
    !inner.unwrap_or_default().trim_ascii().is_empty()
}

/// Servers take 1, "true", "on" and more for a yes; whoever says anything but no has asked, whatever comes of it.
fn says_yes(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    Ok(match cursor.kind()? {
        Kind::Bool => cursor.is_true()?,
        Kind::Null => {
            cursor.skip()?;
            false
        }
        Kind::String | Kind::Number | Kind::Array | Kind::Object => {
            cursor.skip()?;
            true
        }
    })
}

/// `include_usage` and `continuous_usage_stats`.
fn stream_options(member: &Member, value: &[u8]) -> Result<(bool, bool), Fault> {
    let (mut include, mut continuous) = (false, false);
    if member.kind() == Kind::Object {
        Cursor::new(value).object(|cursor, key| {
            if key.is("include_usage") {
                include = says_yes(cursor)?;
            } else if key.is("continuous_usage_stats") {
                continuous = says_yes(cursor)?;
            } else {
                cursor.skip()?;
            }
            Ok(())
        })?;
    }
    Ok((include, continuous))
}

fn string(member: &Member, body: &[u8]) -> Option<Box<str>> {
    match member.kind() {
        Kind::String => Cursor::new(member.value(body))
            .string()
            .ok()?
            .to_text(LONGEST),
        Kind::Number | Kind::Bool | Kind::Null | Kind::Array | Kind::Object => None,
    }
}

fn scalar(member: &Member, body: &[u8]) -> Option<Box<str>> {
    match member.kind() {
        Kind::String => string(member, body),
        Kind::Number | Kind::Bool => std::str::from_utf8(member.value(body))
            .ok()
            .filter(|text| text.len() <= LONGEST)
            .map(Box::from),
        Kind::Null | Kind::Array | Kind::Object => None,
    }
}

/// Any bytes: the scan agrees with serde_json on what is JSON, and on what it reads.
#[cfg(any(test, fuzzing))]
pub fn fuzz_facts(bytes: &[u8]) {
    let wanted = [Box::from("user"), Box::from("k")];
    let ours = scan(bytes, &wanted);
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(serde_json::Value::Object(theirs)) => match ours {
            Ok(body) => {
                let text = |key: &str| theirs.get(key).and_then(|value| value.as_str());
                let fits = |text: &&str| text.len() <= LONGEST / 6;
                if let Some(model) = text("model").filter(fits) {
                    assert_eq!(body.model.as_deref(), Some(model));
                }
                if let Some(user) = text("user").filter(fits) {
                    assert_eq!(body.keys.first().cloned().flatten(), body.user);
                    assert_eq!(body.user.as_deref(), Some(user));
                }
                assert_eq!(body.stream, theirs.get("stream") == Some(&true.into()));
                let n = theirs.get("n").and_then(serde_json::Value::as_u64);
                assert_eq!(body.n, n);
                assert!(body.prompt_bytes.unwrap_or_default() <= bytes.len() as u64);
            }
            Err(fault) => assert!(
                matches!(fault.what, Flaw::Deep | Flaw::Members),
                "{fault} in valid JSON"
            ),
        },
        Ok(_) => assert!(ours.is_err(), "no object, yet read"),
        // serde_json also refuses what is no fault of the grammar: depth, half surrogates and huge numbers.
        Err(_) => {
            let grammar = serde_json::from_slice::<serde::de::IgnoredAny>(bytes);
            if grammar.is_err() {
                assert!(ours.is_err(), "invalid JSON, yet read");
            }
        }
    }
}

#[cfg(test)]
mod tests;
