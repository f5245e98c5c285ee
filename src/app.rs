//! The only wiring: from a configuration to threads that serve, and from SIGTERM to their end.
//!
//! In: a [`Config`]. Out: an [`App`] whose listeners accept. Each worker is a thread with a runtime, listeners and a pool
//! of its own; the admin API and metrics have another thread, so that they answer under load.
//!
//! ```text
//! serving ──stop()──► not ready ──drain_wait──► accepting no more ──all done, or drain──► cut ──► ended
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use greylag_filters::rules::{Problem, Rules};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::admin;
use crate::admin::guard::Guard;
use crate::budget::Budget;
use crate::config::{self, Config, LogFormat, OnBadRules, Place};
use crate::exchange::Origin;
use crate::identity::Identity;
use crate::listen::{self, Bound, Door, Seats, Socketed};
use crate::observe;
use crate::observe::drain::Drain;
use crate::relay::cut::Registry;
use crate::relay::sequences::Sequences;
use crate::relay::{Shared, Worker};
use crate::side::{CHANGERS, FOLLOWERS, Sides};
use crate::stall::Pulse;
use crate::store::Store;
use crate::store::begin::Beginning;
use crate::store::file::{Looked, RulesFile};
use crate::store::hex;
use crate::store::state::StateFile;
use crate::store::tend::tend;
use crate::telemetry::Telemetry;
use crate::telemetry::log::Log;
use crate::upstream::{Pool, Pools, watch as engines};

/// Connections past the limit that one worker tells so at a time.
const TURNED_AWAY: u64 = 64;
/// How long threads may take to end once everything is cut.
const LAST: Duration = Duration::from_secs(2);

/// A running Greylag.
#[derive(Debug)]
pub struct App {
    /// The ports that clients connect to, in the order of `listen`.
    pub addresses: Vec<SocketAddr>,
    /// The port of the admin API; 0 of no address where it is on a unix socket.
    pub admin: SocketAddr,
    /// The unix socket of the admin API, if it is on one.
    pub admin_socket: Option<PathBuf>,
    /// Metrics and health.
    pub observe: SocketAddr,
    /// What all exchanges share.
    pub shared: Arc<Shared>,
    ready: Arc<AtomicBool>,
    seats: Arc<Seats>,
    registry: Arc<Registry>,
    file: Option<Arc<RulesFile>>,
    asked: Drain,
    stop: watch::Sender<bool>,
    end: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    drain: Duration,
    drain_wait: Duration,
}

// What listens beside the traffic, and who may ask there.
struct Beside {
    admin: Bound,
    guard: Guard,
    observe: Bound,
    drain: Drain,
}

