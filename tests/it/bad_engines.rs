//! Engines that fail in every way there is: what the client gets, what the record says, and that the next request is fine.

use std::sync::Arc;

use greylag::record::Record;
use greylag::reply::Reason;
use greylag_filters::meter::Unmetered;
use greylag_filters::outcome::{End, Outcome};
use greylag_sim::{Engine, refusing_address};
use serde_json::json;

use crate::harness::{Answer, Client, Greylag, engines, eventually, sim};

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = r#"{"model":"tiny","messages":[],"stream":true,"max_tokens":8,"stream_options":{"include_usage":true}}"#;
const PLAIN: &str = r#"{"model":"tiny","messages":[],"max_tokens":8}"#;

/// Two engines that say the same: one is asked directly, one through Greylag.
struct Twins {
    direct: Engine,
    through: Engine,
    greylag: Greylag,
    asked: usize,
}

impl Twins {
    async fn new(timeouts: serde_json::Value) -> Twins {
        let direct = sim().await;
        let through = sim().await;
        let mut rules = engines(&[("stable", through.address())]);
        rules["engines"]["stable"]["timeouts"] = timeouts;
        let greylag = Greylag::start(&rules.to_string());
        Twins {
            direct,
            through,
            greylag,
            asked: 0,
        }
    }

    /// Asks Greylag for an answer that is to be as `order` says.
    async fn ask(&mut self, order: &str, body: &str) -> (Answer, Arc<Record>) {
        let fields = [format!("x-sim: {order}"), "x-request-id: same".into()];
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let mut client = Client::to(self.greylag.address()).await;
        let answer = client.chat(&fields, body).await;
        self.asked += 1;
        let records = self.greylag.records_of(self.asked).await;
        assert_eq!(records.len(), self.asked, "{order}");
        let record = records[self.asked - 1].clone();
        if !answer.whole || answer.header("connection") == Some("close") {
            assert!(client.ended().await, "{order}");
        }
        (answer, record)
    }

    /// Asks the other engine for the same.
    async fn directly(&self, order: &str, body: &str) -> Answer {
        let order = format!("x-sim: {order}");
        let mut client = Client::to(self.direct.address()).await;
        client.chat(&[&order, "x-request-id: same"], body).await
    }

    async fn is_unharmed(&mut self, what: &str) {
        let (answer, record) = self.ask("", PLAIN).await;
        assert_eq!((answer.status, answer.whole), (200, true), "after {what}");
        assert_eq!(record.outcome, Outcome::Ok, "after {what}");
        assert!(self.directly("", PLAIN).await.whole);
    }
}

#[tokio::test]
async fn an_engine_that_gives_no_answer_makes_a_502() {
    let mut twins = Twins::new(json!({})).await;
    let mut pooled = false;
    for (order, reason, end) in [
        ("reset", Reason::EngineClosed, End::EngineReset),
        ("close", Reason::EngineClosed, End::EngineClosed),
        ("garbage", Reason::EngineGarbage, End::EngineReset),
    ] {
        for body in [STREAM, PLAIN] {
            let (answer, record) = twins.ask(order, body).await;
            assert_eq!((answer.status, answer.whole), (502, true), "{order}");
            assert_eq!(answer.header("x-greylag-reason"), Some(reason.code()));
            assert_eq!(answer.json()["error"]["code"], reason.code());
            assert_eq!(
                (record.end, record.outcome),
                (end, Outcome::EngineReset),
                "{order}"
            );
            assert_eq!((record.reason, record.status), (Some(reason), Some(502)));
            assert_eq!(record.engine_status, None);
            assert_eq!(record.answer_bytes, answer.body.len() as u64);
            // On a pooled connection an engine that says nothing may just have closed it before: it is asked again.
            let attempts = if pooled && reason == Reason::EngineClosed {
                2
            } else {
                1
            };
            assert_eq!(record.attempts, attempts, "{order}");
            pooled = true;
            twins.is_unharmed(order).await;
        }
    }
    let refusing = refusing_address().await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", refusing.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    for count in 1..4 {
        let answer = client.chat(&[], STREAM).await;
        assert_eq!(
            (answer.status, answer.header("connection")),
            (502, Some("keep-alive"))
        );
        assert_eq!(
            answer.header("x-greylag-reason"),
            Some("engine_unreachable")
        );
        let records = greylag.records_of(count).await;
        let record = &records[count - 1];
        assert_eq!(
            (record.end, record.outcome),
            (End::Unreachable, Outcome::EngineError)
        );
        assert_eq!(record.attempts, 1);
        let series = "greylag_refused_total{reason=\"engine_unreachable\"}";
        assert_eq!(greylag.metric(series).await, Some(count as f64));
    }
}

