//! What becomes of rules by themselves: overlays end, and what could not be written is written again.

use std::sync::Arc;
use std::time::Duration;

use greylag_filters::units::Moment;
use tokio::time::sleep;

use super::{Ask, Refused, Store, Wish};

/// How often it is looked whether something has ended, and how long at most is waited between two attempts at what failed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Sees to it for as long as it is polled; `now` says when it is.
pub async fn tend(store: Arc<Store>, now: impl Fn() -> Moment) {
    let (usual, longest) = PAUSE;
    let mut pause = usual;
    // why an overlay could not be lifted, so that it is told once
    let mut told = None;
    loop {
        sleep(pause).await;
        let (held, at) = (store.clone(), now());
        if !store.has_ended(at) && store.unsaved().is_none() {
            (pause, told) = (usual, None);
            continue;
        }
        // The disk is waited for.
        let work = move || see_to(&held, at);
        let stays = tokio::task::spawn_blocking(work).await.unwrap_or_default();
        let is_done = stays.is_none() && store.unsaved().is_none();
        pause = if is_done {
            usual
        } else {
            (pause * 2).min(longest)
        };
        if stays != told
            && let Some(why) = &stays
        {
            tracing::warn!(name: "greylag.rules.overlay_stays", why, "an overlay whose time is over cannot be lifted: a file that the rules name cannot be used");
        }
        told = stays;
    }
}

// Why an overlay that should have ended has not.
fn see_to(store: &Store, at: Moment) -> Option<String> {
    store.save_again();
    match store.change(Ask::own(Wish::Expire, at)) {
        // Less on a base that compiles is a base that compiles: only files that rules name could be in the way.
        Err(Refused::Problems(problems)) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Some(problems.join("; "))
        }
        Ok(_)
        | Err(
            Refused::Nothing | Refused::Conflict { .. } | Refused::NoOverlay | Refused::NoVersion,
        ) => None,
    }
}
