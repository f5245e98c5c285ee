//! Looks after the engines beside the traffic: where their names lead, and which models they serve.
//!
//! In: the rules in force. Out: addresses and models in their [`Target`]s, renewed now and then. Its requests
//! (`GET /v1/models`) go over connections of its own and never over an exchange's.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use greylag_filters::framing::Framing;
use pingora_http::RequestHeader;
use serde::Deserialize;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::{Broken, Call, Pool, Reach, Target};
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
    let mut away = HashSet::new();
    loop {
        let snapshot = store.current();
        telemetry.models.learn(&snapshot);
        for target in snapshot.targets() {
            let _ = timeout(PATIENCE, target.resolve()).await;
            let asked = timeout(PATIENCE, ask(target)).await;
            if let Ok(Ok(Some(models))) = &asked {
                target.set_models(models.clone());
            }
            tell(&mut away, target, &asked);
            // Others may be in force by now.
            telemetry.models.learn(&store.current());
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = store.changed(snapshot.version) => {}
        }
    }
}

// Says once that an engine cannot be reached, and once that it can again. Exchanges find that out for themselves: this is
// for whoever looks at the log before there are any.
fn tell<T>(
    away: &mut HashSet<Arc<str>>,
    target: &Target,
    asked: &Result<Result<T, Broken>, Elapsed>,
) {
    let engine = &target.name;
    match asked {
        Ok(Err(Broken::Unreachable(error))) => {
            if away.insert(engine.clone()) {
                tracing::warn!(%engine, error, "an engine cannot be reached");
            }
        }
        Ok(_) => {
            if away.remove(engine) {
                tracing::info!(%engine, "an engine can be reached again");
            }
        }
        // A slow engine is there; one that takes no connection is told of by the next question that ends.
        Err(_) => {}
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

// The models that the engine says it serves; none where it says something else, or nothing that can be read.
async fn ask(target: &Target) -> Result<Option<Vec<Box<str>>>, Broken> {
    // Its connection ends with the question.
    let pool = Pool::default();
    let mut call = Call::open(&pool, target, PATIENCE, Reach::Fresh).await?;
    let question = question(target).ok_or(Broken::Garbage)?;
    call.write_head(&question, Framing::None)?;
    if call.read_head().await?.status != 200 {
        return Ok(None);
    }
    let mut page = Vec::new();
    while call.read(&mut page).await? {
        if page.len() > LONGEST {
            return Ok(None);
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

fn read(page: &[u8]) -> Option<Vec<Box<str>>> {
    let (most, longest) = MOST;
    let models: Models = serde_json::from_slice(page).ok()?;
    let ids = models
        .data
        .into_iter()
        .map(|model| model.id.into_boxed_str());
    let named = ids.filter(|id| (1..=longest).contains(&id.len()));
    Some(named.take(most).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Speaks;

    #[test]
    fn a_list_of_models_is_read_within_bounds() {
        let ids = |page: &str| {
            let read = read(page.as_bytes())?;
            Some(read.iter().map(|id| id.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(
            ids(r#"{"object":"list","data":[{"id":"tiny","object":"model"},{"id":"lora"}]}"#),
            Some(vec!["tiny".into(), "lora".into()])
        );
        // What is no list leaves the models as they were known.
        assert_eq!(ids(r#"{"error":"Unauthorized"}"#), None);
        assert_eq!(ids("<html>"), None);
        assert_eq!(ids(r#"{"data":[]}"#), Some(vec![]));
        let many: Vec<_> = (0..100)
            .map(|i| serde_json::json!({ "id": format!("m{i}") }))
            .collect();
        let many = ids(&serde_json::json!({ "data": many }).to_string());
        assert_eq!(many.map(|ids| ids.len()), Some(64));
        let long = serde_json::json!({ "data": [{ "id": "x".repeat(300) }] });
        assert_eq!(ids(&long.to_string()), Some(vec![]));
    }

    #[test]
    fn an_engine_that_is_away_is_told_of_once() {
        let rules: greylag_filters::rules::Rules = serde_json::from_value(serde_json::json!({
            "engines": { "a": { "kind": "vllm", "url": "http://127.0.0.1:1" } },
            "default_engine": "a",
        }))
        .unwrap();
        let compiled = greylag_filters::rules::compile(&rules).unwrap();
        let engine = &compiled.engines()[0];
        let target = Target::new(
            engine.name.clone(),
            engine.address.clone(),
            Speaks::Http1,
            &engine.tls,
        );
        let mut away = HashSet::new();
        let gone = || Ok(Err::<(), _>(Broken::Unreachable("refused".into())));
        tell(&mut away, &target, &gone());
        tell(&mut away, &target, &gone());
        assert_eq!(away.len(), 1);
        // Whatever it answers, it is there.
        tell(&mut away, &target, &Ok(Err::<(), _>(Broken::Closed)));
        assert!(away.is_empty());
    }
}
