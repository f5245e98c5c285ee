//! An engine behind TLS, as clients meet it that check what it shows.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::DEADLINE;
use super::client::{chat, order, within};
use super::http2_client::Http2;
use crate::certs::{Authority, Certificate};
use crate::{Door, Ending, Engine, Settings, Tls};

/// Connects as a client that trusts `authority` and wants an engine called `engine.test`.
async fn connect(
    address: SocketAddr,
    authority: &Authority,
    own: Option<&Certificate>,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
        .unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("engine.test").unwrap();
    within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

/// The first line of the answer to a chat; an error where the engine ends the connection instead.
async fn ask(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    stream.write_all(&chat("", "")).await?;
    let mut start = [0; 15];
    within(stream.read_exact(&mut start)).await?;
    Ok(String::from_utf8_lossy(&start).into_owned())
}

async fn serving(tls: Tls) -> (Engine, SocketAddr) {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let address = engine.open(Door::default().with(tls)).await.unwrap();
    (engine, address)
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_answered() {
    let authority = Authority::new("authority").unwrap();
    let tls = Tls::new(&authority.server(&["engine.test", "127.0.0.1"]).unwrap()).unwrap();
    let (engine, address) = serving(tls).await;
    let mut stream = connect(address, &authority, None, &[]).await.unwrap();
    assert_eq!(ask(&mut stream).await.unwrap(), "HTTP/1.1 200 OK");
    let seen = engine.seen();
    let handshake = seen.requests[0].tls.as_ref().unwrap();
    assert_eq!(handshake.server_name.as_deref(), Some("engine.test"));
    assert_eq!((&handshake.protocol, &handshake.client), (&None, &None));
}

#[tokio::test]
async fn bad_certificates_are_bad() {
    let authority = Authority::new("authority").unwrap();
    let stranger = Authority::new("stranger").unwrap();
    for certificate in [
        authority.expired(&["engine.test"]),
        authority.server(&["elsewhere.test"]),
        stranger.server(&["engine.test"]),
        authority.client("engine.test"),
    ] {
        let (engine, address) = serving(Tls::new(&certificate.unwrap()).unwrap()).await;
        assert!(connect(address, &authority, None, &[]).await.is_err());
        assert!(engine.wait_for(|seen| seen.open == 0, DEADLINE).await);
        assert_eq!(engine.seen().count, 0);
    }
}

#[tokio::test]
async fn clients_are_asked_who_they_are_where_that_is_wanted() {
    let authority = Authority::new("authority").unwrap();
    let stranger = Authority::new("stranger").unwrap();
    let certificate = authority.server(&["engine.test"]).unwrap();
    let tls = Tls::asking_clients(&certificate, &authority.pem()).unwrap();
    let (engine, address) = serving(tls).await;
    let known = authority.client("relay").unwrap();
    let mut stream = connect(address, &authority, Some(&known), &[])
        .await
        .unwrap();
    assert_eq!(ask(&mut stream).await.unwrap(), "HTTP/1.1 200 OK");
    let shown = engine.seen().requests[0]
        .tls
        .as_ref()
        .unwrap()
        .client
        .clone();
    let own = CertificateDer::from_pem_slice(known.certificate.as_bytes()).unwrap();
    assert_eq!(shown.as_deref(), Some(&*own));
    for own in [None, Some(stranger.client("relay").unwrap())] {
        // In TLS 1.3 the client may think itself connected before the engine has looked at its certificate.
        let asked = match connect(address, &authority, own.as_ref(), &[]).await {
            Ok(mut stream) => ask(&mut stream).await,
            Err(error) => Err(error),
        };
        assert!(asked.is_err(), "{asked:?}");
    }
    assert!(engine.wait_for(|seen| seen.refused == 2, DEADLINE).await);
}

#[tokio::test]
async fn http_2_is_agreed_on_and_spoken() {
    let authority = Authority::new("authority").unwrap();
    let certificate = authority.server(&["engine.test"]).unwrap();
    let tls = Tls::new(&certificate).unwrap().protocols(&["h2"]);
    let engine = Engine::start(Settings::default()).await.unwrap();
    let address = engine.open(Door::http2().with(tls)).await.unwrap();
    let stream = connect(address, &authority, None, &["h2", "http/1.1"])
        .await
        .unwrap();
    let client = Http2::over(stream).await;
    assert_eq!(client.ask("/nosuch", &[], "").await.status, 404);
    let seen = engine.seen();
    let request = &seen.requests[0];
    assert_eq!(
        request.tls.as_ref().unwrap().protocol.as_deref(),
        Some("h2")
    );
    assert!(request.stream.is_some());
    assert!(
        connect(address, &authority, None, &["http/1.1"])
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_through_tls() {
    let authority = Authority::new("authority").unwrap();
    let tls = Tls::new(&authority.server(&["engine.test"]).unwrap()).unwrap();
    let (engine, address) = serving(tls).await;
    let mut stream = connect(address, &authority, None, &[]).await.unwrap();
    stream
        .write_all(&chat(&order("ttft=1h"), ""))
        .await
        .unwrap();
    assert!(engine.wait_for(|seen| seen.running == 1, DEADLINE).await);
    drop(stream);
    assert!(engine.wait_for(|seen| seen.ended == 1, DEADLINE).await);
    let ending = engine.seen().requests[0].ended.unwrap().ending;
    assert_eq!(ending, Ending::ClientClosed { after_events: 0 });
}

#[test]
fn what_is_no_certificate_is_refused() {
    let authority = Authority::new("authority").unwrap();
    let good = authority.server(&["engine.test"]).unwrap();
    let other = authority.server(&["engine.test"]).unwrap();
    let mixed = Certificate {
        key: other.key,
        ..good.clone()
    };
    assert!(Tls::new(&mixed).is_err());
    let empty = Certificate {
        certificate: String::new(),
        ..good.clone()
    };
    assert!(Tls::new(&empty).is_err());
    assert!(Tls::asking_clients(&good, "nobody").is_err());
    assert!(authority.server(&["no name\u{e9}"]).is_err());
}
