//! A running engine: its doors, what its connections share, and what may be asked of it from outside.
//!
//! In: settings, requests. Out: answers on the wire and what was seen. The tasks it starts, and all connections, end when
//! the value is stopped or dropped; nothing runs on after it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::door::{self, Door, Listener};
use crate::frames::Frames;
use crate::queue::Queue;
use crate::script::Script;
use crate::seen::{Ledger, Seen};
use crate::settings::Settings;
use crate::sigterm::Sigterm;
use crate::tally::Tally;

/// A running engine. It stops when dropped.
#[derive(Debug)]
pub struct Engine {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    doors: Mutex<Vec<JoinHandle<()>>>,
}

/// What all connections of an engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: watch::Sender<Arc<Settings>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) tally: Tally,
    turns: AtomicU64,
    pub(crate) scripts: Queue<Script>,
    pub(crate) frames: Queue<Frames>,
    pub(crate) sigterm: watch::Sender<Option<Sigterm>>,
    pub(crate) go_away: watch::Sender<()>,
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
        engine.shared.scripts.extend(scripts);
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
            scripts: Queue::default(),
            frames: Queue::default(),
            sigterm: watch::Sender::new(None),
            go_away: watch::Sender::new(()),
        });
        let engine = Engine {
            address,
            shared,
            stop: watch::Sender::new(false),
            doors: Mutex::default(),
        };
        engine.open_door(Listener::Tcp(listener), Door::default());
        Ok(engine)
    }

    /// Starts an engine that speaks HTTP/2 with prior knowledge and nothing else, on a port of the kernel's choice.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn http2(settings: Settings) -> io::Result<Engine> {
        let engine = Engine::start(settings).await?;
        let address = engine.open(Door::http2()).await?;
        Ok(Engine { address, ..engine })
    }

    /// Listens on one more port of 127.0.0.1, of the kernel's choice, and gives its address.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn open(&self, door: Door) -> io::Result<SocketAddr> {
        self.open_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, door)
    }

    /// Listens on `listener` too, and gives its address.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn open_on(&self, listener: TcpListener, door: Door) -> io::Result<SocketAddr> {
        let address = listener.local_addr()?;
        self.open_door(Listener::Tcp(listener), door);
        Ok(address)
    }

    /// Listens on a Unix socket too, which is made at `path`. Nobody removes it.
    ///
    /// # Errors
    /// When something is there already, or nothing may be made there.
    pub fn open_path(&self, path: impl AsRef<Path>, door: Door) -> io::Result<()> {
        self.open_door(Listener::Unix(UnixListener::bind(path)?), door);
        Ok(())
    }

    fn open_door(&self, listener: Listener, door: Door) {
        let stop = self.stop.subscribe();
        let task = tokio::spawn(door::serve(listener, door, self.shared.clone(), stop));
        locked(&self.doors).push(task);
    }

    /// Where it was started to listen.
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

    /// Sends GOAWAY on every connection of HTTP/2 that is open now. Each ends once its streams are answered; new
    /// connections are taken as before.
    pub fn go_away(&self) {
        self.shared.go_away.send_replace(());
    }

    /// Behaves from now on as after a SIGTERM. It does not end by that: [`Engine::stop`] ends it.
    pub fn sigterm(&self, how: Sigterm) {
        self.shared.sigterm.send_replace(Some(how));
    }

    /// Plays `script` to every request whose header `x-sim-script` is `name`.
    pub fn add_script(&self, name: &str, script: Script) {
        self.shared.scripts.insert(name, script);
    }

    /// Plays these frames to the next requests that come over HTTP/2, one each, in order; GET and HEAD take none.
    pub fn play(&self, frames: impl IntoIterator<Item = Frames>) {
        self.shared.frames.extend(frames);
    }

    /// Plays `frames` to every request over HTTP/2 whose header `x-sim-script` is `name`.
    pub fn add_frames(&self, name: &str, frames: Frames) {
        self.shared.frames.insert(name, frames);
    }

    /// Closes the listeners and all connections, and waits until they are closed.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let doors = std::mem::take(&mut *locked(&self.doors));
        for door in doors {
            // Fails only when the task has panicked.
            let _ = door.await;
        }
    }
}

impl Shared {
    /// The number of the next inference request, from 1.
    pub(crate) fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Relaxed) + 1
    }
}

/// What a lock holds. Nothing that runs under the locks of the simulator can leave it half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
