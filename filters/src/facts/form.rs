//! What a request asks of its answer's form: that it be JSON, or that it begin with the last message.
//!
//! In: the members of a request's outer object. Out: whether one of them asks for JSON, in the words of OpenAI, Anthropic,
//! vLLM, SGLang, llama.cpp or TGI; a grammar or a pattern of another kind is none of these. And whether the last message is
//! one that an answer may repeat.

use crate::json::{Cursor, Fault, Kind, Member, Text};

/// Whether this member asks for JSON. `value`: its text.
pub(super) fn asks_json(key: Text<'_>, member: &Member, value: &[u8]) -> Result<bool, Fault> {
    let mut cursor = Cursor::new(value);
    match key.raw() {
        // OpenAI's chat and completions, Anthropic's older form.
        b"response_format" | b"output_format" => is_json(&mut cursor),
        // Responses, and Anthropic's newer form.
        b"text" | b"output_config" => within(&mut cursor, |key| key == b"format", is_json),
        // vLLM's older form; llama.cpp's own.
        b"guided_json" | b"json_schema" => Ok(member.kind() != Kind::Null),
        // vLLM.
        b"structured_outputs" => within(&mut cursor, is_schema, is_wanted),
        // SGLang's own form.
        b"sampling_params" => within(&mut cursor, is_schema, is_wanted),
        // TGI's own form.
        b"parameters" => within(&mut cursor, |key| key == b"grammar", is_json),
        _ => Ok(false),
    }
}

/// Whether the last of `messages` is an assistant's and has a text as content. `messages`: the value, or nothing.
pub(super) fn ends_with_assistant(messages: &[u8]) -> Result<bool, Fault> {
    let mut ends = false;
    let mut cursor = Cursor::new(messages);
    if messages.is_empty() || cursor.kind()? != Kind::Array {
        return Ok(false);
    }
    cursor.array(|cursor| {
        let (mut assistant, mut says) = (false, false);
        if cursor.kind()? != Kind::Object {
            ends = false;
            return cursor.skip().map(drop);
        }
        cursor.object(|cursor, key| {
            let is_text = cursor.kind()? == Kind::String;
            match key.raw() {
                b"role" if is_text => assistant = cursor.string()?.is("assistant"),
                b"content" if is_text => says = !cursor.string()?.is_empty(),
                _ => {
                    cursor.skip()?;
                }
            }
            Ok(())
        })?;
        ends = assistant && says;
        Ok(())
    })?;
    Ok(ends)
}

fn is_schema(key: &[u8]) -> bool {
    matches!(key, b"json" | b"json_object" | b"json_schema")
}

/// Reads a value; whether it is `{"type": …}` of a kind that is JSON.
fn is_json(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    within(
        cursor,
        |key| key == b"type",
        |cursor| {
            let kind = match cursor.kind()? {
                Kind::String => cursor.string()?,
                Kind::Object | Kind::Array | Kind::Number | Kind::Bool | Kind::Null => {
                    return cursor.skip().map(|_| false);
                }
            };
            let names = ["json_object", "json_schema", "json"];
            Ok(names.into_iter().any(|name| kind.is(name)))
        },
    )
}

/// Reads a value; whether it asks for something at all.
fn is_wanted(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    let start = cursor.at();
    let kind = cursor.skip()?;
    Ok(kind != Kind::Null && cursor.since(start) != b"false")
}

/// Reads a value; whether it is an object with a member of which `of` is true.
fn within(
    cursor: &mut Cursor<'_>,
    is_it: impl Fn(&[u8]) -> bool,
    of: impl Fn(&mut Cursor<'_>) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let mut found = false;
    if cursor.kind()? != Kind::Object {
        return cursor.skip().map(|_| false);
    }
    cursor.object(|cursor, key| {
        if is_it(key.raw()) {
            found |= of(cursor)?;
        } else {
            cursor.skip()?;
        }
        Ok(())
    })?;
    Ok(found)
}
