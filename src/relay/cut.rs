//! The end of the drain, as a connection sees it.
//!
//! In: a registry that the process cuts once. Out: a wait that ends when it does. Polling the wait takes no lock, so it
//! may stand in the wait for every token.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// All connections that are still to be told.
#[derive(Debug, Default)]
pub struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    cut: bool,
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

impl Registry {
    /// A connection's place; it leaves when it is dropped. Taken after the cut, it is cut at once.
    pub fn enter(self: &Arc<Self>) -> Cut {
        let (tell, told) = oneshot::channel();
        let mut inner = self.inner.lock();
        let place = inner.next;
        inner.next += 1;
        if !inner.cut {
            inner.waiting.insert(place, tell);
        }
        Cut {
            registry: self.clone(),
            place,
            told: Some(told),
        }
    }

    /// Ends every wait, now and from now on.
    pub fn cut(&self) {
        let mut inner = self.inner.lock();
        inner.cut = true;
        inner.waiting.clear();
    }
}

/// One connection's place in the [`Registry`].
#[derive(Debug)]
pub struct Cut {
    registry: Arc<Registry>,
    place: u64,
    // none once it has been told
    told: Option<oneshot::Receiver<()>>,
}

impl Cut {
    /// Ends when the registry is cut. Cancel-safe, and may be called again.
    pub async fn come(&mut self) {
        if let Some(told) = &mut self.told {
            // The sender only ever goes away: that is the message.
            let _ = told.await;
            self.told = None;
        }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.registry.inner.lock().waiting.remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cut_reaches_those_who_wait_and_those_who_come_later() {
        let registry = Arc::new(Registry::default());
        let mut early = registry.enter();
        drop(registry.enter());
        assert_eq!(registry.inner.lock().waiting.len(), 1);
        let waiting = tokio::spawn(async move {
            early.come().await;
            early.come().await;
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        registry.cut();
        waiting.await.unwrap();
        registry.enter().come().await;
    }
}
