//! Looks after the engines beside the traffic: whether they are well, where their names lead, and which models they serve.
//!
//! In: the rules in force. Out: health, addresses and models in their [`Target`]s. Each engine is looked after by a task of
//! its own, so that one that hangs keeps nobody waiting; rules that leave an engine as it is leave its task alone. Requests
//! go over connections of their own and never over an exchange's.

use std::sync::Arc;
use std::time::Duration;

use greylag_filters::meter::Offset;
use serde::Deserialize;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::probe::{self, Charge};
use super::{Broken, Target};
use crate::relay::Shared;

/// How often names are resolved anew and models are asked for.
const PAUSE: Duration = Duration::from_secs(30);
/// How long the resolver, and an engine's list of models, is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// After a connection was not to be had its name is resolved anew, but not more often than this.
const AGAIN: Duration = Duration::from_millis(200);
/// The longest list of models that is read, in bytes.
const LONGEST: usize = 256 << 10;
/// So many models of one engine, and so many bytes of a model's name, are taken.
const MOST: (usize, usize) = (64, 256);

/// Looks after the engines of whatever rules are in force, for as long as it is polled.
pub async fn watch(shared: Arc<Shared>) {
    let mut tasks = JoinSet::new();
    let mut running: Vec<(Charge, AbortHandle)> = Vec::new();
    loop {
        let snapshot = shared.store.current();
        shared.telemetry.models.learn(&snapshot);
        let wanted = Charge::all(&snapshot);
        running.retain(|(charge, task)| {
            let stays = wanted.iter().any(|wanted| wanted.is(charge));
            if !stays {
                task.abort();
            }
            stays
        });
        for charge in wanted {
            if !running.iter().any(|(other, _)| other.is(&charge)) {
                let task = tasks.spawn(look_after(shared.clone(), charge.clone()));
                running.push((charge, task));
            }
        }
        // What was aborted is let go of.
        while tasks.try_join_next().is_some() {}
        shared.store.changed(snapshot.version).await;
    }
}

// Never ends by itself.
async fn look_after(shared: Arc<Shared>, charge: Charge) {
    let target = &charge.target;
    loop {
        let renew = shared.origin.now() + PAUSE;
        let _ = timeout(PATIENCE, target.resolve()).await;
        if !charge.is_grpc {
            learn(&shared, &charge).await;
        }
        while shared.origin.now() < renew {
            probe::probe(&shared.origin, &charge).await;
            let next = shared.origin.now() + charge.probe.interval;
            rest(&shared, target, next.min(renew)).await;
        }
    }
}

// Waits until then. Who finds no connection meanwhile has the name resolved anew.
async fn rest(shared: &Shared, target: &Target, until: Offset) {
    loop {
        let left = until.saturating_sub(shared.origin.now());
        if left.is_zero() {
            return;
        }
        tokio::select! {
            () = sleep(left) => {}
            () = target.standing.missed() => {
                let _ = timeout(PATIENCE, target.resolve()).await;
                sleep(AGAIN.min(left)).await;
            }
        }
    }
}

async fn learn(shared: &Shared, charge: &Charge) {
    if let Ok(Ok(Some(models))) = timeout(PATIENCE, models(shared, charge)).await {
        charge.target.set_models(models);
        shared.telemetry.models.learn(&shared.store.current());
    }
}

// The models that the engine says it serves; none where it says something else, or nothing that can be read.
async fn models(shared: &Shared, charge: &Charge) -> Result<Option<Vec<Box<str>>>, Broken> {
    let clock = &shared.origin;
    let (mut call, status) = probe::ask(clock, charge, "/v1/models", PATIENCE).await?;
    if status != 200 {
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

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
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
}
