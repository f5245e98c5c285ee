//! A running engine: its listener, its connections, and what may be asked of it from outside.
//!
//! In: settings, requests. Out: answers on the wire and what was seen. The task it starts, and all connections, end when
//! the value is stopped or dropped; nothing runs on after it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::exchange::{Next, exchange};
use crate::request::Head;
use crate::script::Script;
use crate::seen::{Ledger, Seen};
use crate::settings::Settings;
use crate::tally::Tally;
use crate::wire::Wire;

/// A running engine. It stops when dropped.
#[derive(Debug)]
pub struct Engine {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// What all connections of an engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: watch::Sender<Arc<Settings>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) tally: Tally,
    turns: AtomicU64,
    scripts: Mutex<Scripts>,
}

#[derive(Debug, Default)]
struct Scripts {
    queue: VecDeque<Script>,
    named: BTreeMap<String, Script>,
}

impl Engine {
    /// Starts an engine on a port of the kernel's choice on 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(settings: Settings) -> io::Result<Engine> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Engine::serve(listener, settings).await
    }

    /// Starts an engine that plays `scripts`, one a request, in order, and answers honestly once they are used up.
    /// GET and HEAD requests take none, so that probes do not use them up. See also [`Engine::add_script`].
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn scripted(scripts: impl IntoIterator<Item = Script>) -> io::Result<Engine> {
        let engine = Engine::start(Settings::default()).await?;
        engine.shared.scripts(|held| held.queue.extend(scripts));
        Ok(engine)
    }

    /// Starts an engine on `listener`.
    ///
    /// # Errors
    /// When the listener has no address.
    pub async fn serve(listener: TcpListener, settings: Settings) -> io::Result<Engine> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            settings: watch::Sender::new(Arc::new(settings)),
            ledger: Arc::default(),
            tally: Tally::default(),
            turns: AtomicU64::new(0),
            scripts: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(accept(listener, shared.clone(), stopped));
        Ok(Engine {
            address,
            shared,
            stop,
            task,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has seen until now.
    pub fn seen(&self) -> Seen {
        self.shared.ledger.seen()
    }

    /// Waits until what was seen satisfies `what`; false when `deadline` passes first.
    pub async fn wait_for(&self, what: impl Fn(&Seen) -> bool, deadline: Duration) -> bool {
        let mut look = self.shared.ledger.look();
        // The sender lives in `self`, so that only the deadline can end the wait in vain.
        timeout(deadline, look.wait_for(|seen| what(seen)))
            .await
            .is_ok_and(|seen| seen.is_ok())
    }

    /// Changes what the engine is like, from the next request on.
    pub fn set(&self, settings: Settings) {
        self.shared.settings.send_replace(Arc::new(settings));
    }

    /// Plays `script` to every request whose header `x-sim-script` is `name`.
    pub fn add_script(&self, name: &str, script: Script) {
        self.shared
            .scripts(|held| held.named.insert(name.to_owned(), script));
    }

    /// Closes the listener and all connections, and waits until they are closed.
    pub async fn stop(self) {
        let Engine { stop, task, .. } = self;
        // Both fail only when the task has ended already.
        let _ = stop.send(());
        let _ = task.await;
    }
}

impl Shared {
    /// The number of the next inference request, from 1.
    pub(crate) fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Relaxed) + 1
    }

    fn scripts<R>(&self, with: impl FnOnce(&mut Scripts) -> R) -> R {
        // Nothing that runs under the lock can leave it half changed.
        with(&mut self.scripts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The script for a request, if there is one; the name where it names one that is not there.
    pub(crate) fn script<'a>(&self, head: &'a Head) -> Result<Option<Script>, &'a str> {
        self.scripts(|held| match head.header("x-sim-script") {
            Some(name) => held.named.get(name).cloned().map(Some).ok_or(name),
            None if head.method == "GET" || head.method == "HEAD" => Ok(None),
            None => Ok(held.queue.pop_front()),
        })
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // Sent, or dropped with the engine: both mean stop.
            _ = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, shared.clone()))),
                // Out of file descriptors: some will be free soon.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let open = shared.ledger.connected();
    let mut wire = Wire::new(stream);
    // As in uvicorn, a connection that has not been used yet may wait as long as it likes.
    let mut used = false;
    loop {
        if wire.inbox.is_empty() {
            let idle = shared.settings.borrow().keep_alive_timeout.filter(|_| used);
            let first = match idle {
                Some(idle) => timeout(idle, wire.fill()).await,
                None => Ok(wire.fill().await),
            };
            if !matches!(first, Ok(Ok(()))) {
                break;
            }
        }
        used = true;
        match exchange(&mut wire, &shared, open.number).await {
            Next::Again => {}
            Next::Close => break,
            Next::Reset => return wire.reset().await,
        }
    }
    wire.close().await;
}