/// The port of what has none.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl App {
    /// Binds every listener, then serves.
    ///
    /// # Errors
    /// An address that cannot be bound, a log that cannot be opened, spans that cannot be sent, an identity that cannot be read, a thread that cannot be
    /// started.
    pub fn start(config: Config) -> io::Result<App> {
        let origin = Origin::fresh();
        let (store, bad_rules) = begin(&config, &origin)?;
        let mut bound = Vec::new();
        for listener in &config.listen {
            bound.push(listen::bind(listener, config.workers)?);
        }
        let beside = Beside {
            guard: Guard::new(&config.admin)?,
            admin: listen::bind_admin(&config.admin)?,
            observe: listen::bind_alone(config.observe.address)?,
            drain: Drain::new(&config.observe, &config.admin),
        };
        warn_of_plain(&config.admin);

        let (ring, otlp) = (config.limits.ring.bytes(), &config.telemetry.otlp);
        let telemetry = Telemetry::new(ring, open_log(&config)?, otlp)?;
        let shared = Arc::new(Shared {
            store: Arc::new(store),
            origin,
            telemetry,
            budget: Budget::new(config.body_memory()),
            pools: Pools::default(),
            sequences: Sequences::default(),
            trusted: config.trusted.clone(),
            forwarded: config.forwarded,
            identity: Identity::new(&config.identity)?,
            draining: AtomicBool::new(false),
            limits: config.limits.clone(),
        });
        let file = config.origin.clone();
        let file = file.map(|origin| RulesFile::new(origin, bad_rules, shared.origin.today()));
        // The models that rules name are labels from the first exchange on.
        shared.telemetry.models.learn(&shared.store.current());
        let (stop, stopping) = watch::channel(false);
        let (end, ending) = watch::channel(false);
        let mut app = App {
            addresses: bound.iter().filter_map(|bound| bound.address).collect(),
            admin: beside.admin.address.unwrap_or(NOWHERE),
            admin_socket: match &config.admin.address {
                Place::Unix(path) => Some(path.clone()),
                Place::Ip(_) => None,
            },
            observe: beside.observe.address.unwrap_or(NOWHERE),
            ready: Arc::new(AtomicBool::new(false)),
            seats: Seats::new(config.limits.connections),
            registry: Arc::default(),
            file,
            asked: beside.drain.clone(),
            stop,
            end,
            threads: Vec::new(),
            drain: config.limits.drain.get(),
            drain_wait: config.limits.drain_wait.get(),
            shared,
        };
        for number in 0..config.workers {
            let sockets = bound.iter_mut().filter_map(Bound::take).collect();
            app.start_worker(number, sockets, stopping.clone(), ending.clone())?;
        }
        app.start_sides(beside, ending)?;
        app.ready.store(true, Ordering::Release);
        Ok(app)
    }

    fn start_worker(
        &mut self,
        number: usize,
        sockets: Vec<Socketed>,
        stopping: watch::Receiver<bool>,
        mut ending: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let runtime = runtime()?;
        let pool = Arc::new(Pool::default());
        let (pulse, shared) = (Arc::new(Pulse::default()), self.shared.clone());
        self.shared.pools.add(pool.clone());
        let door = Door {
            worker: Worker {
                shared: self.shared.clone(),
                pool: pool.clone(),
                pulse: pulse.clone(),
            },
            seats: self.seats.clone(),
            turned_away: Seats::new(TURNED_AWAY),
            registry: self.registry.clone(),
        };
        self.spawn(format!("worker-{number}"), move || {
            runtime.block_on(async {
                let serve = async {
                    listen::serve(door, sockets, stopping).await;
                    // Connections are tasks of this runtime: it lives until the drain is over.
                    let _ = ending.wait_for(|ending| *ending).await;
                };
                tokio::select! {
                    () = serve => {}
                    () = pool.prune() => {}
                    () = pulse.beat(&shared.origin, &shared.telemetry.metrics) => {}
                }
            });
        })
    }

    fn start_sides(
        &mut self,
        mut beside: Beside,
        mut ending: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let runtime = runtime()?;
        let sides = Sides {
            shared: self.shared.clone(),
            seats: self.seats.clone(),
            ready: self.ready.clone(),
            changers: Arc::new(Semaphore::new(CHANGERS)),
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            file: self.file.clone(),
        };
        let file = self.file.clone();
        let (Some(admin), Some(observe)) = (beside.admin.take(), beside.observe.take()) else {
            return Err(io::Error::other("a listener was bound without a socket"));
        };
        let (guard, drain) = (beside.guard, beside.drain);
        self.spawn("admin".into(), move || {
            runtime.block_on(async {
                let shared = sides.shared.clone();
                let serving = async {
                    tokio::join!(
                        admin::serve(sides.clone(), admin, guard),
                        observe::serve(sides, observe, drain)
                    )
                };
                tokio::select! {
                    _ = serving => {}
                    () = engines::watch(shared.clone()) => {}
                    () = shared.identity.watch() => {}
                    () = tend(shared.store.clone(), || shared.origin.today()) => {}
                    () = look_at_file(&shared, file) => {}
                    _ = ending.wait_for(|ending| *ending) => {}
                }
            });
            // A disk that hangs must not keep the process.
            runtime.shutdown_timeout(LAST);
        })
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// What is wrong with the configuration file, a line each.
    pub fn file_problems(&self) -> Vec<String> {
        let known = self.file.as_ref().map(|file| file.known().problems);
        known.unwrap_or_default()
    }

    /// Reads the configuration file again, and puts its rules in force if they are others.
    pub fn reload(&self) {
        if let Some(file) = &self.file {
            file.ask();
        }
    }

    /// Ends well: not ready, still accepting for `drain_wait`, then no more; waits for what runs, up to `drain`; cuts the
    /// rest. Returns how many connections had to be cut.
    pub fn stop(self) -> u64 {
        self.ready.store(false, Ordering::Release);
        self.shared.draining.store(true, Ordering::Relaxed);
        std::thread::sleep(self.drain_wait);
        let _ = self.stop.send(true);
        wait(self.drain, || self.seats.taken() == 0);
        let cut = self.seats.taken();
        self.registry.cut();
        wait(LAST, || self.seats.taken() == 0);
        // The engine's hook waits to hear of it; both are told to end at the same time.
        wait(LAST, || !self.asked.is_awaited());
        let _ = self.end.send(true);
        for thread in self.threads {
            // A thread that panicked has said so; the others still have to end.
            let _ = thread.join();
        }
        self.shared.telemetry.flush();
        cut
    }
}

