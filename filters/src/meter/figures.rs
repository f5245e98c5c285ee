//! What a meter knows of an answer when it is over.
//!
//! Unknown is absent, never zero, and never guessed from the number of events. Nothing here can hold text of a
//! prompt or an answer.

use std::time::Duration;

use super::{EngineTimes, FinishReasons, InStreamError, Offset, Usage};

/// The figures of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// When the first token event was read, reasoning and tool calls included.
    pub first_token: Option<Offset>,
    /// Which of the events was the first that bears a token, counted from 1 as [`events`](Figures::events) are.
    pub first_token_event: Option<u64>,
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
    /// The times that the engine gives itself.
    pub engine_times: Option<EngineTimes>,
    /// Why its choices ended.
    pub finish_reasons: FinishReasons,
    /// The stream's terminator was read, or the whole plain answer.
    pub terminated: bool,
    /// The stream has no terminator: it is whole if its body is.
    pub ends_with_body: bool,
    /// The answer reports an error of its own.
    pub error: Option<InStreamError>,
    /// The model that answered, up to 256 bytes.
    pub model: Option<Box<str>>,
    /// The visible text of every choice is one JSON value. Absent where that was not asked, and where the answer is cut
    /// off or cannot be followed.
    pub json_ok: Option<bool>,
    /// The arguments of every tool call are one JSON object. Absent where no tool was offered or called, and as above.
    pub tool_arguments_ok: Option<bool>,
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

/// Why an answer has no figures, or not all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmetered {
    /// The request has a `Content-Encoding`, so nothing is known of its body.
    RequestEncoded,
    /// The request's body was longer than is gathered, so nothing is known of it.
    RequestTooLarge,
    /// Answers of the route are not read.
    NoDialect,
    /// The answer has a `Content-Encoding`, or a message of it is compressed.
    Compressed,
    /// The stream holds no line of a server-sent event.
    NotSse,
    /// An event was longer than the limit and was skipped; the figures are those of the others.
    EventTooLong,
    /// The answer was longer than the limit.
    TooLarge,
    /// The answer is not the JSON object or the message it should be.
    Unparsable,
    /// The answer is text or sound, as was asked: it has no figures.
    NotJson,
    /// Several requests of one gRPC stream have one id, and nothing marks where the answers to one end.
    Ambiguous,
}

impl Unmetered {
    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Unmetered::RequestEncoded => "request_encoded",
            Unmetered::RequestTooLarge => "request_too_large",
            Unmetered::NoDialect => "no_dialect",
            Unmetered::Compressed => "compressed",
            Unmetered::NotSse => "not_sse",
            Unmetered::EventTooLong => "event_too_long",
            Unmetered::TooLarge => "too_large",
            Unmetered::Unparsable => "unparsable",
            Unmetered::NotJson => "not_json",
            Unmetered::Ambiguous => "ambiguous",
        }
    }
}
