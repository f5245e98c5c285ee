//! gRPC's health service, as far as it is asked about Greylag itself.
//!
//! In: a `Check` (grpc.health.v1). Out: whether Greylag serves, if the service that is asked about is `greylag`; every other
//! check is the engine's to answer.

use std::sync::atomic::Ordering;

use greylag_filters::grpc::{Splitter, Status};
use greylag_filters::outcome::End;
use greylag_filters::protobuf::{Fields, Value};
use http::HeaderMap;
use pingora_http::{RequestHeader, ResponseHeader};

use super::body::Body;
use super::client::Client;
use super::stop::Stop;
use super::{Worker, call};
use crate::exchange::Exchange;

/// The service that is asked about.
const US: &[u8] = b"greylag";

/// Whether a request is a health check of gRPC.
pub fn is_check(head: &RequestHeader) -> bool {
    call::is_grpc(head) && head.raw_path() == b"/grpc.health.v1.Health/Check"
}

/// Whether it asks about Greylag.
pub fn is_ours(head: &RequestHeader, body: &Body) -> bool {
    let Body::Whole(bytes, _) = body else {
        return false;
    };
    let mut asks = false;
    if is_check(head) {
        Splitter::new(bytes.len()).feed(bytes, |message| {
            asks = !message.compressed && service(message.bytes) == Some(US);
        });
    }
    asks
}

// Field 1 of a `HealthCheckRequest`; of several the last one stands.
fn service(message: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    for field in Fields::of(message) {
        // Of a message that cannot be read nothing is known.
        let Ok(field) = field else { return None };
        if let (1, Value::Bytes(name)) = (field.number, field.value) {
            found = Some(name);
        }
    }
    found
}

/// Answers it.
pub async fn answer(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut Client,
) -> Result<(), Stop> {
    let mut head = ResponseHeader::build_no_case(200, Some(2)).expect("200 is a status");
    head.insert_header("content-type", "application/grpc")
        .expect("a name and a value of ours are valid");
    exchange.record.status = Some(200);
    exchange.record.grpc_status = Some(Status::Ok);
    client.write_head(Box::new(head), false);
    let is_ending = worker.shared.draining.load(Ordering::Relaxed);
    let written = client.write(&message(is_ending)).await;
    written.map_err(|gone| Stop::left(exchange, gone))?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let finished = client.finish(Some(trailers)).await;
    finished.map_err(|gone| Stop::left(exchange, gone))?;
    exchange.ended(End::Complete, None);
    Ok(())
}

// A `HealthCheckResponse` with its prefix: SERVING is 1, NOT_SERVING 2.
fn message(is_ending: bool) -> [u8; 7] {
    [0, 0, 0, 0, 2, 0x08, 1 + u8::from(is_ending)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_the_first_field() {
        assert_eq!(service(b"\x0a\x07greylag"), Some(US));
        assert_eq!(service(b""), None);
        assert_eq!(service(b"\x12\x07greylag"), None);
        assert_eq!(service(b"\x0a\x01a\x0a\x07greylag"), Some(US));
        assert_eq!(service(b"\x0a\x09greylag"), None);
    }

    #[test]
    fn who_drains_does_not_serve() {
        assert_eq!(message(false), [0, 0, 0, 0, 2, 8, 1]);
        assert_eq!(message(true), [0, 0, 0, 0, 2, 8, 2]);
    }
}
