//! Clients of HTTP/2 whose frames are written by hand: heads that no library would send, and peers that fall silent.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Greylag, asked, engines, sim, within};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

fn before(engine: std::net::SocketAddr) -> Greylag {
    let keys = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]\nlimits: { drain_wait: 0s, drain: 20s }";
    Greylag::with(keys, &engines(&[("stable", engine)]).to_string())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

// Literals that nobody indexes (RFC 7541 §6.2.2), each shorter than 127 bytes.
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            out.push(u8::try_from(text.len()).unwrap());
            out.extend(text.as_bytes());
        }
    }
    out
}

async fn greeted(greylag: &Greylag, greeting: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(greylag.address()).await.unwrap();
    socket.write_all(greeting).await.unwrap();
    socket
}

// Reads up to the next frame of this kind; its payload.
async fn next(socket: &mut TcpStream, wanted: u8) -> Vec<u8> {
    within("a frame", async {
        loop {
            let mut head = [0; 9];
            socket.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            socket.read_exact(&mut payload).await.unwrap();
            if head[3] == wanted {
                return payload;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_request_with_two_hosts_or_none_that_is_one_is_refused() {
    let engine = sim().await;
    let greylag = before(engine.address());
    let greeting = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for (said, passes) in [
        (&[("host", "a"), ("host", "b")][..], false),
        (&[("host", "a"), ("host", "a")], false),
        (&[(":authority", "a"), ("host", "b")], false),
        (&[(":authority", "a"), ("host", "a"), ("host", "b")], false),
        (&[(":authority", "user:secret@a")], false),
        (&[("host", "a b")], false),
        (&[(":authority", "a"), ("host", "A")], true),
        (&[("host", "a:80")], true),
    ] {
        let mut head = vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/v1/models"),
        ];
        head.extend(said);
        let mut socket = greeted(&greylag, &greeting).await;
        let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields(&head));
        socket.write_all(&request).await.unwrap();
        let answer = next(&mut socket, HEADERS).await;
        // Of HPACK's table of statuses 200 is the eighth entry, and 400 the twelfth.
        let expected = if passes { 0x88 } else { 0x8c };
        assert_eq!(answer[0], expected, "{said:?}");
    }
    for request in asked(&engine) {
        assert_eq!(crate::harness::all(&request, "host").len(), 1);
    }
}

#[tokio::test]
async fn a_client_that_answers_no_goodbye_does_not_hold_the_drain() {
    let engine = sim().await;
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
    for greeting in [PREFACE.to_vec(), [PREFACE, &settings].concat()] {
        let greylag = before(engine.address());
        let mut socket = greeted(&greylag, &greeting).await;
        next(&mut socket, SETTINGS).await;
        let app = greylag.into_app();
        let stopping = tokio::task::spawn_blocking(move || app.stop());
        // It asks for an answer, and gets none.
        next(&mut socket, PING).await;
        let cut = within("its end", stopping).await.unwrap();
        // A connection that held the drain would have been cut, and counted, when its limit had passed.
        assert_eq!(cut, 0);
    }
}
