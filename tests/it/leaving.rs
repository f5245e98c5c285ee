//! A client that leaves frees its engine, wherever it leaves, and is recorded once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::net::SocketAddr;
use std::time::Duration;

use greylag::record::Record;
use greylag_filters::outcome::Outcome;
use greylag_sim::{Cuts, Ending, Engine, Script, Settings, Step, refusing_address};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Client, DEADLINE, Greylag, contains, engines, eventually, within};
use crate::recorded;

/// How a client leaves.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// It closes the socket.
    Close,
    /// It ends its own direction, and would go on reading.
    Fin,
    /// It resets the connection.
    Reset,
}

const WAYS: [Way; 3] = [Way::Close, Way::Fin, Way::Reset];

/// Leaves; what is returned keeps the socket open where that is the way.
async fn leave(mut client: Client, way: Way) -> Option<Client> {
    match way {
        Way::Close => None,
        Way::Fin => {
            client.socket.shutdown().await.expect("it is connected");
            Some(client)
        }
        Way::Reset => {
            client
                .socket
                .set_zero_linger()
                .expect("a TCP socket takes the option");
            None
        }
    }
}

/// Stands in every token event of the simulated engine, and in no other.
const EVENT: &str = "\"token_ids\":null";

const STREAM: &str =
    r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":40}"#;
const PLAIN: &str =
    r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":40}"#;

/// Sends a chat request, and reads nothing.
async fn ask(client: &mut Client, fields: &[&str], body: &str) {
    let mut all = vec!["content-type: application/json"];
    all.extend_from_slice(fields);
    client.ask("POST /v1/chat/completions", &all, body).await;
}

fn seen(client: &Client, text: &str) -> u64 {
    String::from_utf8_lossy(client.held()).matches(text).count() as u64
}

async fn read_until(client: &mut Client, text: &str, times: u64) {
    while seen(client, text) < times {
        assert!(client.more().await, "the end came before {text:?}");
    }
}

/// Waits until nothing is in flight, and returns the one record there is.
async fn only_record(greylag: &Greylag) -> std::sync::Arc<Record> {
    greylag.records_of(1).await;
    eventually("nothing in flight", || {
        (greylag.app().shared.telemetry.in_flight() == 0).then_some(())
    })
    .await;
    let records = greylag.records();
    assert_eq!(records.len(), 1);
    records[0].clone()
}

async fn aborts(greylag: &Greylag) -> f64 {
    let count = greylag.metric("greylag_client_abort_seconds_count").await;
    count.expect("the series is always there")
}

/// Asks under `order`, reads until `text` has come so many `times`, and leaves in each way. Every wait that the order
/// makes lasts an hour, so that only the leaving can end it.
async fn check(order: &str, body: &str, text: &str, times: u64) {
    for way in WAYS {
        let engine = Engine::start(Settings::default()).await.unwrap();
        let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
        let mut client = Client::to(greylag.address()).await;
        let fields = [&format!("x-sim: {order}")[..]];
        ask(&mut client, &fields, body).await;
        read_until(&mut client, text, times).await;
        let asked = |seen: &greylag_sim::Seen| {
            let mut requests = seen.requests.iter();
            requests.any(|request| request.method == "POST" && request.body.is_some())
        };
        assert!(engine.wait_for(asked, DEADLINE).await);
        let _held = leave(client, way).await;

        let ending = ending(&engine).await;
        let after_events = if text == EVENT { times } else { 0 };
        let case = format!("{order}, {way:?}");
        assert_eq!(ending, Ending::ClientClosed { after_events }, "{case}");
        let record = only_record(&greylag).await;
        assert_eq!(record.outcome, Outcome::ClientGone, "{case}");
        assert!(record.times.left.is_some(), "{case}");
        assert_eq!(aborts(&greylag).await, 1.0, "{case}");
    }
}

/// How the one POST ended, as the engine sees it.
async fn ending(engine: &Engine) -> Ending {
    let ended = |seen: &greylag_sim::Seen| {
        let mut requests = seen.requests.iter();
        let post = requests.find(|request| request.method == "POST")?;
        post.ended.map(|ended| ended.ending)
    };
    assert!(
        engine
            .wait_for(|seen| ended(seen).is_some() && seen.open == 0, DEADLINE)
            .await,
        "the engine is not free: {:?}",
        engine.seen()
    );
    ended(&engine.seen()).unwrap()
}

#[tokio::test]
async fn while_the_answer_has_not_begun() {
    check("wait=1h", STREAM, "", 0).await;
    check("hang", PLAIN, "", 0).await;
    check("hang_head", STREAM, "", 0).await;
}

#[tokio::test]
async fn before_the_first_token() {
    check("ttft=1h", STREAM, "\r\n\r\n", 1).await;
    check("ttft=1h", PLAIN, "", 0).await;
}

