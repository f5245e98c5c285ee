//! Changes members of a request's body without writing the rest anew.
//!
//! In: a body, and what to change. Out: the new body, in which every byte outside the changed places is as it was:
//! order, white space, big numbers and duplicate keys stay. Never parses into a tree, never drops a member.

use std::borrow::Cow;
use std::ops::Range;

use crate::facts::Body;
use crate::json::{Fault, Kind, Member, Spans};

/// One change of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Gives a member of the outer object this value, in every place where it occurs, or adds it at the end. Of two
    /// edits of one key the later counts.
    Set {
        /// The key, as plain text.
        key: &'a str,
        /// The value as JSON text, which must be valid.
        json: &'a [u8],
    },
    /// Asks for usage at the end of a stream: `stream_options.include_usage` becomes true, and the other options
    /// stay. Options that are neither an object nor null are the caller's mistake and stay for the engine to
    /// refuse; a `Set` of `stream_options` has the last word.
    IncludeUsage,
}

/// Whether to ask for usage on the caller's behalf: a stream, which did not ask.
///
/// Not with `continuous_usage_stats`: asking would then add usage to every event (vLLM), which cannot be taken out
/// again. Nor with options that are no object: the engine refuses them.
pub fn wants_usage(body: &Body) -> bool {
    body.stream && !body.include_usage && !body.continuous_usage && !body.odd_options
}

/// Applies `edits` to `body`, which must be one JSON object.
pub fn apply(body: &[u8], edits: &[Edit<'_>]) -> Result<Vec<u8>, Fault> {
    let facts = crate::facts::scan(body, &[])?;
    Ok(splice(body, &facts.spans, edits))
}

/// Applies `edits` to a body that has been scanned; `spans` must be those of this very body.
pub fn splice(body: &[u8], spans: &Spans, edits: &[Edit<'_>]) -> Vec<u8> {
    let mut places: Vec<(Range<usize>, Cow<'_, [u8]>)> = Vec::new();
    for member in spans.members() {
        let key = member.key(body);
        if let Some(json) = set(edits, |name| key.is(name)) {
            places.push((member.span(), Cow::Borrowed(json)));
        } else if key.is(OPTIONS) && edits.contains(&Edit::IncludeUsage) {
            include_usage(member, body, &mut places);
        }
    }
    let mut added = Vec::new();
    let mut first = spans.members().is_empty();
    for (position, edit) in edits.iter().enumerate() {
        let later = edits.get(position + 1..).unwrap_or_default();
        let (key, json) = match edit {
            Edit::Set { key, json } => (*key, *json),
            Edit::IncludeUsage => (OPTIONS, ASKED),
        };
        let again = match edit {
            Edit::Set { .. } => set(later, |name| name == key).is_some(),
            Edit::IncludeUsage => later.contains(edit) || set(edits, |name| name == key).is_some(),
        };
        if again
            || spans
                .members()
                .iter()
                .any(|member| member.key(body).is(key))
        {
            continue;
        }
        add(&mut added, &mut first, key, json);
    }
    if !added.is_empty() {
        places.push((spans.close()..spans.close(), Cow::Owned(added)));
    }
    let more: usize = places.iter().map(|(_, json)| json.len()).sum();
    let mut out = Vec::with_capacity(body.len() + more);
    let mut done = 0;
    for (span, json) in places {
        out.extend_from_slice(body.get(done..span.start).unwrap_or_default());
        out.extend_from_slice(&json);
        done = span.end;
    }
    out.extend_from_slice(body.get(done..).unwrap_or_default());
    out
}

/// The value that the last of `edits` to name such a key gives it.
fn set<'a>(edits: &[Edit<'a>], is: impl Fn(&str) -> bool) -> Option<&'a [u8]> {
    edits.iter().rev().find_map(|edit| match edit {
        Edit::Set { key, json } if is(key) => Some(*json),
        Edit::Set { .. } | Edit::IncludeUsage => None,
    })
}

fn include_usage<'a>(
    options: &Member,
    body: &[u8],
    places: &mut Vec<(Range<usize>, Cow<'a, [u8]>)>,
) {
    match options.kind() {
        Kind::Null => places.push((options.span(), Cow::Borrowed(ASKED))),
        Kind::Object => {
            let value = options.value(body);
            let Ok(spans) = Spans::of(value) else {
                return;
            };
            let base = options.span().start;
            let before = places.len();
            for member in spans.members() {
                if member.key(value).is(INCLUDE) {
                    let span = member.span();
                    places.push((base + span.start..base + span.end, Cow::Borrowed(b"true")));
                }
            }
            if places.len() == before {
                let mut added = Vec::new();
                add(
                    &mut added,
                    &mut spans.members().is_empty(),
                    INCLUDE,
                    b"true",
                );
                let close = base + spans.close();
                places.push((close..close, Cow::Owned(added)));
            }
        }
        Kind::Array | Kind::String | Kind::Number | Kind::Bool => {}
    }
}

fn add(out: &mut Vec<u8>, first: &mut bool, key: &str, json: &[u8]) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    // A string as a JSON value is written with its quotes and escapes.
    out.extend_from_slice(serde_json::Value::from(key).to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(json);
}

const OPTIONS: &str = "stream_options";
const INCLUDE: &str = "include_usage";
const ASKED: &[u8] = br#"{"include_usage":true}"#;

/// Any bytes: an edit of what can be scanned gives JSON in which the edit reads back and the rest is as before.
#[cfg(any(test, fuzzing))]
pub fn fuzz_edit(bytes: &[u8]) {
    let edits = [
        Edit::Set {
            key: "model",
            json: br#""other""#,
        },
        Edit::IncludeUsage,
    ];
    let Ok(out) = apply(bytes, &edits) else {
        return;
    };
    let facts = crate::facts::scan(&out, &[]).expect("an edited body is JSON as the one before");
    assert_eq!(facts.model.as_deref(), Some("other"));
    let before = Spans::of(bytes).expect("the body could be edited");
    let kept = |spans: &Spans, body: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let members = spans.members().iter();
        let rest = members.filter(|member| {
            let key = member.key(body);
            !key.is("model") && !key.is(OPTIONS)
        });
        rest.map(|member| (member.key(body).raw().to_vec(), member.value(body).to_vec()))
            .collect()
    };
    assert_eq!(kept(&before, bytes), kept(&facts.spans, &out));
    let options = before
        .members()
        .iter()
        .rfind(|member| member.key(bytes).is(OPTIONS));
    if options.is_none_or(|member| matches!(member.kind(), Kind::Object | Kind::Null)) {
        assert!(facts.include_usage);
    }
}

#[cfg(test)]
mod tests;
