//! Names the dialect of an answer whose request is not known.
//!
//! In: the fields of its head, and the first bytes of its body, cut anywhere. Out: the dialect, where what was read is said
//! in one dialect alone; an error or an answer of a shape that several share is none. Nothing is kept.

use http::HeaderMap;

use crate::eye::media_type;
use crate::json::{Cursor, Fault, Kind, Text};
use crate::meter::Dialect;
use crate::sse::Splitter;
use crate::triton;

/// The dialect of an answer.
pub fn dialect(head: &HeaderMap, start: &[u8]) -> Option<Dialect> {
    if head.contains_key(triton::JSON_LENGTH) {
        return Some(Dialect::TritonInfer);
    }
    match &*media_type(head).to_ascii_lowercase() {
        "text/event-stream" => of_stream(start),
        "text/vtt" | "application/x-subrip" => Some(Dialect::Audio),
        sound if sound.starts_with("audio/") => Some(Dialect::Audio),
        _ if start.trim_ascii_start().starts_with(b"{") => of_json(start),
        _ if start.trim_ascii_start().starts_with(b"[") => of_json(start),
        _ => of_stream(start),
    }
}

/// The first event that tells, tells.
fn of_stream(start: &[u8]) -> Option<Dialect> {
    let mut found = None;
    let mut each = |data: &[u8]| found = found.or_else(|| Seen::of(data).dialect());
    let mut splitter = Splitter::new(start.len());
    splitter.feed(start, |event| each(event.data));
    splitter.finish(|event| each(event.data));
    found
}

fn of_json(json: &[u8]) -> Option<Dialect> {
    let seen = Seen::of(json);
    match seen.dialect() {
        // A stream of TGI's has the same key.
        Some(Dialect::GenerateStream) => Some(Dialect::Generate),
        // In a stream, Responses has an event that is called so too.
        None if seen.is_error => Some(Dialect::Messages),
        found => found,
    }
}

/// What has been seen of one JSON value.
#[derive(Default)]
struct Seen {
    // what `object` or `type` says
    said: Option<Dialect>,
    // `type` is `error`, and there is an `error`
    is_error: bool,
    keys: Keys,
}

/// Keys that tell dialects apart, each at its own depth.
#[derive(Default)]
struct Keys {
    text: bool,
    meta_info: bool,
    generated_text: bool,
    token: bool,
    content: bool,
    stop: bool,
    tokens_predicted: bool,
    model_name: bool,
    model_version: bool,
    outputs: bool,
    delta_of_choice: bool,
    text_of_choice: bool,
    embedding: bool,
    score: bool,
    relevance_score: bool,
}

impl Seen {
    /// Reads as far as there is JSON: a cut or a flaw ends the reading, not what was seen before.
    fn of(json: &[u8]) -> Seen {
        let mut seen = Seen::default();
        let mut cursor = Cursor::new(json);
        let mut error = (false, false);
        let read = match cursor.kind() {
            Ok(Kind::Array) => cursor.array(|cursor| seen.object(cursor, &mut error)),
            Ok(Kind::Object) => seen.object(&mut cursor, &mut error),
            Ok(Kind::String | Kind::Number | Kind::Bool | Kind::Null) | Err(_) => Ok(()),
        };
        // What was seen before a fault stands.
        let (Ok(()) | Err(_)) = read;
        seen.is_error = error == (true, true);
        seen
    }

