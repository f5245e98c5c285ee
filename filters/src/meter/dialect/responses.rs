//! OpenAI's Responses.
//!
//! In: an event, or the response object itself. Out: an [`Answer`]. Events that add text, reasoning or arguments bear
//! tokens; those that open, close or repeat a part do not, nor do the two that come before the prompt is read. The stream
//! ends with an event that holds the whole response, and with it the usage; there is no `[DONE]`.

use super::super::answer::{Answer, ahead, each_item, members, object, says, text};
use super::super::checks::Checks;
use super::super::finish_reason::FinishReason;
use super::super::in_stream_error::{InStreamError, word};
use super::super::past::Past;
use super::super::{FinishReasons, Usage};
use super::{Body, Grammar};
use crate::json::{Cursor, Fault, Kind, Text};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "chat",
    name: "responses",
    read,
    speak,
    body: Body::Json,
    ends_with_body: false,
    takes_usage_option: false,
    family: Family::OpenAi,
};

/// What an event is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    /// Adds to what callers are shown.
    Text,
    /// Adds to reasoning or to the arguments of a call.
    Tokens,
    /// The last.
    Last,
    /// An error, after which nothing comes.
    Error,
    /// Structure, or a kind that is not known.
    Other,
}

impl Event {
    fn of(kind: Text<'_>) -> Event {
        match kind.raw() {
            b"response.output_text.delta" | b"response.refusal.delta" => Event::Text,
            b"response.reasoning_text.delta"
            | b"response.reasoning_summary_text.delta"
            | b"response.function_call_arguments.delta"
            | b"response.custom_tool_call_input.delta"
            | b"response.mcp_call_arguments.delta"
            | b"response.code_interpreter_call_code.delta"
            | b"response.audio.delta"
            | b"response.audio.transcript.delta" => Event::Tokens,
            b"response.completed" | b"response.incomplete" | b"response.failed" => Event::Last,
            b"error" => Event::Error,
            _ => Event::Other,
        }
    }
}

fn read<'a>(json: &'a [u8], _past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    let (mut event, mut delta) = (Event::Other, false);
    let (mut response, mut bare) = (Response::default(), None);
    object(json, |cursor, key| {
        match key.raw() {
            b"type" => event = text(cursor)?.map_or(Event::Other, Event::of),
            b"delta" => delta = says(cursor)?,
            b"code" => bare = word(cursor)?,
            b"response" => members(cursor, |cursor, key| response.member(cursor, key))?,
            // A plain answer, or an error of any server.
            _ => response.member(cursor, key)?,
        }
        Ok(())
    })?;
    answer.shows_text = delta && event == Event::Text;
    answer.bears_tokens = delta && matches!(event, Event::Text | Event::Tokens);
    answer.ends = (event == Event::Last).then_some(true);
    answer.finish_reasons = response.reasons();
    answer.has_usage = response.usage.is_some();
    answer.usage = response.usage;
    answer.model = response.model;
    let is_error = event == Event::Error || response.status == Some(Status::Failed);
    answer.error = response.error.or_else(|| {
        is_error.then_some(InStreamError {
            code: bare,
            kind: None,
        })
    });
    Ok(answer)
}

/// What an event adds, or all items of a whole response. The last event repeats what was said before it, so it says nothing.
fn speak(json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    let whole = Cursor::new(json);
    let item = ahead(&whole, b"output_index")?.unwrap_or(0);
    let (mut kind, mut delta) = (None, None);
    object(json, |cursor, key| {
        match key.raw() {
            b"type" => kind = text(cursor)?,
            b"delta" => delta = text(cursor)?,
            b"output" => each_item(cursor, |cursor, item| speak_item(cursor, item, checks))?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    match (kind.map(Text::raw), delta) {
        (Some(b"response.output_text.delta"), Some(piece)) => checks.text(item, piece),
        (Some(b"response.function_call_arguments.delta"), Some(piece)) => {
            checks.arguments(0, item, piece);
        }
        (Some(b"response.output_item.added"), _) => checks.begin(0, item),
        (_, _) => {}
    }
    Ok(())
}

fn speak_item(cursor: &mut Cursor<'_>, item: u64, checks: &mut Checks) -> Result<(), Fault> {
    members(cursor, |cursor, key| {
        match key.raw() {
            b"content" => each_item(cursor, |cursor, _| {
                let (mut kind, mut said) = (None, None);
                members(cursor, |cursor, key| {
                    match key.raw() {
                        b"type" => kind = text(cursor)?,
                        b"text" => said = text(cursor)?,
                        _ => {
                            cursor.skip()?;
                        }
                    }
                    Ok(())
                })?;
                // Reasoning is no answer.
                if let (Some(b"output_text"), Some(piece)) = (kind.map(Text::raw), said) {
                    checks.text(item, piece);
                }
                Ok(())
            })?,
            b"arguments" => {
                if let Some(piece) = text(cursor)? {
                    checks.arguments(0, item, piece);
                }
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })
}

/// How a response stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Completed,
    Failed,
    Cancelled,
    /// Cut short, or still under way.
    Other,
}

/// A response object.
#[derive(Default)]
struct Response<'a> {
    status: Option<Status>,
    // why it was cut short
    cut: Option<FinishReason>,
    calls: bool,
    usage: Option<Usage>,
    error: Option<InStreamError>,
    model: Option<Text<'a>>,
}

impl<'a> Response<'a> {
    fn member(&mut self, cursor: &mut Cursor<'a>, key: Text<'a>) -> Result<(), Fault> {
        match key.raw() {
            b"status" => {
                self.status = text(cursor)?.map(|status| match status.raw() {
                    b"completed" => Status::Completed,
                    b"failed" => Status::Failed,
                    b"cancelled" => Status::Cancelled,
                    _ => Status::Other,
                });
            }
            b"incomplete_details" => members(cursor, |cursor, key| {
                if key.raw() == b"reason" {
                    self.cut = text(cursor)?.map(|reason| match reason.raw() {
                        b"max_output_tokens" | b"max_tokens" => FinishReason::Length,
                        _ => FinishReason::of(reason),
                    });
                } else {
                    cursor.skip()?;
                }
                Ok(())
            })?,
            b"output" if cursor.kind()? == Kind::Array => cursor.array(|cursor| {
                members(cursor, |cursor, key| {
                    if key.raw() == b"type" {
                        let kind = text(cursor)?;
                        self.calls |= kind.is_some_and(|kind| kind.is("function_call"));
                    } else {
                        cursor.skip()?;
                    }
                    Ok(())
                })
            })?,
            b"usage" => self.usage = Usage::input_and_output(cursor)?,
            b"error" => self.error = InStreamError::value(cursor)?,
            b"model" => self.model = text(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn reasons(&self) -> FinishReasons {
        let reason = self.cut.or(match self.status {
            Some(Status::Completed) if self.calls => Some(FinishReason::ToolCalls),
            Some(Status::Completed) => Some(FinishReason::Stop),
            Some(Status::Failed) => Some(FinishReason::Error),
            Some(Status::Cancelled) => Some(FinishReason::Abort),
            Some(Status::Other) | None => None,
        });
        FinishReasons::of(reason)
    }
}
