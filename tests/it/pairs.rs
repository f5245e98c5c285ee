//! Every version of HTTP from clients, with every version to engines, in one table of what may happen.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use ::h2::{Reason, RecvStream, SendStream};
use bytes::Bytes;
use greylag_filters::outcome::Outcome;

use crate::certs::Authority;
use crate::h2::{self, Peer};
use crate::hand;
use crate::harness::{Client, Greylag, within};

const VERSIONS: [u8; 2] = [1, 2];
const STREAM: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";

/// Greylag between a client of one version and an engine of another.
struct Pair {
    greylag: Greylag,
    near: Near,
    far: Far,
    // its files must live as long as Greylag reads them
    _authority: Authority,
}

enum Near {
    H1(Client),
    H2(Peer),
}

enum Far {
    H1(hand::Hand),
    H2(h2::Hand),
}

/// A request at the client.
enum Asking<'a> {
    H1(&'a mut Client),
    // and what has come of its answer
    H2(h2::Asking, Option<(u16, RecvStream)>),
}

/// A request at the engine.
enum Call {
    H1(Client),
    H2(Box<h2::Asked>, Option<SendStream<Bytes>>),
}

impl Pair {
    async fn of(near: u8, far: u8) -> Pair {
        let authority = Authority::new();
        let (far, url) = match far {
            1 => {
                let hand = hand::Hand::start().await;
                let url = format!("http://{}", hand.address());
                (Far::H1(hand), url)
            }
            _ => {
                let config = authority.sign("localhost").server(None, &["h2"]);
                let hand = h2::Hand::over_tls(config).await;
                let url = format!("https://localhost:{}", hand.address().port());
                (Far::H2(hand), url)
            }
        };
        let mut engine = serde_json::json!({ "kind": "vllm", "url": url });
        if matches!(far, Far::H2(_)) {
            engine["tls"] = serde_json::json!({ "ca": authority.file() });
        }
        let rules = serde_json::json!({ "engines": { "e": engine }, "default_engine": "e" });
        let protocol = if near == 1 { "http1" } else { "h2c" };
        let listen = format!("listen: [{{ address: \"127.0.0.1:0\", protocol: {protocol} }}]");
        let greylag = Greylag::with(&listen, &rules.to_string());
        let near = match near {
            1 => Near::H1(Client::to(greylag.address()).await),
            _ => Near::H2(Peer::to(greylag.address()).await),
        };
        Pair {
            greylag,
            near,
            far,
            _authority: authority,
        }
    }
}

impl Near {
    /// Asks; with `unfinished` the body is not ended.
    async fn ask(&mut self, method: &str, path: &str, body: &[u8], unfinished: bool) -> Asking<'_> {
        let has_body = !body.is_empty();
        match self {
            Near::H1(client) => {
                let length = if unfinished {
                    body.len() + 1
                } else {
                    body.len()
                };
                let framing = match has_body {
                    true => {
                        format!("content-length: {length}\r\ncontent-type: application/json\r\n")
                    }
                    false => String::new(),
                };
                client
                    .send(format!(
                        "{method} {path} HTTP/1.1\r\nhost: test\r\n{framing}\r\n"
                    ))
                    .await;
                // The engine may answer before it has all.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut client.socket, body).await;
                Asking::H1(client)
            }
            Near::H2(peer) => {
                let fields = [("content-type", "application/json")];
                let mut asking = peer
                    .ask(method, path, &fields[..usize::from(has_body)])
                    .await;
                let _ = h2::write(&mut asking.out, body).await;
                if !unfinished {
                    asking.out.send_data(Bytes::new(), true).unwrap();
                }
                Asking::H2(asking, None)
            }
        }
    }
}

impl Asking<'_> {
    /// Status and body, and whether the body was whole.
    async fn answer(self, method: &str) -> (u16, Vec<u8>, bool) {
        match self {
            Asking::H1(client) if method == "HEAD" => {
                (client.head().await.status, Vec::new(), true)
            }
            Asking::H1(client) => {
                let answer = client.answer().await;
                (answer.status, answer.body, answer.whole)
            }
            Asking::H2(asking, begun) => {
                let (status, body) = match begun {
                    Some(begun) => begun,
                    None => begin(asking.answer).await,
                };
                match h2::read(body).await {
                    Ok((body, _)) => (status, body.to_vec(), true),
                    Err(_) => (status, Vec::new(), false),
                }
            }
        }
    }

    /// Waits until a piece of the answer has come.
    async fn begun(&mut self) {
        match self {
            Asking::H1(client) => client.until("data: ").await,
            Asking::H2(asking, begun) => {
                let (status, mut body) = begin(&mut asking.answer).await;
                within("a piece", body.data()).await.unwrap().unwrap();
                *begun = Some((status, body));
            }
        }
    }

    /// Goes away.
    async fn leave(self) {
        match self {
            Asking::H1(client) => tokio::io::AsyncWriteExt::shutdown(&mut client.socket)
                .await
                .unwrap(),
            Asking::H2(mut asking, _) => asking.out.send_reset(Reason::CANCEL),
        }
    }
}

