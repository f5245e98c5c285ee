//! The added event is taken out of recorded streams in any cutting, and nothing waits for it.

use greylag_sim::{Cuts, Engine, Script, Step};

use super::{CHAT, STREAM, greylag, without_usage};
use crate::harness::Client;
use crate::recorded;

#[tokio::test]
async fn recorded_streams_lose_that_event_and_nothing_else_in_any_cutting() {
    let engine = Engine::scripted([]).await.unwrap();
    let greylag = greylag(&engine);
    let streams = recorded::all()
        .into_iter()
        .filter(|recorded| recorded.is_stream() && recorded.status == 200 && recorded.whole);
    let (mut played, mut stripped) = (0, 0);
    for recorded in streams {
        let text = String::from_utf8(recorded.body.clone()).unwrap();
        let expected = without_usage(&text);
        // Asking for that is the caller's, and no usage is asked for then.
        if recorded.name.contains("continuous") {
            continue;
        }
        stripped += usize::from(expected.len() < text.len());
        for (number, cuts) in [
            Cuts::Whole,
            Cuts::At(recorded.seams.clone()),
            Cuts::At(recorded.sore_spots()),
            Cuts::At((1..recorded.raw.len()).step_by(7).collect()),
            Cuts::ByteByByte,
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("{}, {number}", recorded.name);
            engine.add_script(&name, Script::capture(&recorded.raw, cuts));
            let fields = [
                format!("x-sim-script: {name}"),
                format!("x-request-id: {name}"),
            ];
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let mut client = Client::to(greylag.address()).await;
            let answer = client.post(&recorded.path, &fields, STREAM).await;
            assert!(answer.whole, "{name}");
            assert_eq!(answer.text(), expected, "{name}");
            played += 1;
            let records = greylag.records_of(played).await;
            let record = records.iter().find(|record| *record.id == *name).unwrap();
            let figures = record.figures.as_ref().unwrap();
            // llama.cpp's own form counts beside the text.
            let counted = ["\"usage\":{", "\"tokens_predicted\":"];
            let counted = counted.into_iter().any(|key| text.contains(key));
            assert_eq!(figures.usage.is_some(), counted, "{name}");
            assert_eq!(record.answer_bytes, expected.len() as u64, "{name}");
        }
    }
    assert!(stripped >= 5, "only {stripped} recordings have the event");
}

/// Nothing is held but the beginning of an event, which might be the one to take out.
#[tokio::test]
async fn no_event_waits_for_a_later_one() {
    let engine = Engine::scripted([]).await.unwrap();
    let greylag = greylag(&engine);
    let recorded = recorded::one("vllm/chat-stream-usage");
    for to in (recorded.seams[0]..recorded.raw.len()).step_by(61) {
        let sent = &recorded.raw[..to];
        let name = to.to_string();
        let script = Script::capture(sent, Cuts::Whole).then(Step::WaitForClose);
        engine.add_script(&name, script);
        let script = format!("x-sim-script: {name}");
        let fields = ["content-type: application/json", &script];
        let mut client = Client::to(greylag.address()).await;
        client.ask(&format!("POST {CHAT}"), &fields, STREAM).await;
        let so_far = recorded::body_so_far(sent).unwrap();
        let so_far = String::from_utf8(so_far).unwrap();
        let events = so_far.rfind("\n\n").map_or(0, |at| at + 2);
        let expected = without_usage(&so_far[..events]).into_bytes();
        while recorded::body_so_far(client.held()).as_ref() != Some(&expected) {
            assert!(client.more().await, "{name}");
        }
    }
}
