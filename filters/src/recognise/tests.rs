use super::*;
use crate::capture;
use crate::route::Route;
use proptest::prelude::*;

fn head(media_type: &str) -> HeaderMap {
    let mut head = HeaderMap::new();
    head.insert(
        http::header::CONTENT_TYPE,
        media_type.parse().expect("a field"),
    );
    head
}

#[test]
fn recorded_answers_are_recognised_by_their_first_kilobytes_and_never_wrongly() {
    let (mut recognised, mut not) = (0, Vec::new());
    for capture in capture::all() {
        let own = Route::of(&capture.path).dialect();
        let mut head = head(match capture.sse {
            true => "text/event-stream; charset=utf-8",
            false => "application/json",
        });
        if let Some(length) = capture.json_length {
            head.insert(triton::JSON_LENGTH, length.into());
        }
        let body = capture.body();
        for start in [body.len(), 4096, 1024, 300, 100, 10, 0] {
            let start = body.get(..start).unwrap_or(&body);
            let found = dialect(&head, start);
            assert!(
                found.is_none() || found == own,
                "{} {found:?}",
                capture.name
            );
        }
        match dialect(&head, body.get(..2048).unwrap_or(&body)) {
            Some(_) => recognised += 1,
            None if capture.status != 200 => {}
            None => not.push(capture.name),
        }
    }
    // Errors under status 200, and a stream of nothing.
    let expected = [
        "triton/generate-error-many-responses",
        "triton/generate-error-missing-input",
        "triton/generate-error-zero-responses",
        "triton/generate-stream-zero-responses",
    ];
    assert_eq!(not, expected);
    assert!(recognised > 80, "{recognised}");
}

#[test]
fn what_only_one_dialect_says_names_it() {
    let check = |media_type: &str, start: &str, expected: Option<Dialect>| {
        assert_eq!(
            dialect(&head(media_type), start.as_bytes()),
            expected,
            "{start}"
        );
    };
    let (json, sse) = ("application/json; charset=utf-8", "Text/Event-Stream");
    check(
        json,
        r#"{"choices":[{"index":0,"message":{"con"#,
        Some(Dialect::Chat),
    );
    check(
        sse,
        "data: {\"choices\":[{\"text\":\"",
        Some(Dialect::Completions),
    );
    check(
        sse,
        ": ping\n\ndata: {\"type\":\"ping\"}\n\ndata: {\"type\":\"message_start\",",
        Some(Dialect::Messages),
    );
    check(
        json,
        r#"{"type":"error","error":{"type":"x"}}"#,
        Some(Dialect::Messages),
    );
    check(sse, "data: {\"type\":\"error\",\"error\":{}}\n\n", None);
    check(json, r#"{"error":{"type":"error"}}"#, None);
    check(
        sse,
        "data:{\"index\":1,\"token\":{\"id\":7",
        Some(Dialect::GenerateStream),
    );
    check(json, r#"{"generated_text":"a"#, Some(Dialect::Generate));
    check(
        json,
        r#"[{"text":"a","meta_info":{"id"#,
        Some(Dialect::Generate),
    );
    check(
        json,
        r#"{"object":"list","data":[{"index":0,"object":"score","score":0.9"#,
        Some(Dialect::Score),
    );
    check(
        json,
        r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#,
        None,
    );
    check(
        json,
        r#"{"model":"m","results":[{"index":0,"relevance_score":1"#,
        Some(Dialect::Rerank),
    );
    check(
        sse,
        "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}",
        Some(Dialect::Audio),
    );
    check("audio/mpeg", "\u{1}", Some(Dialect::Audio));
    check(
        "text/plain",
        "{\"object\":\"text_completion\"",
        Some(Dialect::Completions),
    );
    check("text/plain", "hello", None);
    // A word inside a text is none of the answer's.
    check(
        json,
        r#"{"x":"\"object\":\"response\"","y":{"object":"response"}}"#,
        None,
    );
}

proptest! {
    #[test]
    fn the_fuzz_body_holds_on_any_bytes(bytes: Vec<u8>) {
        fuzz_recognise(&bytes);
    }

    #[test]
    fn the_fuzz_body_holds_on_parts_of_answers(
        kind: [u8; 2],
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "data: ", "\n\n", "{", "}", "[", "]", ",", "\"type\":\"error\"", "\"error\":1", "\"choices\":", "\"delta\":1",
                "\"object\":\"response\"", "\"data\":", "\"score\":1", "\"token\":{}", "\"text\":\"\"", "\"meta_info\":",
            ]),
            0..16,
        ),
    ) {
        let mut bytes = kind.to_vec();
        bytes.extend_from_slice(parts.concat().as_bytes());
        fuzz_recognise(&bytes);
    }
}