#[tokio::test]
async fn in_mid_stream() {
    check("itl=1h", STREAM, EVENT, 1).await;
    check("stall=3", STREAM, EVENT, 3).await;
    check("stall=3", PLAIN, "\r\n\r\n{\"i", 1).await;
}

#[tokio::test]
async fn after_the_last_token() {
    // The terminator never comes.
    check("stall=40;tokens=40", STREAM, EVENT, 40).await;
}

#[tokio::test]
async fn after_the_terminator_all_is_well() {
    for way in WAYS {
        let recorded = recorded::one("vllm/chat-stream");
        // All but the empty chunk that ends the body.
        let most = recorded.raw.len() - 5;
        let script = Script::capture(&recorded.raw[..most], Cuts::Whole).then(Step::WaitForClose);
        let engine = Engine::scripted([script]).await.unwrap();
        let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
        let mut client = Client::to(greylag.address()).await;
        ask(&mut client, &[], STREAM).await;
        client.until("data: [DONE]\n\n").await;
        let _held = leave(client, way).await;
        let ending = ending(&engine).await;
        assert_eq!(ending, Ending::ClientClosed { after_events: 0 }, "{way:?}");
        let record = only_record(&greylag).await;
        assert_eq!(record.outcome, Outcome::Ok, "{way:?}");
        assert_eq!(aborts(&greylag).await, 1.0, "{way:?}");
    }
}

/// How soon is a matter of the machine as well, which can only make it later: so the best of some tries counts.
#[tokio::test]
async fn the_engine_is_free_before_its_next_token() {
    const TRIES: u64 = 10;
    const PACE: &str = "x-sim: itl=50ms;tokens=40";
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    for attempt in 1..=TRIES {
        let mut client = Client::to(greylag.address()).await;
        let id = format!("x-request-id: {attempt}");
        ask(&mut client, &[&id, PACE], STREAM).await;
        read_until(&mut client, EVENT, 3).await;
        let read = seen(&client, EVENT);
        drop(client);
        let free = |seen: &greylag_sim::Seen| {
            let mut requests = seen.requests.iter();
            requests.all(|request| request.ended.is_some()) && seen.running == 0
        };
        assert!(engine.wait_for(free, DEADLINE).await);
        let ended = engine.seen().requests.back().unwrap().ended.unwrap();
        if ended.ending == (Ending::ClientClosed { after_events: read }) {
            return;
        }
    }
    panic!("in none of {TRIES} tries was the engine free before its next token");
}

#[tokio::test]
async fn while_greylag_writes_to_it() {
    for way in [Way::Close, Way::Reset] {
        // More than the buffers of all the sockets on the way hold, and within the write deadline.
        let engine = Engine::start(Settings::default()).await.unwrap();
        let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
        let mut client = Client::to(greylag.address()).await;
        let order = ["x-sim: huge_event=33554432"];
        ask(&mut client, &order, STREAM).await;
        while client.held().len() < 100_000 {
            assert!(client.more().await);
        }
        leave(client, way).await;
        let ending = ending(&engine).await;
        assert!(matches!(ending, Ending::ClientClosed { .. }), "{way:?}");
        let record = only_record(&greylag).await;
        assert_eq!(record.outcome, Outcome::ClientGone, "{way:?}");
        assert_eq!(aborts(&greylag).await, 1.0, "{way:?}");
    }
}

#[tokio::test]
async fn while_its_body_is_gathered() {
    for way in WAYS {
        let engine = Engine::start(Settings::default()).await.unwrap();
        let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
        let mut client = Client::to(greylag.address()).await;
        client
            .send("POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\n{\"mo")
            .await;
        eventually("an exchange", || {
            (greylag.app().shared.telemetry.in_flight() == 1).then_some(())
        })
        .await;
        let _held = leave(client, way).await;
        let record = only_record(&greylag).await;
        assert_eq!(record.outcome, Outcome::ClientGone, "{way:?}");
        assert_eq!((record.attempts, record.engine_status), (0, None));
        // No engine was at work, so none had to be freed.
        assert_eq!(aborts(&greylag).await, 0.0, "{way:?}");
        assert_eq!(greylag.app().shared.budget.taken(), 0, "{way:?}");
    }
}

#[tokio::test]
async fn while_its_body_is_passed_on() {
    const HEAD: &str =
        "POST /elsewhere HTTP/1.1\r\nhost: test\r\ncontent-length: 100000\r\n\r\nsome";
    const CHUNKS: &str =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n";
    let long = format!("{CHUNKS}1000\r\n{}\r\n", "x".repeat(0x1000));
    for request in [HEAD, &long] {
        for way in WAYS {
            let engine = Engine::start(Settings::default()).await.unwrap();
            let rules = engines(&[("stable", engine.address())]).to_string();
            let greylag = Greylag::with("limits: { body: 1KiB }", &rules);
            let mut client = Client::to(greylag.address()).await;
            client.send(request).await;
            let asked = |seen: &greylag_sim::Seen| {
                let mut requests = seen.requests.iter();
                requests.any(|request| request.method == "POST")
            };
            assert!(engine.wait_for(asked, DEADLINE).await);
            let _held = leave(client, way).await;
            let ending = ending(&engine).await;
            assert_eq!(ending, Ending::ClientClosed { after_events: 0 }, "{way:?}");
            let record = only_record(&greylag).await;
            assert_eq!(record.outcome, Outcome::ClientGone, "{way:?}");
            assert_eq!(aborts(&greylag).await, 1.0, "{way:?}");
        }
    }
}

