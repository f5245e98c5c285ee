//! Rows for what a request asks for, and what is refused.

use super::*;

fn read(route: Route, body: &str) -> Result<Call, Refusal> {
    let head = Head {
        headers: vec![(
            "content-type".into(),
            b"application/json; charset=utf-8".to_vec(),
        )],
        ..Head::default()
    };
    Call::read(route, &head, body.as_bytes(), &Settings::default())
}

#[test]
fn prompt_tokens_are_words_and_token_ids() {
    let check = |route, body: &str, expected: &[u64]| {
        let tokens: Vec<u64> = read(route, body)
            .unwrap()
            .prompts
            .iter()
            .map(|prompt| prompt.tokens)
            .collect();
        assert_eq!(tokens, expected, "{body}");
    };
    check(
        Route::Chat,
        r#"{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"a b c"}]}"#,
        &[5],
    );
    check(
        Route::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a b"},{"type":"image_url"}]}]}"#,
        &[2],
    );
    check(Route::Completions, r#"{"prompt":"a b c"}"#, &[3]);
    check(Route::Completions, r#"{"prompt":["a b c","d"]}"#, &[3, 1]);
    check(Route::Completions, r#"{"prompt":[5,6,7,8]}"#, &[4]);
    check(Route::Completions, r#"{"prompt":[[5,6],[7]]}"#, &[2, 1]);
}

#[test]
fn continuous_usage_alone_does_nothing() {
    let call = read(
        Route::Chat,
        r#"{"messages":[],"stream":true,"stream_options":{"continuous_usage_stats":true}}"#,
    )
    .unwrap();
    assert!(!call.include_usage && !call.continuous_usage);
}

#[test]
fn what_is_refused_names_its_parameter() {
    let check = |body: &str, status: u16, param: Option<&str>| {
        let refusal = read(Route::Chat, body).unwrap_err();
        assert_eq!(
            (refusal.status, refusal.param.as_deref()),
            (status, param),
            "{body}"
        );
    };
    check("[]", 400, Some("body"));
    check(r#"{"model": "tiny", "#, 400, Some("body.18"));
    check(r#"{"model":"tiny"}"#, 400, Some("body.messages"));
    check(r#"{"model":"nosuch","messages":[]}"#, 404, Some("model"));
    check(
        r#"{"messages":[],"temperature":-1}"#,
        400,
        Some("temperature"),
    );
    check(r#"{"messages":[],"max_tokens":0}"#, 400, Some("max_tokens"));
    check(
        r#"{"messages":[],"max_tokens":200000}"#,
        400,
        Some("max_tokens"),
    );
    check(r#"{"messages":[],"n":0}"#, 400, Some("n"));
    check(r#"{"messages":[],"n":2000}"#, 400, Some("n"));
    check(
        r#"{"messages":[],"stream_options":{"include_usage":true}}"#,
        400,
        Some("stream_options"),
    );
}

#[test]
fn prompts_are_bounded_with_and_without_n() {
    let body =
        |prompts: usize, more: &str| format!("{{\"prompt\":{:?}{more}}}", vec!["a"; prompts]);
    assert!(read(Route::Completions, &body(256, "")).is_ok());
    assert!(read(Route::Completions, &body(257, "")).is_err());
    assert!(read(Route::Completions, &body(128, ",\"n\":2")).is_ok());
    assert!(read(Route::Completions, &body(129, ",\"n\":2")).is_err());
}
