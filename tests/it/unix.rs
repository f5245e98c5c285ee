//! Unix sockets, on both sides.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::certs::Folder;
use crate::harness::{Greylag, engines, sim, within};

const ASK: &[u8] = b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

async fn asked(path: &std::path::Path) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(ASK).await.unwrap();
    let mut answer = Vec::new();
    within("an answer", stream.read_to_end(&mut answer))
        .await
        .unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_socket_is_listened_on_with_its_mode_and_goes_at_the_end() {
    let folder = Folder::new();
    let path = folder.join("in.sock");
    let engine = sim().await;
    let rules = engines(&[("stable", engine.address())]).to_string();
    let listen = format!(
        "listen: [{{ address: \"unix:{}\", mode: \"0600\" }}]",
        path.display()
    );
    let greylag = Greylag::with(&listen, &rules);
    assert!(asked(&path).await.starts_with("HTTP/1.1 200"));
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // Nobody has an address there.
    assert_eq!(greylag.records_of(1).await[0].client, None);
    // Another does not take it away.
    let error = Greylag::try_with(&listen, &rules)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("cannot listen on") && error.contains("in.sock"),
        "{error}"
    );
    greylag.stop();
    assert!(!path.exists());
    // What a killed process left behind is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let _greylag = Greylag::with(&listen, &rules);
    assert!(asked(&path).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_engine_is_reached_on_its_socket() {
    let folder = Folder::new();
    let path = folder.join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let rules = serde_json::json!({
        "engines": { "a": { "kind": "vllm", "url": format!("unix:{}", path.display()), "host": "engine" } },
        "default_engine": "a",
    });
    let greylag = Greylag::start(&rules.to_string());
    let engine = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut asked).await.unwrap() == 0 {
                    break;
                }
            }
            let text = String::from_utf8(asked).unwrap();
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await;
            if text.starts_with("GET /x ") {
                return text;
            }
        }
    });
    let mut client = crate::harness::Client::to(greylag.address()).await;
    let answer = client.get("/x").await;
    assert_eq!((answer.status, answer.text()), (200, "ok".into()));
    assert!(
        engine
            .await
            .unwrap()
            .to_lowercase()
            .contains("host: localhost\r\n")
    );
    std::fs::remove_file(&path).unwrap();
    let mut client = crate::harness::Client::to(greylag.address()).await;
    let answer = client.get("/y").await;
    assert_eq!(
        answer.header("x-greylag-reason"),
        Some("engine_unreachable")
    );
}