async fn begin(
    answer: impl Future<Output = Result<http::Response<RecvStream>, ::h2::Error>>,
) -> (u16, RecvStream) {
    let answer = within("a head", answer).await.unwrap();
    (answer.status().as_u16(), answer.into_body())
}

impl Far {
    /// Takes the next request, with its whole body.
    async fn whole(&mut self) -> (Call, Vec<u8>) {
        match self {
            Far::H1(hand) => {
                let (client, asked) = hand.request().await;
                (Call::H1(client), asked.body)
            }
            Far::H2(hand) => {
                let mut asked = hand.call().await;
                assert_eq!(asked.head.uri.scheme_str(), Some("https"));
                let mut body = Vec::new();
                while let Some(piece) = within("a piece", asked.body.data()).await {
                    let piece = piece.unwrap();
                    asked
                        .body
                        .flow_control()
                        .release_capacity(piece.len())
                        .unwrap();
                    body.extend_from_slice(&piece);
                }
                (Call::H2(Box::new(asked), None), body)
            }
        }
    }

    /// Takes the next request, of which so much has come.
    async fn begun(&mut self, text: &str) -> Call {
        match self {
            Far::H1(hand) => {
                let mut client = hand.accept().await;
                client.until(text).await;
                Call::H1(client)
            }
            Far::H2(hand) => Call::H2(Box::new(hand.call().await), None),
        }
    }
}

impl Call {
    /// Begins the answer; without a length it is a stream of events.
    async fn head(&mut self, status: u16, length: Option<usize>) {
        let field = match length {
            Some(length) => ("content-length", length.to_string()),
            None => ("content-type", "text/event-stream".to_owned()),
        };
        match self {
            Call::H1(client) => {
                let framing = match length {
                    Some(_) => "",
                    None => "transfer-encoding: chunked\r\n",
                };
                client
                    .send(format!(
                        "HTTP/1.1 {status} So\r\n{}: {}\r\n{framing}\r\n",
                        field.0, field.1
                    ))
                    .await;
            }
            Call::H2(asked, out) => {
                let head = http::Response::builder()
                    .status(status)
                    .header(field.0, field.1)
                    .body(())
                    .unwrap();
                let is_all = length == Some(0) || asked.head.method == "HEAD";
                *out = Some(asked.respond.send_response(head, is_all).unwrap());
            }
        }
    }

    async fn piece(&mut self, bytes: &[u8], is_chunk: bool) {
        match self {
            Call::H1(client) if is_chunk => {
                client.send(format!("{:x}\r\n", bytes.len())).await;
                client.send([bytes, b"\r\n"].concat()).await;
            }
            Call::H1(client) => client.send(bytes).await,
            Call::H2(_, out) => h2::write(out.as_mut().unwrap(), bytes).await.unwrap(),
        }
    }

    async fn end(&mut self, is_chunk: bool) {
        match self {
            Call::H1(client) if is_chunk => client.send("0\r\n\r\n").await,
            Call::H1(_) => {}
            Call::H2(_, out) => out.as_mut().unwrap().send_data(Bytes::new(), true).unwrap(),
        }
    }

    /// Breaks the answer off.
    fn reset(self) {
        match self {
            Call::H1(client) => client.socket.set_zero_linger().unwrap(),
            Call::H2(mut asked, out) => match out {
                Some(mut out) => out.send_reset(Reason::INTERNAL_ERROR),
                None => asked.respond.send_reset(Reason::INTERNAL_ERROR),
            },
        }
    }

    /// Waits until Greylag gives the request up.
    async fn left(&mut self) {
        match self {
            Call::H1(client) => assert!(client.ended().await),
            Call::H2(asked, out) => {
                let reset = std::future::poll_fn(|cx| match out {
                    Some(out) => out.poll_reset(cx),
                    None => asked.respond.poll_reset(cx),
                });
                assert_eq!(within("a reset", reset).await.unwrap(), Reason::CANCEL);
            }
        }
    }
}

const CHAT: &str = "/v1/chat/completions";
const BODY: &[u8] = br#"{"model":"m","messages":[],"stream":true}"#;

async fn every_pair(case: impl AsyncFn(&mut Near, &mut Far, &Greylag)) {
    for near in VERSIONS {
        for far in VERSIONS {
            let mut pair = Pair::of(near, far).await;
            case(&mut pair.near, &mut pair.far, &pair.greylag).await;
        }
    }
}

