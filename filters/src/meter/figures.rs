//! What a meter knows of an answer when it is over.
//!
//! Unknown is absent, never zero, and never guessed from the number of events. Nothing here can hold text of a
//! prompt or an answer.

use std::time::Duration;

use super::Offset;
use crate::json::{Cursor, Fault, Kind, Text};

/// The figures of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// When the first token event was read, reasoning and tool calls included.
    pub first_token: Option<Offset>,
    /// When the first visible text was read.
    pub first_output: Option<Offset>,
    /// When the last token event was read.
    pub last_token: Option<Offset>,
    /// Events that bear tokens. One may bear several, so this is no count of tokens.
    pub token_events: u64,
    /// All events of the stream, the terminator included and comments not.
    pub events: u64,
    /// The answer's own count of tokens.
    pub usage: Option<Usage>,
    /// Why its choices ended.
    pub finish_reasons: FinishReasons,
    /// The stream's terminator was read, or the whole JSON answer.
    pub terminated: bool,
    /// The answer reports an error of its own.
    pub error: Option<InStreamError>,
    /// The model that answered, up to 256 bytes.
    pub model: Option<Box<str>>,
    /// Why the figures are not, or not all, there.
    pub unmetered: Option<Unmetered>,
    /// Events that could not be read.
    pub bad_events: u64,
    /// The request asked for one choice and the answer has one.
    pub one_choice: bool,
}

impl Figures {
    /// The mean time from token to token, (last − first) / (completion tokens − 1).
    ///
    /// Absent when there is more than one choice, when there are fewer than two tokens or token events, and when
    /// the answer does not say how many tokens it has.
    pub fn time_per_output_token(&self) -> Option<Duration> {
        if !self.one_choice || self.token_events < 2 {
            return None;
        }
        let gaps = self
            .usage?
            .completion?
            .checked_sub(1)
            .filter(|gaps| *gaps > 0)?;
        let span = self.last_token?.checked_sub(self.first_token?)?;
        let nanos = span.as_nanos() / u128::from(gaps);
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }
}

/// Tokens as the engine counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: Option<u64>,
    /// Tokens of all choices together.
    pub completion: Option<u64>,
    /// Prompt tokens that came from a cache.
    pub cached: Option<u64>,
    /// Completion tokens spent on reasoning.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Reads a `usage` value. Anything but an object is no usage, and so is an object of zeros: some servers send
    /// one until the real figures are known.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Usage>, Fault> {
        if cursor.kind()? != Kind::Object {
            cursor.skip()?;
            return Ok(None);
        }
        let mut usage = Usage::default();
        cursor.object(|cursor, key| {
            match key.raw() {
                b"prompt_tokens" => usage.prompt = cursor.count()?,
                b"completion_tokens" => usage.completion = cursor.count()?,
                b"prompt_tokens_details" => detail(cursor, b"cached_tokens", &mut usage.cached)?,
                b"completion_tokens_details" => {
                    detail(cursor, b"reasoning_tokens", &mut usage.reasoning)?;
                }
                // SGLang has it one level up.
                b"reasoning_tokens" => usage.reasoning = cursor.count()?.or(usage.reasoning),
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        let known = [usage.prompt, usage.completion];
        let real = known.iter().flatten().any(|tokens| *tokens > 0);
        Ok(real.then_some(usage))
    }
}

fn detail(cursor: &mut Cursor<'_>, name: &[u8], into: &mut Option<u64>) -> Result<(), Fault> {
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok(());
    }
    cursor.object(|cursor, key| {
        if key.raw() == name {
            *into = cursor.count()?.or(*into);
        } else {
            cursor.skip()?;
        }
        Ok(())
    })
}

/// Why a choice ended (OpenAI's words, and vLLM's three more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The end of the text or a stop sequence.
    Stop,
    /// `max_tokens` or the context window.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The same in OpenAI's older form.
    FunctionCall,
    /// Held back by a filter.
    ContentFilter,
    /// vLLM: the engine gave the request up.
    Abort,
    /// vLLM: the engine failed.
    Error,
    /// vLLM: the model repeats itself.
    Repetition,
    /// Any other word.
    Other,
}

impl FinishReason {
    /// All of them.
    pub const ALL: [FinishReason; 9] = [
        FinishReason::Stop,
        FinishReason::Length,
        FinishReason::ToolCalls,
        FinishReason::FunctionCall,
        FinishReason::ContentFilter,
        FinishReason::Abort,
        FinishReason::Error,
        FinishReason::Repetition,
        FinishReason::Other,
    ];