    fn object(&mut self, cursor: &mut Cursor<'_>, error: &mut (bool, bool)) -> Result<(), Fault> {
        cursor.object(|cursor, key| {
            let keys = &mut self.keys;
            match key.raw() {
                b"object" | b"type" if cursor.kind()? == Kind::String => {
                    let word = cursor.string()?;
                    error.0 |= word.is("error");
                    self.said = self.said.or(named(word));
                    return Ok(());
                }
                b"error" => error.1 = true,
                b"text" => keys.text = true,
                b"meta_info" => keys.meta_info = true,
                b"generated_text" => keys.generated_text = true,
                b"token" => keys.token = true,
                b"content" => keys.content = true,
                b"stop" => keys.stop = true,
                b"tokens_predicted" => keys.tokens_predicted = true,
                b"model_name" => keys.model_name = true,
                b"model_version" => keys.model_version = true,
                b"outputs" => keys.outputs = true,
                b"choices" => {
                    return inside(cursor, |key| match key {
                        b"delta" | b"message" => keys.delta_of_choice = true,
                        b"text" => keys.text_of_choice = true,
                        _ => {}
                    });
                }
                b"data" | b"results" => {
                    return inside(cursor, |key| match key {
                        b"embedding" => keys.embedding = true,
                        b"score" => keys.score = true,
                        b"relevance_score" => keys.relevance_score = true,
                        _ => {}
                    });
                }
                _ => {}
            }
            cursor.skip().map(drop)
        })
    }

    fn dialect(&self) -> Option<Dialect> {
        let keys = &self.keys;
        self.said.or(match () {
            () if keys.delta_of_choice => Some(Dialect::Chat),
            () if keys.text_of_choice => Some(Dialect::Completions),
            () if keys.text && keys.meta_info => Some(Dialect::Generate),
            () if keys.token || keys.generated_text => Some(Dialect::GenerateStream),
            () if keys.content && keys.stop && keys.tokens_predicted => {
                Some(Dialect::LlamaCompletion)
            }
            () if keys.model_name && keys.outputs => Some(Dialect::TritonInfer),
            () if keys.model_name && keys.model_version => Some(Dialect::TritonGenerate),
            () if keys.embedding => Some(Dialect::Embeddings),
            () if keys.relevance_score => Some(Dialect::Rerank),
            () if keys.score => Some(Dialect::Score),
            () => None,
        })
    }
}

/// Calls `each` with the keys of every object in an array.
fn inside(cursor: &mut Cursor<'_>, mut each: impl FnMut(&[u8])) -> Result<(), Fault> {
    if cursor.kind()? != Kind::Array {
        return cursor.skip().map(drop);
    }
    cursor.array(|cursor| {
        if cursor.kind()? != Kind::Object {
            return cursor.skip().map(drop);
        }
        cursor.object(|cursor, key| {
            each(key.raw());
            cursor.skip().map(drop)
        })
    })
}

/// The dialect that has an `object` or a `type` of this name.
fn named(word: Text<'_>) -> Option<Dialect> {
    match word.plain()? {
        b"chat.completion" | b"chat.completion.chunk" => Some(Dialect::Chat),
        b"text_completion" => Some(Dialect::Completions),
        b"response" => Some(Dialect::Responses),
        b"transcription.chunk" | b"translation.chunk" => Some(Dialect::Audio),
        b"message"
        | b"message_start"
        | b"message_delta"
        | b"message_stop"
        | b"content_block_start"
        | b"content_block_delta"
        | b"content_block_stop" => Some(Dialect::Messages),
        word if word.starts_with(b"response.") => Some(Dialect::Responses),
        word if word.starts_with(b"transcript.text.") => Some(Dialect::Audio),
        word if word.starts_with(b"speech.audio.") => Some(Dialect::Audio),
        _ => None,
    }
}

/// Any bytes, of any media type: what is recognised in the beginning of an answer is recognised in a longer one.
#[cfg(any(test, fuzzing))]
pub fn fuzz_recognise(bytes: &[u8]) {
    let Some(([kind, cut], start)) = bytes.split_first_chunk() else {
        return;
    };
    let mut head = HeaderMap::new();
    let media_type = match kind % 3 {
        0 => "text/event-stream; charset=utf-8",
        1 => "application/json",
        _ => "audio/wav",
    };
    head.insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static(media_type),
    );
    let cut = usize::from(*cut).min(start.len());
    let (short, _) = start.split_at_checked(cut).unwrap_or((start, &[]));
    let (early, late) = (dialect(&head, short), dialect(&head, start));
    assert!(early.is_none() || late.is_some());
}

#[cfg(test)]
mod tests;
