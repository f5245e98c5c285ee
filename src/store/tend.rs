//! What becomes of rules by themselves: overlays end, and what could not be written is written again.

use std::sync::Arc;
use std::time::Duration;

use greylag_filters::units::Moment;
use tokio::time::{MissedTickBehavior, interval};

use super::{Ask, Store, Wish};

/// How often it is looked whether something has ended.
const PAUSE: Duration = Duration::from_millis(500);

/// Sees to it for as long as it is polled; `now` says when it is.
pub async fn tend(store: Arc<Store>, now: impl Fn() -> Moment) {
    let mut look = interval(PAUSE);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let (store, at) = (store.clone(), now());
        let ended = store.has_ended(at);
        if ended || store.unsaved().is_some() {
            // The disk is waited for.
            let work = move || see_to(&store, ended, at);
            let _ = tokio::task::spawn_blocking(work).await;
        }
    }
}

fn see_to(store: &Store, ended: bool, at: Moment) {
    store.save_again();
    // Less on a base that compiles is a base that compiles: only files that rules name could be in the way, and then until they
    // are right again.
    if ended && store.change(Ask::own(Wish::Expire, at)).is_err() {
        tracing::warn!(name: "greylag.rules.overlay_stays", "an overlay whose time is over cannot be lifted: a file that the rules name cannot be used");
    }
}
