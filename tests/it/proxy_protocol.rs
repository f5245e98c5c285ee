//! Connections that a load balancer introduces: PROXY protocol, version 2, before HTTP/1, HTTP/2 and TLS.

use std::net::SocketAddr;

use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::certs::Authority;
use crate::h2::Peer;
use crate::harness::{Client, Greylag, engines, sim, within};

const LISTEN: &str = "listen: [{ address: \"127.0.0.1:0\", proxy_protocol: true }]";
/// A header without addresses: a health check of the load balancer's.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
/// One for 203.0.113.7, with a TLV after the addresses.
const CLIENT: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11\xcb\0\x71\x07\x0a\0\0\x01\x12\x34\0\x50\x04\0\x02ok";

fn start(keys: &str, engine: SocketAddr) -> Greylag {
    Greylag::with(keys, &engines(&[("stable", engine)]).to_string())
}

async fn clients(greylag: &Greylag, count: usize) -> Vec<String> {
    let records = greylag.records_of(count).await;
    let client = |client: Option<std::net::IpAddr>| {
        client.map_or("nobody".to_owned(), |client| client.to_string())
    };
    records.iter().map(|record| client(record.client)).collect()
}

#[tokio::test]
async fn a_connection_is_the_clients_that_its_header_names() {
    let engine = sim().await;
    let greylag = start(LISTEN, engine.address());
    let mut client = Client::to(greylag.address()).await;
    // However it comes.
    for piece in CLIENT.chunks(5) {
        client.send(piece).await;
    }
    assert_eq!(client.get("/version").await.status, 200);
    assert_eq!(client.get("/version").await.status, 200);
    // In one piece with the request.
    let mut client = Client::to(greylag.address()).await;
    let request = b"GET /version HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 10.0.0.9\r\n\r\n";
    client.send([CLIENT, request].concat()).await;
    assert_eq!(client.answer().await.status, 200);
    let mut client = Client::to(greylag.address()).await;
    client.send(LOCAL).await;
    assert_eq!(client.get("/version").await.status, 200);
    let [a, b, c, d] = &clients(&greylag, 4).await[..] else {
        panic!("four records");
    };
    // The client that is named is a stranger, so what it forwards is not believed.
    assert_eq!([a, b, c], ["203.0.113.7"; 3]);
    assert_eq!(d, "127.0.0.1");
}

#[tokio::test]
async fn it_comes_before_http2_too() {
    let engine = sim().await;
    let listen = LISTEN.replace(" }]", ", protocol: h2c }]");
    let greylag = start(&listen, engine.address());
    let mut stream = TcpStream::connect(greylag.address())
        .await
        .expect("it listens");
    stream.write_all(CLIENT).await.expect("it is taken");
    let mut peer = Peer::on(stream, &mut ::h2::client::Builder::new()).await;
    let answer = peer.whole("GET", "/version", &[], b"").await;
    assert_eq!(answer.expect("it answers").head.status(), 200);
    assert_eq!(clients(&greylag, 1).await, ["203.0.113.7"]);
}

#[tokio::test]
async fn it_comes_before_tls_too() {
    let authority = Authority::new();
    let pair = authority.sign("localhost");
    let engine = sim().await;
    let tls = format!(
        ", tls: {{ cert: {:?}, key: {:?} }} }}]",
        pair.cert, pair.key
    );
    let greylag = start(&LISTEN.replace(" }]", &tls), engine.address());
    for alpn in ["http/1.1", "h2"] {
        let mut stream = TcpStream::connect(greylag.address())
            .await
            .expect("it listens");
        stream.write_all(CLIENT).await.expect("it is taken");
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = TlsConnector::from(authority.client(None, &[alpn]));
        let shaken = within("a handshake", connector.connect(name, stream)).await;
        let mut stream = shaken.expect("it speaks TLS");
        if alpn == "h2" {
            let mut peer = Peer::on(stream, &mut ::h2::client::Builder::new()).await;
            let answer = peer.whole("GET", "/version", &[], b"").await;
            assert_eq!(answer.expect("it answers").head.status(), 200);
        } else {
            let request = b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n";
            stream.write_all(request).await.expect("it is taken");
            greylag.records_of(1).await;
        }
    }
    assert_eq!(clients(&greylag, 2).await, ["203.0.113.7"; 2]);
}

#[tokio::test]
async fn what_does_not_begin_so_is_closed_and_counted() {
    let engine = sim().await;
    let greylag = start(LISTEN, engine.address());
    let series = r#"greylag_refused_total{reason="proxy_header"}"#;
    let mut count = 0.0;
    for begun in [
        &b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n"[..],
        b"PROXY TCP4 203.0.113.7 10.0.0.1 4660 80\r\nGET / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x04\xcb\0\x71\x07",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0",
    ] {
        let mut client = Client::to(greylag.address()).await;
        client.send(begun).await;
        assert!(client.ended().await, "{begun:?}");
        count += 1.0;
        assert_eq!(greylag.metric_reaches(series, count).await, count);
    }
    // One that ends within its header; one that never says anything is no fault.
    let mut client = Client::to(greylag.address()).await;
    client.send(&CLIENT[..20]).await;
    client.socket.shutdown().await.expect("it is connected");
    assert!(client.ended().await);
    assert_eq!(
        greylag.metric_reaches(series, count + 1.0).await,
        count + 1.0
    );
    let mut client = Client::to(greylag.address()).await;
    client.socket.shutdown().await.expect("it is connected");
    assert!(client.ended().await);
    assert_eq!(greylag.metric(series).await, Some(count + 1.0));
    assert!(greylag.records().is_empty());
}

#[tokio::test]
async fn a_stranger_introduces_nobody() {
    let engine = sim().await;
    let greylag = start(
        &format!("{LISTEN}\ntrusted: [10.0.0.0/8]"),
        engine.address(),
    );
    let mut client = Client::to(greylag.address()).await;
    client.send(CLIENT).await;
    assert!(client.ended().await);
    let series = r#"greylag_refused_total{reason="proxy_untrusted"}"#;
    assert_eq!(greylag.metric_reaches(series, 1.0).await, 1.0);
    assert!(greylag.records().is_empty());
}

#[tokio::test]
async fn a_header_that_does_not_come_is_not_waited_for_long() {
    let engine = sim().await;
    let greylag = start(LISTEN, engine.address());
    let mut client = Client::to(greylag.address()).await;
    client.send(&CLIENT[..5]).await;
    // It keeps its side open.
    assert!(client.ended().await);
    let series = r#"greylag_refused_total{reason="proxy_header"}"#;
    assert_eq!(greylag.metric_reaches(series, 1.0).await, 1.0);
}
