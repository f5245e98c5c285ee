use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

// An API that answers one request with these bytes and closes; what it was asked.
async fn answering(bytes: &'static [u8]) -> (Api, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 4096];
        let length = socket.read(&mut asked).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        String::from_utf8(asked[..length].to_vec()).unwrap()
    });
    (Api::at(address), asked)
}

#[tokio::test]
async fn an_answer_is_read_with_its_fields_however_it_is_framed() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nETag: \"1-2\"\r\ncontent-length: 2\r\n\r\n{}"[..],
        b"HTTP/1.1 200 OK\r\nETag: \"1-2\"\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nETag: \"1-2\"\r\nconnection: close\r\n\r\n{}",
    ] {
        let (api, _asked) = answering(bytes).await;
        let answer = api.get("/v1/rules").await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("etag"), Some("\"1-2\""));
        assert_eq!(answer.header("x-none"), None);
        assert_eq!(answer.json().unwrap(), serde_json::json!({}));
    }
}

#[tokio::test]
async fn what_is_asked_names_the_host_and_who_asks() {
    let (api, asked) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let mut token = HeaderValue::from_static("Bearer abc");
    token.set_sensitive(true);
    let api = Api::of(api.target().clone(), Trust::default(), Some(token));
    assert!(!format!("{api:?}").contains("abc"), "{api:?}");
    let tag = HeaderValue::from_static("\"1-2\"");
    let ask = Ask::put("/v1/rules", "{}".to_owned()).expecting(Some(&tag));
    api.ask(ask).await.unwrap();
    let asked = asked.await.unwrap();
    let authority = api.target().authority();
    for part in [
        "PUT /v1/rules HTTP/1.1\r\n",
        &format!("host: {authority}\r\n"),
        "authorization: Bearer abc\r\n",
        "content-type: application/json\r\n",
        "if-match: \"1-2\"\r\n",
        "content-length: 2\r\n",
        "\r\n\r\n{}",
    ] {
        assert!(asked.contains(part), "{part:?} is not in {asked:?}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_told_apart_from_none() {
    let (api, _asked) = answering(b"garbage\r\n\r\n").await;
    let fault = api.get("/").await.unwrap_err();
    assert!(matches!(fault, Fault::Nonsense { .. }), "{fault}");
    for cut in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
    ] {
        let (api, _asked) = answering(cut).await;
        let fault = api.get("/").await.unwrap_err();
        assert!(matches!(fault, Fault::Broken { .. }), "{fault}");
        assert!(fault.was_asked());
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = Api::at(nobody.local_addr().unwrap());
    drop(nobody);
    let fault = api.get("/").await.unwrap_err().to_string();
    let name = api.name();
    assert!(
        fault.starts_with(&format!("{name} cannot be reached: ")),
        "{fault}"
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_without_an_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = Api::at(listener.local_addr().unwrap());
    let fault = api.get("/").await.unwrap_err();
    assert!(
        fault.to_string().ends_with("did not answer within 10s"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_stream_is_read_as_it_comes_and_a_refusal_whole() {
    let (api, _asked) = answering(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    )
    .await;
    let Streamed::Stream(mut stream) = api.stream(Ask::get("/v1/events")).await.unwrap() else {
        panic!("found an answer with an end");
    };
    let mut all = Vec::new();
    while let Some(bytes) = stream.next().await.unwrap() {
        all.extend_from_slice(&bytes);
    }
    assert_eq!(all, b"abcde");
    let (api, _asked) = answering(b"HTTP/1.1 429 No\r\ncontent-length: 2\r\n\r\n{}").await;
    let Streamed::Answer(answer) = api.stream(Ask::get("/v1/events")).await.unwrap() else {
        panic!("found a stream");
    };
    assert_eq!((answer.status, answer.text().as_str()), (429, "{}"));
}
