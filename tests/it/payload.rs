//! What real servers have sent passes unchanged, in any cutting, and is measured alike.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::sync::Arc;
use std::time::Duration;

use greylag::record::Record;
use greylag_filters::meter::{Figures, Meter, Wanted};
use greylag_filters::outcome::{End, Outcome, classify};
use greylag_filters::route::Route;
use greylag_filters::triton;
use greylag_sim::{Cuts, Engine, Script, Step};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use crate::harness::{Answer, Client, Greylag, engines, eventually};
use crate::recorded::{self, Recorded};

/// Which cutting, by name, and whether there is a pause between its pieces, so that each is read alone.
type Cutting = (&'static str, bool, fn(&Recorded) -> Cuts);

const CUTTINGS: [Cutting; 8] = [
    ("as it was framed", true, |recorded| {
        Cuts::At(recorded.seams.clone())
    }),
    ("as it was framed, at once", false, |recorded| {
        Cuts::At(recorded.seams.clone())
    }),
    ("whole", false, |_| Cuts::Whole),
    ("a byte at a time", false, |_| Cuts::ByteByByte),
    ("in line ends and in characters", false, |recorded| {
        Cuts::At(recorded.sore_spots())
    }),
    ("at random, 1", true, |recorded| at_random(recorded, 1)),
    ("at random, 2", true, |recorded| at_random(recorded, 2)),
    ("at random, 3", false, |recorded| at_random(recorded, 3)),
];

fn at_random(recorded: &Recorded, seed: u64) -> Cuts {
    let mut chance = SmallRng::seed_from_u64(seed ^ recorded.raw.len() as u64);
    let sore = recorded.sore_spots();
    let mut at = Vec::new();
    for _ in 0..20 {
        at.push(chance.random_range(1..recorded.raw.len()));
        at.push(chance.random_range(1..recorded.raw.len()));
        at.push(sore[chance.random_range(0..sore.len())]);
    }
    at.sort_unstable();
    Cuts::At(at)
}

/// Plays each recording in each cutting, ended by `end` where it is not whole, and looks at what came through.
async fn check(
    recordings: Vec<Recorded>,
    cuttings: &[Cutting],
    end: Option<Step>,
    look: fn(&Recorded, &Answer, &Record),
) {
    let engine = Engine::scripted([]).await.unwrap();
    let mut rules = engines(&[("stable", engine.address())]);
    rules["engines"]["stable"]["timeouts"] = serde_json::json!({ "idle": "1s" });
    let greylag = Greylag::with("limits: { ring: 64MiB }", &rules.to_string());
    let mut clients = JoinSet::new();
    for recorded in recordings.into_iter().map(Arc::new) {
        for (cutting, paced, cuts) in cuttings {
            let name = format!("{}, {cutting}", recorded.name);
            let mut script = Script::capture(&recorded.raw, cuts(&recorded));
            if let Some(end) = end.clone().filter(|_| !recorded.whole) {
                script = script.then(end);
            }
            if *paced {
                script = script.paced(Duration::from_millis(1));
            }
            engine.add_script(&name, script);
            let (recorded, address) = (recorded.clone(), greylag.address());
            clients.spawn(async move {
                let answer = ask(Client::to(address).await, &recorded, &name).await;
                (name, recorded, answer)
            });
        }
    }
    let mut answers = Vec::new();
    while let Some(answer) = clients.join_next().await {
        answers.push(answer.unwrap());
    }
    let records = greylag.records_of(answers.len()).await;
    assert_eq!(records.len(), answers.len());
    for (name, recorded, answer) in &answers {
        let record = records.iter().find(|record| *record.id == **name).unwrap();
        same_payload(name, recorded, answer);
        look(recorded, answer, record);
        assert_eq!(record.answer_bytes, answer.body.len() as u64, "{name}");
        assert_eq!(record.status, Some(recorded.status), "{name}");
        assert_eq!(record.engine_status, Some(recorded.status), "{name}");
        same_figures(name, recorded, record);
    }
}

async fn ask(mut client: Client, recorded: &Recorded, name: &str) -> Answer {
    send(&mut client, recorded, name).await;
    client.answer().await
}

async fn send(client: &mut Client, recorded: &Recorded, name: &str) {
    let fields = [
        format!("x-sim-script: {name}"),
        format!("x-request-id: {name}"),
        "content-type: application/json".into(),
    ];
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let line = format!("{} {}", recorded.method, recorded.path);
    client.ask(&line, &fields, &recorded.request).await;
}

fn same_payload(name: &str, recorded: &Recorded, answer: &Answer) {
    assert_eq!(answer.status, recorded.status, "{name}");
    assert_eq!(answer.whole, recorded.whole, "{name}");
    assert!(
        recorded.body.starts_with(&answer.body),
        "{name}: {:?} is no prefix of {:?}",
        answer.text(),
        String::from_utf8_lossy(&recorded.body)
    );
    assert_eq!(fields_of(answer), kept(recorded), "{name}");
    assert_eq!(answer.header("x-greylag-engine"), Some("stable"), "{name}");
    assert_eq!(
        answer.chunked,
        recorded.field("content-length").is_none(),
        "{name}"
    );
}

// The fields of one connection, and those that Greylag documents as its own.
const OWN: [&str; 5] = [
    "connection",
    "date",
    "keep-alive",
    "transfer-encoding",
    "x-greylag-engine",
];

fn kept(recorded: &Recorded) -> Vec<(String, String)> {
    let fields = recorded.fields.iter().cloned();
    let mut fields: Vec<_> = fields
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
        .collect();
    fields.sort();
    fields
}

fn fields_of(answer: &Answer) -> Vec<(String, String)> {
    let lines = answer.head.lines().skip(1);
    let mut fields: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
        .collect();
    fields.sort();
    fields
}

// What a meter makes of the recording when it gets it in one piece.
fn expected(recorded: &Recorded) -> Option<Figures> {
    let dialect = Route::of(&recorded.path).dialect()?;
    if recorded.status != 200 {
        return None;
    }
    let asked: serde_json::Value = serde_json::from_slice(&recorded.request).unwrap_or_default();
    let one = asked.get("n").is_none_or(|n| n.is_null() || n == 1);
    let mut meter = if recorded.is_stream() {
        Meter::stream(dialect, one, 1 << 20)
    } else {
        let meter = Meter::whole(dialect, one, 1 << 20);
        match recorded.field(triton::JSON_LENGTH) {
            Some(length) => meter.with_json_length(length.parse().unwrap()),
            None => meter,
        }
    };
    let wanted = Wanted {
        json: !asked["response_format"].is_null(),
        tools: asked["tools"]
            .as_array()
            .is_some_and(|tools| !tools.is_empty()),
    };
    if wanted.json || wanted.tools {
        meter = meter.with_checks(wanted);
    }
    meter.feed(Duration::from_secs(1), &recorded.body);
    Some(meter.finish())
}

// Figures with the times' presence only: when something came is no property of the bytes.
fn timeless(figures: &Figures) -> Figures {
    let there = |time: Option<Duration>| time.map(|_| Duration::ZERO);
    Figures {
        first_token: there(figures.first_token),
        first_output: there(figures.first_output),
        last_token: there(figures.last_token),
        ..figures.clone()
    }
}

fn same_figures(name: &str, recorded: &Recorded, record: &Record) {
    let found = record.figures.as_ref().map(timeless);
    if record.end == End::EngineReset {
        // What was still on its way when the connection was reset is lost; what is left is measured.
        return assert_eq!(found.is_some(), expected(recorded).is_some(), "{name}");
    }
    assert_eq!(found, expected(recorded).as_ref().map(timeless), "{name}");
    let noted: u64 = record
        .timeline
        .events()
        .iter()
        .map(|(_, n)| u64::from(*n))
        .sum();
    let figures = record.figures.as_ref().filter(|_| recorded.is_stream());
    assert_eq!(
        noted,
        figures.map_or(0, |figures| figures.token_events),
        "{name}"
    );
}

fn split_by_end() -> (Vec<Recorded>, Vec<Recorded>) {
    let all = recorded::all().into_iter();
    all.partition(|recorded| recorded.whole)
}

#[tokio::test]
async fn every_recorded_answer_passes_unchanged_in_any_cutting() {
    let (whole, _) = split_by_end();
    check(whole, &CUTTINGS, None, |recorded, answer, record| {
        assert_eq!(answer.body, recorded.body, "{}", record.id);
        assert_eq!(record.end, End::Complete, "{}", record.id);
        let figures = expected(recorded);
        let outcome = classify(
            End::Complete,
            Some(recorded.status),
            recorded.is_stream(),
            figures.as_ref(),
        );
        assert_eq!(record.outcome, outcome, "{}", record.id);
        // Each of these has ended in its own way, so most of the outcomes are known without the classifier.
        match recorded.status {
            400.. => assert_eq!(outcome, Outcome::EngineError),
            // Triton answers 200 with an error where a model gave no answer, or more than one.
            _ if recorded.name.ends_with("engine-killed")
                || recorded.name.starts_with("triton/generate-error-") =>
            {
                assert_eq!(outcome, Outcome::ErrorInStream);
            }
            _ => assert_eq!(outcome, Outcome::Ok, "{}", recorded.name),
        }
    })
    .await;
}

#[tokio::test]
async fn a_recording_that_breaks_off_breaks_off() {
    let (_, broken) = split_by_end();
    assert!(broken.len() >= 4);
    check(
        broken,
        &CUTTINGS,
        Some(Step::Fin),
        |recorded, answer, record| {
            assert_eq!(answer.body, recorded.body, "{}", record.id);
            assert_eq!(record.end, End::EngineClosed, "{}", record.id);
            assert_eq!(record.outcome, Outcome::Truncated, "{}", record.id);
        },
    )
    .await;
}

#[tokio::test]
async fn a_recording_that_is_reset_breaks_off() {
    let (_, broken) = split_by_end();
    check(broken, &CUTTINGS, Some(Step::Rst), |_, _, record| {
        assert_eq!(record.end, End::EngineReset, "{}", record.id);
        assert_eq!(record.outcome, Outcome::EngineReset, "{}", record.id);
    })
    .await;
}

#[tokio::test]
async fn a_recording_that_falls_silent_times_out() {
    let (_, broken) = split_by_end();
    check(
        broken,
        &CUTTINGS[2..3],
        Some(Step::WaitForClose),
        |recorded, answer, record| {
            assert_eq!(answer.body, recorded.body, "{}", record.id);
            assert_eq!(record.end, End::IdleTimeout, "{}", record.id);
            assert_eq!(record.outcome, Outcome::Timeout, "{}", record.id);
        },
    )
    .await;
}

/// An engine that sends so much and no more for now; all of it must reach the client, whatever it ends in.
#[tokio::test]
async fn no_byte_waits_for_a_later_one() {
    let engine = Engine::scripted([]).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    for name in ["vllm/chat-stream", "llamacpp/chat-stream", "sglang/chat#0"] {
        let recorded = recorded::one(name);
        let head = recorded.seams[0];
        for to in (head..recorded.raw.len()).step_by(41) {
            let name = format!("{name} {to}");
            let sent = &recorded.raw[..to];
            let script = Script::capture(sent, Cuts::Whole).then(Step::WaitForClose);
            engine.add_script(&name, script);
            let mut client = Client::to(greylag.address()).await;
            send(&mut client, &recorded, &name).await;
            let expected = recorded::body_so_far(sent);
            while recorded::body_so_far(client.held()) != expected {
                assert!(client.more().await, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn every_broken_stream_frees_its_engine() {
    let (_, broken) = split_by_end();
    let count = broken.len() as u64;
    let engine = Engine::scripted([]).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    for recorded in &broken {
        let script = Script::capture(&recorded.raw, Cuts::Whole).then(Step::Fin);
        engine.add_script(&recorded.name, script);
        let answer = ask(
            Client::to(greylag.address()).await,
            recorded,
            &recorded.name,
        )
        .await;
        assert_eq!((answer.whole, &answer.body), (false, &recorded.body));
    }
    greylag.records_of(broken.len()).await;
    eventually("idle", || {
        (greylag.app().shared.telemetry.in_flight() == 0).then_some(())
    })
    .await;
    let closed = engine
        .wait_for(|seen| seen.open == 0, Duration::from_secs(5))
        .await;
    assert!(closed && engine.seen().count >= count);
}