#[tokio::test]
async fn what_came_before_a_break_reaches_the_client_and_the_end_does_not() {
    let mut twins = Twins::new(json!({})).await;
    let fin = (End::EngineClosed, Outcome::Truncated);
    let rst = (End::EngineReset, Outcome::EngineReset);
    for (order, body, (end, outcome), tokens) in [
        ("cut=0", STREAM, fin, Some(0)),
        ("cut=3", STREAM, fin, Some(3)),
        ("cut=0;how=rst", STREAM, rst, Some(0)),
        ("cut=3;how=rst", STREAM, rst, Some(3)),
        ("cut=3;length", STREAM, fin, Some(3)),
        ("cut=3;length;how=rst", STREAM, rst, Some(3)),
        ("cut=100", PLAIN, fin, None),
        ("cut=100;how=rst", PLAIN, rst, None),
    ] {
        let expected = twins.directly(order, body).await;
        let (answer, record) = twins.ask(order, body).await;
        assert_eq!((answer.status, answer.whole), (200, false), "{order}");
        assert_eq!(answer.text(), expected.text(), "{order}");
        assert_eq!((record.end, record.outcome), (end, outcome), "{order}");
        assert_eq!(record.answer_bytes, answer.body.len() as u64, "{order}");
        let figures = record.figures.as_ref().unwrap();
        if let Some(tokens) = tokens {
            assert_eq!(figures.token_events, tokens, "{order}");
        }
        twins.is_unharmed(order).await;
    }
}

#[tokio::test]
async fn a_whole_answer_that_is_no_success_is_called_so() {
    let mut twins = Twins::new(json!({})).await;
    let huge = "huge_event=1200000";
    for (order, body, status, outcome, unmetered) in [
        ("no_done", STREAM, 200, Outcome::Truncated, None),
        ("error=2", STREAM, 200, Outcome::ErrorInStream, None),
        ("error=0", STREAM, 200, Outcome::ErrorInStream, None),
        ("error=2;no_done", STREAM, 200, Outcome::ErrorInStream, None),
        ("gzip", STREAM, 200, Outcome::Ok, Some("compressed")),
        ("gzip", PLAIN, 200, Outcome::Ok, Some("compressed")),
        ("not_sse", STREAM, 200, Outcome::Ok, Some("not_sse")),
        ("not_sse", PLAIN, 200, Outcome::Ok, Some("unparsable")),
        (huge, STREAM, 200, Outcome::Ok, Some("event_too_long")),
        (huge, PLAIN, 200, Outcome::Ok, Some("too_large")),
        ("comments=3;length", STREAM, 200, Outcome::Ok, None),
        (
            "reasoning=3;tokens_per_event=2",
            STREAM,
            200,
            Outcome::Ok,
            None,
        ),
        ("close_after", STREAM, 200, Outcome::Ok, None),
        ("status=204", STREAM, 204, Outcome::Ok, None),
        ("status=400", STREAM, 400, Outcome::EngineError, None),
        (
            "status=429;retry_after=7",
            STREAM,
            429,
            Outcome::EngineError,
            None,
        ),
        ("status=500", PLAIN, 500, Outcome::EngineError, None),
        (
            "status=503;retry_after=1",
            STREAM,
            503,
            Outcome::EngineError,
            None,
        ),
    ] {
        let series =
            unmetered.map(|reason| format!("greylag_unmetered_total{{reason=\"{reason}\"}}"));
        let before = match &series {
            Some(series) => twins.greylag.metric(series).await.unwrap_or(0.0),
            None => 0.0,
        };
        let expected = twins.directly(order, body).await;
        let (answer, record) = twins.ask(order, body).await;
        assert_eq!((answer.status, answer.whole), (status, true), "{order}");
        assert!(answer.body == expected.body, "{order}: {}", answer.text());
        for name in [
            "content-type",
            "content-encoding",
            "retry-after",
            "content-length",
        ] {
            assert_eq!(answer.header(name), expected.header(name), "{order} {name}");
        }
        assert_eq!(answer.header("x-greylag-reason"), None, "{order}");
        assert_eq!(
            (record.end, record.outcome),
            (End::Complete, outcome),
            "{order}"
        );
        assert_eq!(
            (record.status, record.engine_status, record.reason),
            (Some(status), Some(status), None)
        );
        if let Some(series) = series {
            assert_eq!(
                twins.greylag.metric(&series).await,
                Some(before + 1.0),
                "{order}"
            );
        }
        twins.is_unharmed(order).await;
    }
    let records = twins.greylag.records();
    let too_long = |record: &&Arc<Record>| {
        let unmetered = record
            .figures
            .as_ref()
            .and_then(|figures| figures.unmetered);
        unmetered == Some(Unmetered::EventTooLong)
    };
    let record = records.iter().find(too_long).unwrap();
    // The other events were read.
    assert_eq!(
        record.figures.as_ref().unwrap().usage.unwrap().completion,
        Some(8)
    );
}