    /// The word on the wire, and the metric label.
    pub fn label(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::FunctionCall => "function_call",
            FinishReason::ContentFilter => "content_filter",
            FinishReason::Abort => "abort",
            FinishReason::Error => "error",
            FinishReason::Repetition => "repetition",
            FinishReason::Other => "other",
        }
    }

    pub(super) fn of(word: Text<'_>) -> FinishReason {
        FinishReason::ALL
            .into_iter()
            .find(|reason| word.is(reason.label()))
            .unwrap_or(FinishReason::Other)
    }
}

/// How many choices ended for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinishReasons {
    counts: [u32; FinishReason::ALL.len()],
}

impl FinishReasons {
    /// How many choices ended for this reason.
    pub fn count(&self, reason: FinishReason) -> u32 {
        self.counts
            .get(reason as usize)
            .copied()
            .unwrap_or_default()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (FinishReason, u32)> {
        FinishReason::ALL
            .into_iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
    }

    pub(super) fn push(&mut self, reason: FinishReason) {
        if let Some(count) = self.counts.get_mut(reason as usize) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn add(&mut self, other: &FinishReasons) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }
}

/// An error that an engine reports inside an answer with status 200. Its message is not kept: it may quote the
/// prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InStreamError {
    /// `code`, a word or a number.
    pub code: Option<Box<str>>,
    /// `type`, a word.
    pub kind: Option<Box<str>>,
}

impl InStreamError {
    /// Reads the value of an `error` field that need not be JSON.
    pub(super) fn read(bytes: &[u8]) -> InStreamError {
        let mut cursor = Cursor::new(bytes);
        InStreamError::value(&mut cursor)
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Reads an `error` value. Null, false, zero and what is empty say that there is none.
    pub(super) fn value(cursor: &mut Cursor<'_>) -> Result<Option<InStreamError>, Fault> {
        match cursor.kind()? {
            Kind::Object => {
                let mut members = 0u32;
                let mut error = InStreamError::default();
                cursor.object(|cursor, key| {
                    members = members.saturating_add(1);
                    match key.raw() {
                        b"code" => error.code = word(cursor)?,
                        b"type" => error.kind = word(cursor)?,
                        _ => {
                            cursor.skip()?;
                        }
                    }
                    Ok(())
                })?;
                Ok((members > 0).then_some(error))
            }
            Kind::String => Ok((!cursor.string()?.is_empty()).then(InStreamError::default)),
            Kind::Number => {
                let code = word(cursor)?.filter(|code| &**code != "0");
                Ok(code.map(|code| InStreamError {
                    code: Some(code),
                    kind: None,
                }))
            }
            Kind::Array => {
                let mut some = false;
                cursor.array(|cursor| {
                    some = true;
                    cursor.skip().map(drop)
                })?;
                Ok(some.then(InStreamError::default))
            }
            Kind::Bool => Ok(cursor.is_true()?.then(InStreamError::default)),
            Kind::Null => cursor.skip().map(|_| None),
        }
    }
}

/// Reads a value as a short identifier or number, which cannot hold a sentence.
pub(super) fn word(cursor: &mut Cursor<'_>) -> Result<Option<Box<str>>, Fault> {
    let text = match cursor.kind()? {
        Kind::String => cursor.string()?.plain(),
        Kind::Number => Some(cursor.number()?),
        Kind::Object | Kind::Array | Kind::Bool | Kind::Null => {
            cursor.skip()?;
            None
        }
    };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    Ok(text
        .filter(|text| (1..=LONGEST_WORD).contains(&text.len()) && text.iter().all(plain))
        .and_then(|text| std::str::from_utf8(text).ok())
        .map(Box::from))
}

const LONGEST_WORD: usize = 64;

/// Why an answer has no figures, or not all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmetered {
    /// The stream holds no line of a server-sent event.
    NotSse,
    /// An event was longer than the limit and was skipped; the figures are those of the others.
    EventTooLong,
    /// The answer was longer than the limit.
    TooLarge,
    /// The answer is not the JSON object it should be.
    Unparsable,
}

impl Unmetered {
    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Unmetered::NotSse => "not_sse",
            Unmetered::EventTooLong => "event_too_long",
            Unmetered::TooLarge => "too_large",
            Unmetered::Unparsable => "unparsable",
        }
    }
}
