//! A client that leaves before the engine has its request: while it sends it, while Greylag connects or writes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::net::SocketAddr;
use std::time::Duration;

use greylag_filters::outcome::Outcome;
use greylag_sim::{Ending, Engine, Settings, refusing_address};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{STREAM, WAYS, aborts, ask, ending, leave, only_record};
use crate::harness::{Client, DEADLINE, Greylag, engines, eventually, within};

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

#[tokio::test]
async fn while_greylag_writes_to_an_engine_that_takes_nothing() {
    for way in WAYS {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let rules = engines(&[("stable", listener.local_addr().unwrap())]);
        let greylag = Greylag::start(&rules.to_string());
        let mut client = Client::to(greylag.address()).await;
        // More than the buffers of the sockets on the way hold.
        let body = STREAM.replace("hi", &"hi".repeat(4 << 20));
        ask(&mut client, &[], &body).await;
        // Greylag also asks for the models, on a connection of its own.
        let mut head = [0; 4];
        let mut engine = loop {
            let (mut socket, _) = within("a connection", listener.accept()).await.unwrap();
            within("a head", socket.read_exact(&mut head))
                .await
                .unwrap();
            if &head == b"POST" {
                break socket;
            }
        };
        let _held = leave(client, way).await;
        let record = only_record(&greylag).await;
        assert_eq!(record.outcome, Outcome::ClientGone, "{way:?}");
        assert_eq!(record.times.written, None, "{way:?}");
        assert_eq!(aborts(&greylag).await, 1.0, "{way:?}");
        assert_eq!(greylag.app().shared.budget.taken(), 0, "{way:?}");
        // What was written before, then the end: the connection is not kept for another request.
        let mut rest = Vec::new();
        let end = within("the end", engine.read_to_end(&mut rest)).await;
        assert!(end.is_err() || rest.len() < body.len(), "{way:?}");
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