#[tokio::test]
async fn whole_answers_and_large_bodies() {
    let large: Vec<u8> = (0..3_u32 << 20)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect();
    every_pair(async |near, far, _| {
        for body in [&b"{}"[..], &large] {
            let asking = async {
                near.ask("POST", "/x", body, false)
                    .await
                    .answer("POST")
                    .await
            };
            let answering = async {
                let (mut call, got) = far.whole().await;
                call.head(200, Some(got.len())).await;
                call.piece(&got, false).await;
                call.end(false).await;
                call
            };
            let ((status, got, whole), _) = tokio::join!(asking, answering);
            assert!(status == 200 && whole && got == body);
        }
    })
    .await;
}

#[tokio::test]
async fn streams_come_piece_by_piece_and_are_metered() {
    every_pair(async |near, far, greylag| {
        let asking = async {
            near.ask("POST", CHAT, BODY, false)
                .await
                .answer("POST")
                .await
        };
        let answering = async {
            let (mut call, got) = far.whole().await;
            assert_eq!(got, BODY);
            call.head(200, None).await;
            for piece in [STREAM, STREAM, b"data: [DONE]\n\n"] {
                call.piece(piece, true).await;
            }
            call.end(true).await;
            call
        };
        let ((status, got, whole), _) = tokio::join!(asking, answering);
        assert!(status == 200 && whole);
        assert_eq!(got, [STREAM, STREAM, b"data: [DONE]\n\n"].concat());
        let record = greylag.records_of(1).await[0].clone();
        assert_eq!(record.outcome, Outcome::Ok);
        assert_eq!(record.figures.as_ref().unwrap().token_events, 2);
    })
    .await;
}

#[tokio::test]
async fn answers_without_a_body() {
    every_pair(async |near, far, _| {
        for (method, status, length) in [
            ("HEAD", 200, Some(5)),
            ("GET", 204, Some(0)),
            ("GET", 304, Some(0)),
            ("GET", 200, Some(0)),
        ] {
            let asking = async {
                near.ask(method, "/x", b"", false)
                    .await
                    .answer(method)
                    .await
            };
            let answering = async {
                let (mut call, _) = far.whole().await;
                call.head(status, length).await;
                call
            };
            let (answer, _) = tokio::join!(asking, answering);
            assert_eq!(answer, (status, Vec::new(), true), "{method}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_early_answer_to_an_unfinished_upload() {
    every_pair(async |near, far, _| {
        let asking = near.ask("POST", "/x", b"begun", true).await;
        let mut call = far.begun("begun").await;
        call.head(413, Some(2)).await;
        call.piece(b"no", false).await;
        call.end(false).await;
        assert_eq!(asking.answer("POST").await, (413, b"no".to_vec(), true));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_before_and_in_the_answer() {
    for begun in [false, true] {
        every_pair(async |near, far, greylag| {
            let mut asking = near.ask("POST", CHAT, BODY, false).await;
            let (mut call, _) = far.whole().await;
            if begun {
                call.head(200, None).await;
                call.piece(STREAM, true).await;
                asking.begun().await;
            }
            asking.leave().await;
            call.left().await;
            let record = greylag.records_of(1).await[0].clone();
            assert_eq!(record.outcome, Outcome::ClientGone);
        })
        .await;
    }
}

#[tokio::test]
async fn an_engine_that_resets_before_and_in_its_answer() {
    for begun in [false, true] {
        every_pair(async |near, far, greylag| {
            let mut asking = near.ask("POST", CHAT, BODY, false).await;
            let (mut call, _) = far.whole().await;
            if begun {
                call.head(200, None).await;
                call.piece(STREAM, true).await;
                asking.begun().await;
            }
            call.reset();
            let (status, _, whole) = asking.answer("POST").await;
            if begun {
                assert!(status == 200 && !whole);
            } else {
                assert!(status == 502 && whole);
            }
            let record = greylag.records_of(1).await[0].clone();
            assert_eq!(record.engine_status, begun.then_some(200));
        })
        .await;
    }
}

#[tokio::test]
async fn a_request_that_was_not_looked_at_goes_out_once_more() {
    for near in VERSIONS {
        let mut pair = Pair::of(near, 2).await;
        let Pair {
            near, far, greylag, ..
        } = &mut pair;
        let asking = async {
            near.ask("POST", CHAT, BODY, false)
                .await
                .answer("POST")
                .await
        };
        let answering = async {
            let (call, _) = far.whole().await;
            if let Call::H2(mut asked, _) = call {
                asked.respond.send_reset(Reason::REFUSED_STREAM);
            }
            let (mut call, got) = far.whole().await;
            assert_eq!(got, BODY);
            call.head(200, Some(2)).await;
            call.piece(b"ok", false).await;
            call.end(false).await;
            call
        };
        let (answer, _) = tokio::join!(asking, answering);
        assert_eq!(answer, (200, b"ok".to_vec(), true));
        assert_eq!(greylag.records_of(1).await[0].attempts, 2);
    }
}
