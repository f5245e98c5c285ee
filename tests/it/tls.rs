//! TLS on listeners and to engines: hands that are shaken, and each kind of failure with its cause.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::admin::put;
use crate::certs::{Authority, Pair};
use crate::hand::Hand;
use crate::harness::{Client, Greylag, engines, sim, within};

const ASK: &[u8] = b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn listening(pair: &Pair, client_ca: Option<&Authority>, engine: SocketAddr) -> Greylag {
    let ca = client_ca.map_or(String::new(), |ca| format!(", client_ca: {:?}", ca.file()));
    let listen = format!(
        "listen: [{{ address: \"127.0.0.1:0\", tls: {{ cert: {:?}, key: {:?}{ca} }} }}]",
        pair.cert, pair.key
    );
    Greylag::with(&listen, &engines(&[("stable", engine)]).to_string())
}

async fn shake(
    address: SocketAddr,
    config: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    within(
        "a handshake",
        TlsConnector::from(config).connect(name, stream),
    )
    .await
}

// Asks, and reads to the end; how the server minds a certificate shows only here (TLS 1.3).
async fn asked<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> std::io::Result<String> {
    stream.write_all(ASK).await?;
    let mut answer = Vec::new();
    within("an answer", stream.read_to_end(&mut answer)).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn a_listener_speaks_tls_and_both_versions_of_http() {
    let authority = Authority::new();
    let engine = sim().await;
    let greylag = listening(&authority.sign("localhost"), None, engine.address());
    let mut stream = shake(greylag.address(), authority.client(None, &["http/1.1"]))
        .await
        .unwrap();
    assert!(
        asked(&mut stream)
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    // Who offers nothing gets HTTP/1.1.
    let mut stream = shake(greylag.address(), authority.client(None, &[]))
        .await
        .unwrap();
    assert!(
        asked(&mut stream)
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    let stream = shake(
        greylag.address(),
        authority.client(None, &["h2", "http/1.1"]),
    )
    .await
    .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut peer = crate::h2::Peer::on(stream, &mut ::h2::client::Builder::new()).await;
    let answer = peer.whole("GET", "/version", &[], b"").await.unwrap();
    assert_eq!(answer.head.status(), 200);
}

#[tokio::test]
async fn who_leaves_over_tls_frees_the_engine_too() {
    let authority = Authority::new();
    let mut hand = Hand::start().await;
    let greylag = listening(&authority.sign("localhost"), None, hand.address());
    let mut stream = shake(greylag.address(), authority.client(None, &[]))
        .await
        .unwrap();
    stream.write_all(ASK).await.unwrap();
    let (mut engine, _) = hand.request().await;
    engine.send("HTTP/1.1 200 OK\r\n\r\nbegun").await;
    let mut some = [0; 1];
    within("a byte", stream.read_exact(&mut some))
        .await
        .unwrap();
    drop(stream);
    assert!(within("the engine's end", engine.ended()).await);
}

#[tokio::test]
async fn a_client_without_tls_is_told_so() {
    let authority = Authority::new();
    let engine = sim().await;
    let greylag = listening(&authority.sign("localhost"), None, engine.address());
    let mut plain = Client::to(greylag.address()).await;
    let answer = plain.get("/version").await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("TLS is spoken on this port"));
}

#[tokio::test]
async fn a_handshake_on_a_port_without_tls_harms_nothing() {
    let authority = Authority::new();
    let engine = sim().await;
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    assert!(
        shake(greylag.address(), authority.client(None, &[]))
            .await
            .is_err()
    );
    let mut client = Client::to(greylag.address()).await;
    assert_eq!(client.get("/version").await.status, 200);
}

#[tokio::test]
async fn a_listener_that_asks_for_certificates_takes_those_of_its_authority_alone() {
    let (authority, other) = (Authority::new(), Authority::new());
    let engine = sim().await;
    let pair = authority.sign("localhost");
    let greylag = listening(&pair, Some(&authority), engine.address());
    let mine = authority.sign("client");
    let mut stream = shake(greylag.address(), authority.client(Some(&mine), &[]))
        .await
        .unwrap();
    assert!(
        asked(&mut stream)
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    let (foreign, expired) = (other.sign("client"), authority.sign_expired("client"));
    for shown in [None, Some(&foreign), Some(&expired)] {
        let refused = async {
            let mut stream = shake(greylag.address(), authority.client(shown, &[])).await?;
            asked(&mut stream).await
        };
        let error = refused.await.unwrap_err();
        assert!(error.to_string().contains("alert"), "{error}");
    }
    let refused = r#"greylag_refused_total{reason="tls_handshake"}"#;
    assert_eq!(greylag.metric_reaches(refused, 3.0).await, 3.0);
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_shown_by_the_next_handshake() {
    let (authority, next) = (Authority::new(), Authority::new());
    let mut hand = Hand::start().await;
    let pair = authority.sign("localhost");
    let greylag = listening(&pair, None, hand.address());
    let mut running = shake(greylag.address(), authority.client(None, &[]))
        .await
        .unwrap();
    running.write_all(ASK).await.unwrap();
    let (mut engine, _) = hand.request().await;
    engine
        .send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
        .await;

    let replaced = Pair {
        texts: next.sign("localhost").texts,
        ..pair.clone()
    };
    replaced.write();
    assert!(
        shake(greylag.address(), authority.client(None, &[]))
            .await
            .is_err()
    );
    shake(greylag.address(), next.client(None, &[]))
        .await
        .unwrap();
    // One that is nonsense leaves the one before in use.
    std::fs::write(&pair.cert, "nonsense").unwrap();
    shake(greylag.address(), next.client(None, &[]))
        .await
        .unwrap();

    engine.send("cd").await;
    let mut answer = Vec::new();
    within("the rest", running.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(answer.ends_with(b"abcd"));
}

#[tokio::test]
async fn files_that_are_no_certificates_are_told_of_at_the_start() {
    let authority = Authority::new();
    let engine = sim().await;
    let pair = authority.sign("localhost");
    let start = |cert: &std::path::Path, key: &std::path::Path| {
        let listen = format!(
            "listen: [{{ address: \"127.0.0.1:0\", tls: {{ cert: {cert:?}, key: {key:?} }} }}]"
        );
        let rules = engines(&[("stable", engine.address())]).to_string();
        let error = Greylag::try_with(&listen, &rules).err().unwrap();
        error.to_string()
    };
    let gone = pair.cert.with_file_name("gone.pem");
    assert!(start(&gone, &pair.key).contains("gone.pem"));
    let other = authority.sign("localhost");
    let error = start(&pair.cert, &other.key);
    assert!(
        error.contains("keys may not be consistent") || error.contains("KeyMismatch"),
        "{error}"
    );
    assert!(start(&pair.key, &pair.key).contains("holds no certificate"));
}

// An engine that shakes hands, and answers each request `ok`.
async fn engine(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = TlsAcceptor::from(config.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    match stream.read_buf(&mut asked).await {
                        Ok(1..) => {}
                        _ => return,
                    }
                }
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

// In front of an engine over TLS.
fn before(address: SocketAddr, tls: serde_json::Value) -> Greylag {
    let rules = serde_json::json!({
        "engines": { "stable": {
            "kind": "vllm", "url": format!("https://localhost:{}", address.port()), "tls": tls,
        } },
        "default_engine": "stable",
    });
    Greylag::start(&rules.to_string())
}

async fn through(address: SocketAddr, tls: serde_json::Value) -> crate::harness::Answer {
    let greylag = before(address, tls);
    let mut client = Client::to(greylag.address()).await;
    client.get("/version").await
}

#[tokio::test]
async fn an_engine_is_believed_by_its_certificate() {
    let (authority, other) = (Authority::new(), Authority::new());
    let ca = serde_json::json!({ "ca": authority.file() });
    let good = engine(authority.sign("localhost").server(None, &[])).await;
    assert_eq!(through(good, ca.clone()).await.text(), "ok");

    let named = engine(authority.sign("models.test").server(None, &[])).await;
    let mut with_name = ca.clone();
    with_name["server_name"] = "models.test".into();
    assert_eq!(through(named, with_name).await.text(), "ok");

    let expired = engine(authority.sign_expired("localhost").server(None, &[])).await;
    let foreign = engine(other.sign("localhost").server(None, &[])).await;
    let wary = engine(authority.sign("localhost").server(Some(&other), &[])).await;
    for (address, cause) in [
        (named, "not valid for name"),
        (expired, "expired"),
        (foreign, "UnknownIssuer"),
    ] {
        let answer = through(address, ca.clone()).await;
        assert_eq!(answer.status, 502);
        assert_eq!(
            answer.header("x-greylag-reason"),
            Some("engine_unreachable")
        );
        assert!(answer.text().contains(cause), "{cause}: {}", answer.text());
    }
    assert_eq!(
        through(foreign, serde_json::json!({ "insecure": true }))
            .await
            .text(),
        "ok"
    );
    // It asks for a certificate, and gets the right one or none.
    assert_eq!(through(wary, ca.clone()).await.status, 502);
    let mine = other.sign("client");
    let shown = serde_json::json!({ "ca": authority.file(), "cert": mine.cert, "key": mine.key });
    assert_eq!(through(wary, shown).await.text(), "ok");
    // TLS to an engine without it.
    let plain = sim().await;
    let answer = through(plain.address(), ca).await;
    assert!(answer.text().contains("TLS: "), "{}", answer.text());
}

#[tokio::test]
async fn a_client_that_reads_late_gets_all_of_its_answer_over_tls() {
    const SIZE: usize = 16 << 20;
    let authority = Authority::new();
    let mut hand = Hand::start().await;
    let greylag = listening(&authority.sign("localhost"), None, hand.address());
    let mut stream = shake(greylag.address(), authority.client(None, &[]))
        .await
        .unwrap();
    let ask = String::from_utf8_lossy(ASK).replace("connection: close\r\n", "");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let (mut engine, _) = hand.request().await;
    engine
        .send(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n"))
        .await;
    let sending = tokio::spawn(async move {
        engine.socket.write_all(&vec![b'x'; SIZE]).await.unwrap();
        engine
    });
    let mut come = Vec::new();
    while !come.ends_with(b"\r\n\r\n") {
        come.push(within("a head", stream.read_u8()).await.unwrap());
    }
    // Little by little, so that every buffer on the way is full again and again.
    let mut piece = vec![0; 64 << 10];
    for _ in 0..SIZE / piece.len() {
        within("a piece", stream.read_exact(&mut piece))
            .await
            .unwrap();
        assert!(piece.iter().all(|byte| *byte == b'x'));
        tokio::task::yield_now().await;
    }
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn an_engine_that_reads_late_gets_all_of_its_request_over_tls() {
    const SIZE: usize = 16 << 20;
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = authority.sign("localhost").server(None, &[]);
    let engine = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let shaken = TlsAcceptor::from(config.clone()).accept(stream).await;
            let Ok(mut stream) = shaken else { continue };
            let mut asked = Vec::new();
            while !asked.windows(4).any(|four| four == b"\r\n\r\n")
                && matches!(stream.read_buf(&mut asked).await, Ok(1..))
            {}
            // Greylag's own questions find no answer here.
            if !asked.starts_with(b"POST ") {
                continue;
            }
            let head = asked
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .unwrap()
                + 4;
            let mut rest = vec![0; SIZE - (asked.len() - head)];
            within("the body", stream.read_exact(&mut rest))
                .await
                .unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
            stream.flush().await.unwrap();
            return stream;
        }
    });
    let greylag = before(address, serde_json::json!({ "ca": authority.file() }));
    let mut client = Client::to(greylag.address()).await;
    let answer = client
        .post("/v1/chat/completions", &[], vec![b' '; SIZE])
        .await;
    assert_eq!(answer.text(), "ok");
    drop(engine.await.unwrap());
}

#[tokio::test]
async fn a_websocket_reaches_an_engine_that_would_rather_speak_http_2() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = authority
        .sign("localhost")
        .server(None, &["h2", "http/1.1"]);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = TlsAcceptor::from(config.clone());
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                // Another than this asks in HTTP/2.
                if stream.get_ref().1.alpn_protocol() != Some(b"http/1.1") {
                    return;
                }
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    assert!(stream.read_buf(&mut asked).await.unwrap() > 0);
                }
                let agreed = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello";
                stream.write_all(agreed).await.unwrap();
                stream.flush().await.unwrap();
                let _ = stream.read_u8().await;
            });
        }
    });
    let greylag = before(address, serde_json::json!({ "ca": authority.file() }));
    let mut client = Client::to(greylag.address()).await;
    client
        .ask("GET /x", &["connection: upgrade", "upgrade: websocket"], "")
        .await;
    client.until("\r\n\r\nhello").await;
}

#[test]
fn rules_that_name_files_that_are_not_there_are_refused_when_they_are_sent() {
    let bad = serde_json::json!({
        "engines": { "stable": {
            "kind": "vllm", "url": "https://127.0.0.1:1", "tls": { "ca": "/nowhere/ca.crt" },
        } },
        "default_engine": "stable",
    })
    .to_string();
    let greylag = Greylag::start(&engines(&[("stable", ([127, 0, 0, 1], 1).into())]).to_string());
    for path in ["/v1/rules", "/v1/rules?dry_run=true"] {
        let fields = ["content-type: application/json"];
        let answer = put(greylag.app().admin, path, &fields, &bad);
        assert_eq!(answer.status, 422, "{}", answer.text());
        let problem = answer.json()["problems"][0].clone();
        assert_eq!(problem["path"], "rules.engines.stable.tls");
        let what = problem["what"].as_str().unwrap();
        assert!(what.starts_with("/nowhere/ca.crt: "), "{what}");
    }
    let fault = Greylag::try_with("", &bad).err().unwrap().to_string();
    assert!(
        fault.contains("rules.engines.stable.tls: /nowhere/ca.crt: "),
        "{fault}"
    );
}