/// An address whose connections neither come about nor fail: its backlog is full.
struct BlackHole {
    address: SocketAddr,
    _listener: std::net::TcpListener,
    _waiting: Vec<TcpStream>,
}

async fn black_hole() -> BlackHole {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap().into_std().unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 100, "the backlog has no end");
    }
    BlackHole {
        address,
        _listener: listener,
        _waiting: waiting,
    }
}

#[tokio::test]
async fn while_greylag_connects() {
    let hole = black_hole().await;
    for way in WAYS {
        let mut rules = engines(&[("stable", hole.address)]);
        rules["engines"]["stable"]["timeouts"] = serde_json::json!({ "connect": "1h" });
        let greylag = Greylag::start(&rules.to_string());
        let mut client = Client::to(greylag.address()).await;
        ask(&mut client, &[], STREAM).await;
        eventually("an exchange", || {
            (greylag.app().shared.telemetry.in_flight() == 1).then_some(())
        })
        .await;
        let _held = leave(client, way).await;
        let record = only_record(&greylag).await;
        assert_eq!(record.outcome, Outcome::ClientGone, "{way:?}");
        assert_eq!((record.attempts, record.times.written), (1, None));
        assert_eq!(aborts(&greylag).await, 1.0, "{way:?}");
    }
}

#[tokio::test]
async fn when_the_engine_refuses_too() {
    let nobody = refusing_address().await.unwrap();
    for way in WAYS {
        let greylag = Greylag::start(&engines(&[("stable", nobody.address())]).to_string());
        let mut client = Client::to(greylag.address()).await;
        ask(&mut client, &[], STREAM).await;
        let _held = leave(client, way).await;
        // Which of the two is noticed first is open; that it is one record is not.
        let record = only_record(&greylag).await;
        let both = [Outcome::ClientGone, Outcome::EngineError];
        assert!(both.contains(&record.outcome), "{:?}", record.outcome);
    }
}

#[tokio::test]
async fn one_that_leaves_does_not_disturb_the_next_on_the_same_engine() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    for round in 1..=20_u64 {
        let mut leaver = Client::to(greylag.address()).await;
        ask(&mut leaver, &["x-sim: stall=2"], STREAM).await;
        read_until(&mut leaver, EVENT, 2).await;
        leave(leaver, WAYS[usize::try_from(round).unwrap() % 3]).await;
        let mut stayer = Client::to(greylag.address()).await;
        let answer = within("an answer", stayer.chat(&[], STREAM)).await;
        assert!(answer.whole && contains(&answer.body, b"[DONE]"));
    }
    let records = greylag.records_of(40).await;
    let count = |outcome| records.iter().filter(|r| r.outcome == outcome).count();
    assert_eq!((count(Outcome::ClientGone), count(Outcome::Ok)), (20, 20));
}

/// Another request, sent while the answer to the one before runs.
const AHEAD: &str = "GET /version HTTP/1.1\r\nhost: test\r\nx-request-id: ahead\r\n\r\n";

#[tokio::test]
async fn one_that_sends_ahead_has_not_left() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    ask(&mut client, &["x-sim: itl=20ms;tokens=10"], STREAM).await;
    read_until(&mut client, EVENT, 1).await;
    client.send(AHEAD).await;
    let answer = client.answer().await;
    assert!(answer.whole && contains(&answer.body, b"[DONE]"));
    let ahead = client.answer().await;
    assert_eq!(ahead.status, 200);
    assert!(ahead.json()["version"].is_string());
    let records = greylag.records_of(2).await;
    assert!(records.iter().all(|record| record.outcome == Outcome::Ok));
}

#[tokio::test]
async fn one_that_has_sent_ahead_leaves_like_any_other() {
    for way in WAYS {
        for pieces in [1, 3] {
            let engine = Engine::start(Settings::default()).await.unwrap();
            let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
            let mut client = Client::to(greylag.address()).await;
            ask(&mut client, &["x-sim: stall=2"], STREAM).await;
            read_until(&mut client, EVENT, 2).await;
            for piece in AHEAD.as_bytes().chunks(AHEAD.len().div_ceil(pieces)) {
                client.send(piece).await;
            }
            let _held = leave(client, way).await;
            assert_eq!(
                ending(&engine).await,
                Ending::ClientClosed { after_events: 2 },
                "{way:?}"
            );
            let record = only_record(&greylag).await;
            assert_eq!(record.outcome, Outcome::ClientGone, "{way:?}");
        }
    }
}
