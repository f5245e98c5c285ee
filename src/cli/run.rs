//! `greylag run`: serve until a signal, then end well.
//!
//! In: a configuration file, and the environment. Out: exit code 0 once everything has ended, also when connections had to be cut; a second
//! signal ends the process at once.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use tokio::sync::oneshot;

use super::signals::Signals;
use super::{Exit, complain, events, runtime};
use crate::app::App;
use crate::config::{Config, Environment};
use crate::store::{Source, hex};

/// Serves; returns the exit code of a process that has served.
pub(super) fn run(file: &Path) -> Result<ExitCode, Exit> {
    let config = Config::begin_with(file, &Environment::of_process()).map_err(|fault| {
        complain(&fault);
        Exit::Config
    })?;
    let lines = events::to_stderr(config.telemetry.log.process);
    use_small_pages();
    let failed = |error: io::Error| {
        complain(&format_args!("{}: {error}", file.display()));
        Exit::System
    };
    let ended = runtime().map_err(failed)?.block_on(async {
        // Caught before anything serves, so that a signal at any time ends it well.
        let signals = Signals::catch().map_err(failed)?;
        let app = App::start(config).map_err(failed)?;
        announce(&app);
        serve(app, signals).await.map_err(failed)
    });
    lines.finish();
    ended
}

// A stream holds some tens of kilobytes, in pieces. The allocator asks for huge pages, which would make twice as much
// resident of it; a kernel that refuses only costs that.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "huge pages stay on");
    }
}

fn announce(app: &App) {
    for address in &app.addresses {
        tracing::info!(name: "greylag.listening", %address, "clients connect here");
    }
    let admin = match &app.admin_socket {
        Some(path) => format!("unix:{}", path.display()),
        None => app.admin.to_string(),
    };
    tracing::info!(name: "greylag.admin.listening", address = %admin, "the admin API is here");
    tracing::info!(name: "greylag.observe.listening", address = %app.observe, "metrics and health are here");
    let snapshot = app.shared.store.current();
    let hash = hex(snapshot.rules.hash());
    let entry = app.shared.store.version(snapshot.version);
    let what = entry.as_ref().map_or("", |entry| &*entry.what);
    tracing::info!(name: "greylag.rules.in_force", version = snapshot.version, hash, what, "rules in force");
    let problems = app.file_problems();
    if snapshot.source == Source::PassThrough {
        let problems = problems.join("; ");
        tracing::error!(name: "greylag.rules.pass_through", problems, "the configuration file's rules cannot be used: the default engine is served, and nothing else is done");
    }
}

async fn serve(app: App, mut signals: Signals) -> io::Result<ExitCode> {
    let signal = signals.next(|| app.reload()).await;
    tracing::info!(
        name: "greylag.ending",
        signal,
        "ending: running answers may finish; a second signal ends at once"
    );
    let (ended, mut end) = oneshot::channel();
    // Stopping blocks, and the second signal has to be heard meanwhile.
    let stopper = std::thread::Builder::new().name("stop".into());
    stopper.spawn(move || {
        // The receiver is gone after a second signal.
        let _ = ended.send(app.stop());
    })?;
    tokio::select! {
        cut = &mut end => {
            let cut = cut.unwrap_or_default();
            if cut > 0 {
                tracing::warn!(name: "greylag.ended", connections = cut, "ended; connections were cut, since limits.drain had passed");
            } else {
                tracing::info!(name: "greylag.ended", "ended; no connection was cut");
            }
            Ok(ExitCode::SUCCESS)
        }
        signal = signals.next(|| {}) => {
            tracing::warn!(name: "greylag.ended_at_once", signal, "ended at once by a second signal");
            Ok(ExitCode::from(128 + signal))
        }
    }
}
