//! Audio, and answers to which nothing is generated. What no recording has is from OpenAI's reference, vLLM's
//! `speech_to_text` and pooling servers, and the interfaces of Jina, Cohere and TEI.

use super::*;

#[test]
fn audio_streams_in_two_shapes() {
    let check = |events: &[&str], tokens: u64, shows: bool, expected: Option<Usage>, done: bool| {
        let body: String = events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect();
        let figures = stream(Dialect::Audio, true, &body);
        assert_eq!(
            (figures.token_events, figures.bad_events),
            (tokens, 0),
            "{body}"
        );
        assert_eq!(figures.first_output.is_some(), shows, "{body}");
        assert_eq!(
            (figures.usage, figures.terminated),
            (expected, done),
            "{body}"
        );
    };
    let chunk = r#"{"id":"trsc-1","object":"transcription.chunk","model":"whisper","choices":[{"delta":{"content":" hi","reasoning_content":null},"finish_reason":null}]}"#;
    let counted = r#"{"object":"transcription.chunk","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#;
    check(&[chunk, chunk], 2, true, None, false);
    check(
        &[chunk, chunk, counted, "[DONE]"],
        2,
        true,
        Some(usage(5, 2)),
        true,
    );
    let delta = r#"{"type":"transcript.text.delta","delta":"hi","logprobs":[]}"#;
    let done = r#"{"type":"transcript.text.done","text":"hi","usage":{"type":"tokens","input_tokens":14,"output_tokens":2,"total_tokens":16}}"#;
    check(&[delta], 1, true, None, false);
    check(&[delta, done], 1, true, Some(usage(14, 2)), true);
    let sound = r#"{"type":"speech.audio.delta","audio":"UklGRg=="}"#;
    let done = r#"{"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":101,"total_tokens":115}}"#;
    check(&[sound, sound, done], 2, false, Some(usage(14, 101)), true);
    check(
        &[r#"{"type":"transcript.text.segment","text":"hi"}"#],
        0,
        false,
        None,
        false,
    );
    let figures = stream(
        Dialect::Audio,
        true,
        "data: {\"error\":{\"code\":500}}\n\ndata: [DONE]\n\n",
    );
    assert!(figures.error.is_some() && figures.terminated);
}

#[test]
fn what_audio_answers_need_not_be_json() {
    let check = |body: &str, unmetered: Option<Unmetered>, expected: Option<Usage>| {
        let figures = whole_of(Dialect::Audio, body);
        assert_eq!(
            (figures.unmetered, figures.usage),
            (unmetered, expected),
            "{body}"
        );
        assert_eq!(figures.terminated, unmetered != Some(Unmetered::Unparsable));
    };
    check(
        r#"{"text":"hi","usage":{"type":"duration","seconds":7}}"#,
        None,
        None,
    );
    check(
        r#" {"text":"hi","usage":{"type":"tokens","input_tokens":14,"output_tokens":2}}"#,
        None,
        Some(usage(14, 2)),
    );
    check(
        r#"{"text":"hi","segments":[{"id":0,"text":"hi"}],"language":"en"}"#,
        None,
        None,
    );
    let other = Some(Unmetered::NotJson);
    check("hi", other, None);
    check("1\n00:00:00,000 --> 00:00:02,500\nhi\n\n", other, None);
    check("WEBVTT\n\n00:00.000 --> 00:02.500\nhi\n", other, None);
    check("RIFF\u{24}\0\0\0WAVEfmt ", other, None);
    check("", other, None);
    check(" \n ", other, None);
    check(r#"{"text":"hi""#, Some(Unmetered::Unparsable), None);
}

#[test]
fn sound_is_neither_gathered_nor_too_long() {
    let mut meter = Meter::whole(Dialect::Audio, true, 64);
    for _ in 0..100 {
        meter.feed(ms(1), &[0xff; 64]);
    }
    assert_eq!(meter.finish().unmetered, Some(Unmetered::NotJson));
}

#[test]
fn what_generates_nothing_counts_its_prompt_alone() {
    let check = |body: &str, expected: Option<u64>| {
        for dialect in [
            Dialect::Embeddings,
            Dialect::Score,
            Dialect::Rerank,
            Dialect::Json,
        ] {
            let figures = whole_of(dialect, body);
            let usage = expected.map(|prompt| Usage {
                prompt: Some(prompt),
                ..Usage::default()
            });
            assert_eq!((figures.usage, figures.terminated), (usage, true), "{body}");
            assert_eq!((figures.error, figures.unmetered), (None, None), "{body}");
        }
    };
    check(
        r#"{"object":"list","data":[{"embedding":[0.1]}],"model":"m","usage":{"prompt_tokens":4,"total_tokens":4,"completion_tokens":0}}"#,
        Some(4),
    );
    check(
        r#"{"id":"score-1","object":"list","data":[{"index":0,"object":"score","score":0.9}],"usage":{"prompt_tokens":9,"total_tokens":9}}"#,
        Some(9),
    );
    // Jina's rerank.
    check(
        r#"{"model":"m","results":[{"index":0,"relevance_score":0.9,"document":{"text":"x"}}],"usage":{"total_tokens":12}}"#,
        Some(12),
    );
    // TEI's rerank and embed.
    check(r#"[{"index":0,"score":0.99}]"#, None);
    check("[[0.1,0.2]]", None);
    check(r#"{"results":[],"usage":null}"#, None);
    for body in [
        r#"{"error":{"code":400}}"#,
        r#"{"object":"error","message":"secret","code":400}"#,
        r#"{"error":"secret","error_type":"Validation"}"#,
    ] {
        assert!(whole_of(Dialect::Rerank, body).error.is_some(), "{body}");
    }
    assert_eq!(
        whole_of(Dialect::Embeddings, "[1] 2").unmetered,
        Some(Unmetered::Unparsable)
    );
}
