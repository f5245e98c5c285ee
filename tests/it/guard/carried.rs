//! The admin API over a unix socket, over TLS, and off loopback.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::tokens::{ANN, lines};
use crate::admin::DEAD;
use crate::certs::{Authority, Folder, Pair};
use crate::harness::{Client, Greylag, within};

// Asks, and reads to the end.
async fn asked<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    host: &str,
    more: &str,
) -> std::io::Result<String> {
    let ask = format!("GET /v1/rules HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    let mut answer = Vec::new();
    within("an answer", stream.read_to_end(&mut answer)).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn over_unix(path: &Path, host: &str, more: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    asked(&mut stream, host, more).await.unwrap()
}

async fn over_tls(
    greylag: &Greylag,
    config: Arc<ClientConfig>,
    more: &str,
) -> std::io::Result<String> {
    let stream = TcpStream::connect(greylag.app().admin).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let shaking = TlsConnector::from(config).connect(name, stream);
    let mut stream = within("a handshake", shaking).await?;
    assert_ne!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    asked(&mut stream, "localhost", more).await
}

fn ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}

#[tokio::test]
async fn it_is_on_a_unix_socket_for_its_owner_alone_and_goes_at_the_end() {
    let folder = Folder::new();
    let path = folder.join("admin.sock");
    // What a killed process left behind is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let keys = format!("admin: {{ address: \"unix:{}\" }}", path.display());
    let greylag = Greylag::with(&keys, DEAD);
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // No browser reaches it, so any name will do that is one.
    for host in ["localhost", "admin.sock", "evil.example:1"] {
        assert!(ok(&over_unix(&path, host, "").await), "{host}");
    }
    let odd = over_unix(&path, "a b", "").await;
    assert!(
        odd.starts_with("HTTP/1.1 403 ") && odd.contains("host_not_allowed"),
        "{odd}"
    );
    // Another does not take it away.
    let error = Greylag::try_with(&keys, DEAD).err().unwrap().to_string();
    assert!(
        error.contains("cannot listen on") && error.contains("admin.sock"),
        "{error}"
    );
    assert!(ok(&over_unix(&path, "a", "").await));
    greylag.stop();
    assert!(!path.exists());

    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let keys = format!(
        "admin: {{ address: \"unix:{}\", mode: \"0640\", token_file: {:?} }}",
        path.display(),
        folder.join("tokens")
    );
    let _greylag = Greylag::with(&keys, DEAD);
    assert_eq!(mode(), 0o640);
    let bare = over_unix(&path, "a", "").await;
    assert!(bare.starts_with("HTTP/1.1 401 "), "{bare}");
    let token = format!("authorization: Bearer {ANN}\r\n");
    assert!(ok(&over_unix(&path, "a", &token).await));
}

fn tls(pair: &Pair, clients: Option<&Authority>, more: &str) -> String {
    let ca = clients.map_or(String::new(), |ca| format!(", client_ca: {:?}", ca.file()));
    format!(
        "admin: {{ address: \"127.0.0.1:0\"{more}, tls: {{ cert: {:?}, key: {:?}{ca} }} }}",
        pair.cert, pair.key
    )
}

#[tokio::test]
async fn it_speaks_http1_over_tls() {
    let authority = Authority::new();
    let pair = authority.sign("localhost");
    let greylag = Greylag::with(&tls(&pair, None, ""), DEAD);
    for alpn in [&[][..], &["http/1.1"], &["h2", "http/1.1"]] {
        let answer = over_tls(&greylag, authority.client(None, alpn), "")
            .await
            .unwrap();
        assert!(ok(&answer), "{answer}");
    }
    let client = || authority.client(None, &[]);
    let own = over_tls(&greylag, client(), "origin: https://localhost\r\n")
        .await
        .unwrap();
    assert!(ok(&own), "{own}");
    let plain = over_tls(&greylag, client(), "origin: http://localhost\r\n")
        .await
        .unwrap();
    assert!(plain.contains("origin_not_allowed"), "{plain}");
    // Another authority's word is not taken.
    let other = Authority::new().client(None, &[]);
    assert!(over_tls(&greylag, other, "").await.is_err());
    // Who speaks without TLS is told so, and holds up nobody.
    let silent = Client::to(greylag.app().admin).await;
    let mut bare = Client::to(greylag.app().admin).await;
    let answer = bare.get("/v1/rules").await;
    assert_eq!(
        (answer.status, &*answer.text()),
        (400, "TLS is spoken here, and this is without")
    );
    assert!(ok(&over_tls(&greylag, client(), "").await.unwrap()));
    drop(silent);
    // A new certificate is used by the next handshake.
    let second = Authority::new();
    let replaced = Pair {
        texts: second.sign("localhost").texts,
        ..pair
    };
    replaced.write();
    assert!(over_tls(&greylag, client(), "").await.is_err());
    let answer = over_tls(&greylag, second.client(None, &[]), "")
        .await
        .unwrap();
    assert!(ok(&answer), "{answer}");
}

#[tokio::test]
async fn it_asks_clients_for_certificates_and_for_tokens_too() {
    let authority = Authority::new();
    let folder = Folder::new();
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let more = format!(", token_file: {:?}", folder.join("tokens"));
    let keys = tls(&authority.sign("localhost"), Some(&authority), &more);
    let greylag = Greylag::with(&keys, DEAD);
    let token = format!("authorization: Bearer {ANN}\r\n");
    let shown = authority.sign("operator");
    let answer = over_tls(&greylag, authority.client(Some(&shown), &[]), &token)
        .await
        .unwrap();
    assert!(ok(&answer), "{answer}");
    let bare = over_tls(&greylag, authority.client(Some(&shown), &[]), "")
        .await
        .unwrap();
    assert!(bare.starts_with("HTTP/1.1 401 "), "{bare}");
    for stranger in [None, Some(Authority::new().sign("operator"))] {
        let config = authority.client(stranger.as_ref(), &[]);
        let answer = over_tls(&greylag, config, &token).await;
        // How the server minds a certificate shows only when something is read (TLS 1.3).
        assert!(!answer.is_ok_and(|answer| ok(&answer)));
    }
}

#[tokio::test]
async fn off_loopback_it_needs_tokens_and_takes_any_address_for_a_name() {
    let error = Greylag::try_with("admin: { address: \"0.0.0.0:0\" }", DEAD)
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("needs admin.token_file"),
        "{error}"
    );
    let folder = Folder::new();
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let keys = format!(
        "admin: {{ address: \"0.0.0.0:0\", token_file: {:?} }}",
        folder.join("tokens")
    );
    let greylag = Greylag::with(&keys, DEAD);
    let token = format!("authorization: Bearer {ANN}\r\n");
    let port = greylag.app().admin.port();
    for (host, status) in [
        ("10.1.2.3:9901", "200"),
        ("[fe80::1]", "200"),
        ("evil.example", "403"),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let answer = asked(&mut stream, host, &token).await.unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{host}: {answer}");
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let answer = asked(&mut stream, "127.0.0.1", "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}