#[tokio::test]
async fn an_engine_that_falls_silent_is_given_up() {
    let short = json!({ "first_byte": "300ms", "idle": "300ms" });
    let mut twins = Twins::new(short).await;
    for order in ["hang", "hang_head", "1xx=103;hang"] {
        let (answer, record) = match order {
            "1xx=103;hang" => {
                let mut client = Client::to(twins.greylag.address()).await;
                let order = format!("x-sim: {order}");
                client
                    .ask(
                        &format!("POST {CHAT}"),
                        &["content-type: application/json", &order],
                        STREAM,
                    )
                    .await;
                assert_eq!(client.head().await.status, 103);
                let answer = client.answer().await;
                twins.asked += 1;
                let records = twins.greylag.records_of(twins.asked).await;
                (answer, records[twins.asked - 1].clone())
            }
            order => twins.ask(order, STREAM).await,
        };
        let reason = answer.header("x-greylag-reason");
        assert_eq!(
            (answer.status, reason),
            (504, Some("first_byte_timeout")),
            "{order}"
        );
        assert_eq!(
            (record.end, record.outcome),
            (End::FirstByteTimeout, Outcome::Timeout)
        );
        assert_eq!(record.status, Some(504));
    }
    for (order, body) in [
        ("stall=3", STREAM),
        ("stall=0", STREAM),
        ("stall=100", PLAIN),
    ] {
        let (answer, record) = twins.ask(order, body).await;
        assert_eq!((answer.status, answer.whole), (200, false), "{order}");
        assert_eq!(
            (record.end, record.outcome),
            (End::IdleTimeout, Outcome::Timeout),
            "{order}"
        );
        assert_eq!(record.reason, Some(Reason::IdleTimeout));
        if order == "stall=3" {
            assert_eq!(record.figures.as_ref().unwrap().token_events, 3);
        }
    }
    // Each of them is free again.
    eventually("engines to be free", || {
        (twins.through.seen().running == 0).then_some(())
    })
    .await;
    eventually("connections to be closed", || {
        (twins.through.seen().open == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_answer_without_end_is_given_up_when_its_total_is_spent() {
    let mut twins = Twins::new(json!({ "total": "300ms" })).await;
    let endless = STREAM.replace(
        "\"max_tokens\":8",
        "\"max_tokens\":100000,\"ignore_eos\":true",
    );
    let (answer, record) = twins.ask("itl=5ms", &endless).await;
    assert_eq!((answer.status, answer.whole), (200, false));
    assert_eq!(
        (record.end, record.outcome),
        (End::TotalTimeout, Outcome::Timeout)
    );
    assert_eq!(record.reason, Some(Reason::TotalTimeout));
    assert!(record.figures.as_ref().unwrap().token_events > 0);
    let (answer, record) = twins.ask("hang", STREAM).await;
    assert_eq!(
        (answer.status, answer.header("x-greylag-reason")),
        (504, Some("total_timeout"))
    );
    assert_eq!(
        (record.end, record.outcome),
        (End::TotalTimeout, Outcome::Timeout)
    );
    eventually("the engine to be free", || {
        (twins.through.seen().running == 0).then_some(())
    })
    .await;
}
