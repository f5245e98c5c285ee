//! OpenAI's audio: transcriptions, translations and speech, as vLLM serves them too.
//!
//! In: an event, or a whole answer in JSON. Out: an [`Answer`]. vLLM streams chunks like those of chat and ends with
//! `[DONE]`; OpenAI streams `transcript.text.delta` or `speech.audio.delta` and ends with `….done`. Text, subtitles and
//! sound are whole answers too, of which there is nothing to say. A usage in seconds is no count of tokens.

use super::super::Usage;
use super::super::answer::{Answer, object, says, text};
use super::super::in_stream_error::InStreamError;
use super::super::past::Past;
use super::{Body, Grammar, chat, openai, silent};
use crate::json::{Fault, Kind};
use crate::refusal::Family;

pub(super) const GRAMMAR: Grammar = Grammar {
    operation: "audio",
    name: "audio",
    read,
    speak: silent,
    body: Body::JsonOrMedia,
    ends_with_body: false,
    takes_usage_option: false,
    family: Family::OpenAi,
};

fn read<'a>(json: &'a [u8], _past: &mut Past) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    let (mut is_text, mut is_sound, mut is_last) = (false, false, false);
    let (mut delta, mut sound) = (false, false);
    object(json, |cursor, key| {
        match key.raw() {
            b"type" => {
                let kind = text(cursor)?;
                let is = |word| kind.is_some_and(|kind| kind.is(word));
                is_text = is("transcript.text.delta");
                is_sound = is("speech.audio.delta");
                is_last = is("transcript.text.done") || is("speech.audio.done");
            }
            b"delta" => delta = says(cursor)?,
            b"audio" => sound = says(cursor)?,
            b"choices" => openai::choices(chat::member, cursor, &mut answer)?,
            b"usage" => {
                answer.has_usage = cursor.kind()? == Kind::Object;
                answer.usage = Usage::any(cursor)?;
            }
            b"model" => answer.model = text(cursor)?,
            b"error" => answer.error = InStreamError::value(cursor)?,
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    answer.shows_text |= is_text && delta;
    answer.bears_tokens |= (is_text && delta) || (is_sound && sound);
    answer.ends = is_last.then_some(true);
    Ok(answer)
}
