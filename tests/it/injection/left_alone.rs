//! What has its usage already, or cannot be read, is neither edited nor stripped.

use serde_json::json;

use super::{Answers, CHAT, STREAM, ask, engine, greylag, posted, sent};
use crate::harness::{Client, Greylag, engines};

#[tokio::test]
async fn who_asked_keeps_it_and_who_streams_nothing_is_left_alone() {
    for (body, usage) in [
        (
            STREAM.replace('}', r#","stream_options":{"include_usage":true}}"#),
            true,
        ),
        (
            STREAM.replace(
                '}',
                r#","stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#,
            ),
            true,
        ),
        (
            STREAM.replace('}', r#","stream_options":{"continuous_usage_stats":true}}"#),
            false,
        ),
        (STREAM.replace("true", "false"), true),
        (
            r#" {"model": "tiny", "messages": [], "max_tokens": 7} "#.into(),
            true,
        ),
    ] {
        let (behind, like_it) = (engine().await, engine().await);
        let greylag = greylag(&behind);
        let fields = ["x-request-id: same", "accept-encoding: gzip"];
        let through = Client::to(greylag.address())
            .await
            .chat(&fields, &body)
            .await;
        let direct = Client::to(like_it.address())
            .await
            .chat(&fields, &body)
            .await;
        assert_eq!(through.text(), direct.text());
        assert_eq!(through.status, direct.status);
        sent(&behind).await;
        let request = posted(&behind).await;
        assert_eq!(
            request.body.as_deref(),
            Some(body.as_bytes()),
            "bytes were changed"
        );
        assert_eq!(request.header("accept-encoding"), Some("gzip"));
        let records = greylag.records_of(1).await;
        let found = records[0]
            .figures
            .as_ref()
            .and_then(|figures| figures.usage);
        assert_eq!(found.is_some(), usage, "{body}");
    }
}

/// What cannot be read is not edited, and so its answer is not either.
#[tokio::test]
async fn what_cannot_be_read_is_left_alone() {
    let long = format!("{}{}", STREAM, " ".repeat(5_000));
    for (field, body, reason) in [
        ("x-nothing: 1", long.as_str(), "request_too_large"),
        ("content-encoding: identity", STREAM, "request_encoded"),
    ] {
        let (behind, like_it) = (engine().await, engine().await);
        let mut rules = engines(&[("stable", behind.address())]);
        rules["engines"]["stable"]["usage"] = json!("inject");
        let greylag = Greylag::with("limits: { body: 1KiB }", &rules.to_string());
        let fields = ["x-request-id: same", field];
        let through = Client::to(greylag.address())
            .await
            .chat(&fields, body)
            .await;
        let direct = Client::to(like_it.address())
            .await
            .chat(&fields, body)
            .await;
        assert_eq!(through.text(), direct.text(), "{reason}");
        let request = posted(&behind).await;
        assert_eq!(request.body.as_deref(), Some(body.as_bytes()), "{reason}");
        let series = format!("greylag_unmetered_total{{reason=\"{reason}\"}}");
        assert_eq!(greylag.metric(&series).await, Some(1.0));
    }
}

/// Past the limit nothing is held: the caller gets more than it asked for rather than less.
#[tokio::test]
async fn an_event_too_long_to_hold_ends_the_stripping() {
    let Answers {
        through,
        asked,
        record,
        ..
    } = ask(CHAT, "huge_event=2000000", STREAM).await;
    assert_eq!(through.text(), asked.text());
    assert!(through.whole && through.text().contains("\"choices\":[],\"usage\":{"));
    let figures = record.figures.as_ref().unwrap();
    assert_eq!(figures.unmetered.unwrap().label(), "event_too_long");
}
