//! Looks after the engines beside the traffic: where their names lead, and which models they serve.
//!
//! In: the rules in force. Out: addresses and models in their [`Target`]s, renewed now and then. Its requests
//! (`GET /v1/models`) go over connections of its own and never over an exchange's.

use std::sync::Arc;
use std::time::Duration;

use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_http::RequestHeader;
use serde::Deserialize;
use tokio::time::timeout;

use super::{Broken, Call, Target};
use crate::snapshot::Store;
use crate::telemetry::Telemetry;

/// How often engines are looked after.
const PAUSE: Duration = Duration::from_secs(30);
/// How long one engine's answer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest list of models that is read, in bytes.
const LONGEST: usize = 256 << 10;
/// So many models of one engine, and so many bytes of a model's name, are taken.
const MOST: (usize, usize) = (64, 256);

/// Looks after the engines of whatever rules are in force, for as long as it is polled.
pub async fn watch(store: Arc<Store>, telemetry: Arc<Telemetry>) {
    let pool = TransportConnector::new(Some(ConnectorOptions::new(0)));
    loop {
        let snapshot = store.current();
        telemetry.models.learn(&snapshot);
        for target in snapshot.targets() {
            let _ = timeout(PATIENCE, target.resolve()).await;
            if let Ok(Ok(models)) = timeout(PATIENCE, ask(&pool, target)).await {
                target.set_models(models);
            }
            // Others may be in force by now.
            telemetry.models.learn(&store.current());
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = store.changed(snapshot.version) => {}
        }
    }
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

async fn ask(pool: &TransportConnector, target: &Target) -> Result<Vec<Box<str>>, Broken> {
    let mut call = Call::open(pool, target, PATIENCE, true).await?;
    call.write_head(question(target).ok_or(Broken::Garbage)?)
        .await?;
    call.finish().await?;
    call.read_head().await?;
    if call.head().status != 200 {
        return Ok(Vec::new());
    }
    let mut page = Vec::new();
    while let Some(piece) = call.read().await? {
        page.extend_from_slice(piece);
        if page.len() > LONGEST {
            return Ok(Vec::new());
        }
    }
    Ok(read(&page))
}

fn question(target: &Target) -> Option<Box<RequestHeader>> {
    let mut head = RequestHeader::build("GET", b"/v1/models", Some(3)).ok()?;
    head.insert_header("host", target.address.authority())
        .ok()?;
    head.insert_header("user-agent", concat!("greylag/", env!("CARGO_PKG_VERSION")))
        .ok()?;
    head.insert_header("connection", "close").ok()?;
    Some(Box::new(head))
}

fn read(page: &[u8]) -> Vec<Box<str>> {
    let (most, longest) = MOST;
    let Ok(models) = serde_json::from_slice::<Models>(page) else {
        return Vec::new();
    };
    models
        .data
        .into_iter()
        .map(|model| model.id.into_boxed_str())
        .filter(|id| (1..=longest).contains(&id.len()))
        .take(most)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models_is_read_within_bounds() {
        let ids = |page: &str| {
            read(page.as_bytes())
                .iter()
                .map(|id| id.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ids(r#"{"object":"list","data":[{"id":"tiny","object":"model"},{"id":"lora"}]}"#),
            ["tiny", "lora"]
        );
        assert!(ids(r#"{"error":"Unauthorized"}"#).is_empty());
        assert!(ids("<html>").is_empty());
        let many: Vec<_> = (0..100)
            .map(|i| serde_json::json!({ "id": format!("m{i}") }))
            .collect();
        assert_eq!(
            ids(&serde_json::json!({ "data": many }).to_string()).len(),
            64
        );
        let long = "x".repeat(300);
        assert!(ids(&serde_json::json!({ "data": [{ "id": long }] }).to_string()).is_empty());
    }
}
