//! The ways to an API: by TLS with certificates, by a unix socket, with a token; and the token stays a secret.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use super::fake::Fake;
use super::{ctl, nobody};
use crate::certs::{Authority, Folder};
use crate::commands::{File, with};

const ANSWER: &str =
    "HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\n{\"splits\": []}\n";

async fn answer(mut socket: impl AsyncRead + AsyncWrite + Unpin) -> String {
    let mut bytes = vec![0; 4096];
    let length = socket.read(&mut bytes).await.unwrap_or_default();
    let _ = socket.write_all(ANSWER.as_bytes()).await;
    let _ = socket.shutdown().await;
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn an_api_behind_tls_is_asked_by_those_who_trust_it_and_show_who_they_are() {
    let runtime = Runtime::new().unwrap();
    let authority = Authority::new();
    let config = authority.sign("localhost").server(Some(&authority), &[]);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::clone(&config));
        while let Ok((socket, _)) = listener.accept().await {
            if let Ok(socket) = acceptor.accept(socket).await {
                answer(socket).await;
            }
        }
    });
    let admin = format!("https://localhost:{port}");
    let (ca, shown) = (authority.file(), authority.sign("somebody"));
    let (ca, cert, key) = (
        ca.to_str().unwrap(),
        shown.cert.to_str().unwrap(),
        shown.key.to_str().unwrap(),
    );
    let ask = |more: &[&str]| {
        let mut arguments = vec!["ctl", "--admin", &admin, "split"];
        arguments.extend(more);
        with(&arguments, &[])
    };
    let (code, out, err) = ask(&["--ca", ca, "--cert", cert, "--key", key]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (Some(0), "the rules have no splits\n", "")
    );
    // Who shows nothing, and who trusts somebody else.
    let other = Authority::new();
    let other = other.file();
    for more in [
        &["--ca", ca][..],
        &[
            "--ca",
            other.to_str().unwrap(),
            "--cert",
            cert,
            "--key",
            key,
        ],
    ] {
        let (code, _, err) = ask(more);
        assert_eq!(code, Some(69), "{err}");
        // What it hears of it depends on how fast the other side hangs up.
        assert!(err.starts_with(&admin), "{err}");
        assert!(err.contains("do --ca, --cert and --key fit?"), "{err}");
    }
    let (code, _, err) = ask(&["--cert", cert]);
    assert_eq!(code, Some(64), "{err}");
}

#[test]
fn an_api_on_a_unix_socket_is_asked() {
    let runtime = Runtime::new().unwrap();
    let folder = Folder::new();
    let path = folder.join("admin.sock");
    let listener = runtime
        .block_on(async { UnixListener::bind(&path) })
        .unwrap();
    let asked = runtime.spawn(async move { answer(listener.accept().await.unwrap().0).await });
    let admin = format!("unix:{}", path.display());
    let (code, out, err) = with(&["ctl", "--admin", &admin, "split"], &[]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (Some(0), "the rules have no splits\n", "")
    );
    let asked = runtime.block_on(asked).unwrap();
    assert!(asked.contains("\r\nhost: localhost\r\n"), "{asked}");
    let gone = format!("unix:{}", folder.join("gone.sock").display());
    let (code, _, err) = with(&["ctl", "--admin", &gone, "split"], &[]);
    assert_eq!(code, Some(69));
    assert!(
        err.starts_with(&format!("{gone} cannot be reached: No such file")),
        "{err}"
    );
}

#[test]
fn a_token_comes_from_a_file_and_goes_nowhere_else() {
    let fake = Fake::answering(200, "{\"splits\": []}");
    let file = File::new("s3cret-token\n");
    let admin = format!("http://{}", fake.address);
    let variables = [
        ("GREYLAG_CTL_ADMIN", admin.as_str()),
        ("GREYLAG_CTL_TOKEN_FILE", file.path()),
    ];
    let (code, out, err) = with(&["ctl", "split"], &variables);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(!out.contains("s3cret"), "{out}");
    let asked = fake.asked();
    assert!(
        asked[0].contains("\r\nauthorization: Bearer s3cret-token\r\n"),
        "{asked:?}"
    );

    // Not in the clear to another machine.
    let elsewhere = [
        "ctl",
        "--admin",
        "http://192.0.2.1:9901",
        "--token-file",
        file.path(),
        "status",
    ];
    let (code, _, err) = with(&elsewhere, &[]);
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("over https alone"), "{err}");
    // What is no token is not shown either.
    let bad = File::new("s3cret token\nmore\n");
    for (path, part) in [
        (bad.path(), "found no token"),
        ("/nowhere/token", "No such file"),
    ] {
        let (code, out, err) = with(&["ctl", "--token-file", path, "status"], &[]);
        assert_eq!((code, out.as_str()), (Some(71), ""), "{err}");
        assert!(
            err.starts_with(&format!("{path}: ")) && err.contains(part),
            "{err}"
        );
        assert!(!err.contains("s3cret"), "{err}");
    }
    let (_, help, _) = with(&["ctl", "--help"], &variables);
    assert!(!help.contains(file.path()), "{help}");
    let (_, _, err) = ctl(&[nobody()], &["status"]);
    assert!(!err.contains("s3cret"), "{err}");
}
