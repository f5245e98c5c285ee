//! What looks on while an answer passes.
//!
//! In: an answer's head, its dialect, and what was asked for. Out: a meter that fits, or why there is none. Only the answers
//! of inference that went well are read: what an engine refuses has no tokens.

use http::{HeaderMap, StatusCode, header};

use crate::meter::{Dialect, Meter, Unmetered, Wanted};
use crate::triton;

/// What looks on.
#[derive(Debug)]
pub enum Eye {
    /// It sees server-sent events.
    Stream(Meter),
    /// It sees one thing.
    Whole(Meter),
    /// There is nothing to be read, or a reason why it cannot be.
    Blind(Option<Unmetered>),
}

/// What was asked for, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// A stream.
    pub stream: bool,
    /// One choice.
    pub one_choice: bool,
    /// So many choices of a chat that repeat the last message first; 0 where none does.
    pub echoes: u64,
    /// What is to be judged of the answer.
    pub checks: Wanted,
}

impl Eye {
    /// What looks on while an answer with this head passes; `limit`: the longest event or plain answer that is read, in bytes.
    pub fn of(
        dialect: Dialect,
        (status, head): (StatusCode, &HeaderMap),
        asked: Asked,
        limit: usize,
    ) -> Eye {
        if status != StatusCode::OK {
            return Eye::Blind(None);
        }
        if is_encoded(head) {
            return Eye::Blind(Some(Unmetered::Compressed));
        }
        if is_sse(head) {
            let meter = Meter::stream(dialect, asked.one_choice, limit);
            // Completions echo the prompt, which their engines take for the answer's text.
            let meter = match dialect {
                Dialect::Chat => meter.after_echoes(asked.echoes),
                _ => meter,
            };
            return Eye::Stream(meter.with_checks(asked.checks));
        }
        if asked.stream && !is_type(head, "application/json") {
            return Eye::Blind(Some(Unmetered::NotSse));
        }
        let meter = Meter::whole(dialect, asked.one_choice, limit).with_checks(asked.checks);
        let length = head.get(triton::JSON_LENGTH);
        match length.and_then(|length| triton::json_length(length.as_bytes())) {
            Some(length) => Eye::Whole(meter.with_json_length(length)),
            None => Eye::Whole(meter),
        }
    }
}

fn is_encoded(head: &HeaderMap) -> bool {
    head.get(header::CONTENT_ENCODING)
        .is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Whether an answer is a stream of server-sent events.
pub fn is_sse(head: &HeaderMap) -> bool {
    is_type(head, "text/event-stream")
}

fn is_type(head: &HeaderMap, expected: &str) -> bool {
    media_type(head).eq_ignore_ascii_case(expected)
}

/// The media type that a head names, without its parameters (RFC 9110 §8.3.1); in any case, and empty where there is none.
pub(crate) fn media_type(head: &HeaderMap) -> &str {
    let value = head.get(header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok());
    text.and_then(|text| text.split(';').next())
        .unwrap_or_default()
        .trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn head(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter();
        fields
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn a_media_type_is_known_in_any_spelling() {
        let check = |value, sse: bool| {
            assert_eq!(is_sse(&head(&[("content-type", value)])), sse, "{value}")
        };
        check("text/event-stream", true);
        check("Text/Event-Stream; charset=utf-8", true);
        check("text/event-stream-x", false);
        check("application/json", false);
        check("", false);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let look = |status: u16, stream: bool, fields: &[(&'static str, &'static str)]| {
            let asked = Asked {
                stream,
                one_choice: true,
                echoes: 0,
                checks: Wanted::default(),
            };
            let status = StatusCode::from_u16(status).unwrap();
            match Eye::of(Dialect::Chat, (status, &head(fields)), asked, 1 << 10) {
                Eye::Stream(_) => "stream",
                Eye::Whole(_) => "whole",
                Eye::Blind(None) => "blind",
                Eye::Blind(Some(why)) => why.label(),
            }
        };
        const SSE: (&str, &str) = ("content-type", "text/event-stream");
        const JSON: (&str, &str) = ("content-type", "application/json");
        assert_eq!(look(200, true, &[SSE]), "stream");
        // Triton may stream to who did not ask for it in the body.
        assert_eq!(look(200, false, &[SSE]), "stream");
        assert_eq!(look(200, false, &[JSON]), "whole");
        assert_eq!(look(200, false, &[]), "whole");
        assert_eq!(look(200, true, &[JSON]), "whole");
        assert_eq!(look(200, true, &[]), "not_sse");
        assert_eq!(look(503, true, &[SSE]), "blind");
        let encoded = |encoding| look(200, true, &[SSE, ("content-encoding", encoding)]);
        assert_eq!(encoded("gzip"), "compressed");
        assert_eq!(encoded("identity"), "stream");
    }
}
