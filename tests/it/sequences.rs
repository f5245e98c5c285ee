//! Requests of a sequence stay with its engine within calls of many requests too.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use greylag_filters::rules::How;
use serde_json::json;

use crate::h2::{Hand, Peer, write};
use crate::harness::{Greylag, engines};

const LISTEN: &str = "listen: [{ address: \"127.0.0.1:0\", protocol: h2c }]";
const STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// A `ModelInferRequest` of model `m` in this sequence, with its prefix.
fn request(sequence: u8, starts: bool) -> Vec<u8> {
    let parameter = |name: &str, value: [u8; 2]| {
        let length = u8::try_from(name.len()).unwrap();
        let entry = [&[0x0a, length][..], name.as_bytes(), &[0x12, 2], &value].concat();
        [&[0x22, u8::try_from(entry.len()).unwrap()][..], &entry].concat()
    };
    let message = [
        &[0x0a, 1, b'm'][..],
        &parameter("sequence_id", [0x10, sequence]),
        &parameter("sequence_start", [0x08, u8::from(starts)]),
    ]
    .concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &message].concat()
}

#[tokio::test]
async fn a_call_goes_where_the_sequence_of_its_first_request_was_begun() {
    let (mut one, mut two) = (Hand::start().await, Hand::start().await);
    let mut rules = engines(&[("one", one.address()), ("two", two.address())]);
    for (name, hand) in [("one", &one), ("two", &two)] {
        rules["engines"][name]["kind"] = "triton".into();
        rules["engines"][name]["grpc"] = format!("http://{}", hand.address()).into();
    }
    rules["splits"] = json!([
        { "name": "s", "weights": { "one": 1, "two": 1 }, "force": { "header": "x-force" } },
    ]);
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let mut peer = Peer::to(greylag.address()).await;
    let mut open = Vec::new();
    // Two sequences that begin in one call, the second of them behind the first; and one in a call to the other engine.
    for (to, sequences) in [("one", &[1_u8, 2][..]), ("two", &[3])] {
        let mut asking = peer
            .ask("POST", STREAM_INFER, &[GRPC, ("x-force", to)])
            .await;
        for sequence in sequences {
            write(&mut asking.out, &request(*sequence, true))
                .await
                .unwrap();
        }
        let hand = if to == "one" { &mut one } else { &mut two };
        let mut call = hand.call().await;
        let mut heard = Vec::new();
        while heard.len() < sequences.len() * request(1, true).len() {
            heard.extend_from_slice(&call.body.data().await.unwrap().unwrap());
        }
        open.push((asking, call));
    }
    // What goes on with them goes there, wherever it would go otherwise, and is not begun anew by others in its call.
    for (sequence, elsewhere) in [(1, "two"), (2, "two"), (3, "one")] {
        let mut asking = peer
            .ask("POST", STREAM_INFER, &[GRPC, ("x-force", elsewhere)])
            .await;
        write(&mut asking.out, &request(sequence, false))
            .await
            .unwrap();
        write(&mut asking.out, &request(4 - sequence, false))
            .await
            .unwrap();
        let hand = if elsewhere == "two" {
            &mut one
        } else {
            &mut two
        };
        let call = hand.call().await;
        open.push((asking, call));
    }
    drop(open);
    let records = greylag.records_of(5).await;
    let followed = records
        .iter()
        .filter(|record| record.how == Some(How::Sequence));
    assert_eq!(followed.count(), 3);
    assert!(
        records
            .iter()
            .all(|record| record.model.as_deref() == Some("m"))
    );
}

#[tokio::test]
async fn a_client_may_open_a_call_and_ask_later() {
    let (mut one, two) = (Hand::start().await, Hand::start().await);
    let mut rules = engines(&[("one", one.address()), ("two", two.address())]);
    rules["engines"]["one"]["grpc"] = format!("http://{}", one.address()).into();
    rules["default_engine"] = "one".into();
    let greylag = Greylag::with(LISTEN, &rules.to_string());
    let mut peer = Peer::to(greylag.address()).await;
    let mut asking = peer.ask("POST", STREAM_INFER, &[GRPC]).await;
    // Half a message, and the rest once it is known to have been heard: by the next call, which is all there is of it.
    let message = request(1, true);
    write(&mut asking.out, &message[..7]).await.unwrap();
    let whole = async { peer.whole("POST", STREAM_INFER, &[GRPC], &[]).await };
    let refuse = async {
        let mut call = one.call().await;
        let head = http::Response::builder().header("grpc-status", "0");
        call.respond
            .send_response(head.body(()).unwrap(), true)
            .unwrap();
    };
    assert!(tokio::join!(whole, refuse).0.is_ok());
    write(&mut asking.out, &message[7..]).await.unwrap();
    let mut call = one.call().await;
    let mut heard = Vec::new();
    while heard.len() < message.len() {
        heard.extend_from_slice(&call.body.data().await.unwrap().unwrap());
    }
    assert_eq!(heard, message);
    // One that leaves before it has asked leaves one record too.
    drop((asking, call));
    let waiting = peer.ask("POST", STREAM_INFER, &[GRPC]).await;
    drop(waiting);
    greylag.records_of(3).await;
    drop(two);
}