// Waits until something holds, or `limit` has passed.
fn wait(limit: Duration, done: impl Fn() -> bool) {
    const STEP: Duration = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    while !done() && waited < limit {
        std::thread::sleep(STEP);
        waited += STEP;
    }
}

// The rules that the process begins with, and what is wrong with the file's, if they stand in for those.
fn begin(config: &Config, origin: &Origin) -> io::Result<(Store, Vec<String>)> {
    let start = |rules: &Rules, bad: &[String]| {
        let state = config.state_file.as_deref().map(StateFile::open);
        let beginning = Beginning {
            rules,
            is_usable: bad.is_empty(),
            file: match &config.origin {
                Some(origin) if !bad.is_empty() => origin.text(),
                Some(_) | None => hex(rules.hash()),
            },
            state: state.transpose()?,
            at: origin.today(),
            boot: origin.boot(),
        };
        let lines = |all: Vec<Problem>| all.iter().map(Problem::to_string).collect::<Vec<_>>();
        Ok::<_, io::Error>(Store::begin(beginning).map_err(lines))
    };
    let wrong = |lines: Vec<String>| io::Error::other(lines.join("\n"));
    match start(&config.rules, &config.bad_rules)? {
        Ok(store) => Ok((store, config.bad_rules.clone())),
        // They compile, and a file that they name cannot be used.
        Err(lines) if config.bad_rules.is_empty() => {
            let is_allowed = config.on_bad_rules == OnBadRules::PassThrough;
            let instead = config.rules.pass_through().filter(|_| is_allowed);
            let rules = instead.ok_or_else(|| wrong(lines.clone()))?;
            let store = start(&rules, &lines)?.map_err(wrong)?;
            Ok((store, lines))
        }
        Err(lines) => Err(wrong(lines)),
    }
}

// Never ends by itself.
async fn look_at_file(shared: &Arc<Shared>, file: Option<Arc<RulesFile>>) {
    let Some(file) = file else {
        return std::future::pending().await;
    };
    let told = |looked| match looked {
        Looked::Changed => {
            shared.telemetry.models.learn(&shared.store.current());
            shared.telemetry.metrics.reloaded("ok");
        }
        Looked::Unusable => shared.telemetry.metrics.reloaded("invalid"),
        Looked::Same => {}
    };
    let now = || shared.origin.today();
    file.watch(shared.store.clone(), now, told).await;
}

fn warn_of_plain(admin: &config::Admin) {
    if admin.is_off_loopback() && admin.tls.is_none() {
        tracing::warn!(name: "greylag.admin.plain", address = %admin.address, "the admin API is off loopback without TLS: whoever is on the way can read its tokens; set admin.tls");
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn open_log(config: &Config) -> io::Result<Log> {
    let log = &config.telemetry.log;
    let opened = match (log.format, &log.path) {
        (LogFormat::Off, _) => Log::off(),
        (LogFormat::Json, None) => Log::stdout()?,
        (LogFormat::Json, Some(path)) => Log::file(path).map_err(|error| {
            let what = format!(
                "telemetry.log.path: cannot open {}: {error}",
                path.display()
            );
            io::Error::new(error.kind(), what)
        })?,
    };
    Ok(opened.with_share(log.share))
}
