//! `greylag health`: whether the Greylag beside this command is well, as a container's health check asks.
//!
//! In: where its observe listener is, or the file that says so. Out: exit code 0 and its word, or 1 and one line that says what was
//! found. It waits no longer than a deadline, and changes nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use greylag_filters::written::start;
use tokio::time::timeout;

use super::api::Api;
use super::{Exit, complain, print, runtime};
use crate::config::{Environment, Observe};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What `greylag health` is told.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file of the Greylag that is asked; without it and without --address: its observe listener is where it is by
    /// default. GREYLAG_OBSERVE_ADDRESS counts before the file
    #[arg(long, value_name = "FILE", conflicts_with = "address")]
    config: Option<PathBuf>,
    /// Where its observe listener is
    #[arg(long, value_name = "IP:PORT")]
    address: Option<SocketAddr>,
    /// Ask whether it is ready, not only whether it runs
    #[arg(long)]
    ready: bool,
}

/// Asks.
pub(super) fn health(args: &Args) -> Result<(), Exit> {
    let said = asked(args).map_err(|what| {
        complain(&what);
        Exit::Unwell
    })?;
    print(&said)
}

fn asked(args: &Args) -> Result<String, String> {
    let address = match args.address {
        Some(address) => address,
        None => {
            let file = args.config.as_deref();
            let address = Observe::address_to_ask(file, &Environment::of_process());
            address.map_err(|fault| fault.to_string())?
        }
    };
    let path = if args.ready { "/readyz" } else { "/livez" };
    let runtime = runtime().map_err(|error| format!("no runtime: {error}"))?;
    let api = Api::at(address);
    // A timer is made where there is a runtime.
    let asking = async { timeout(PATIENCE, api.get(path)).await };
    let answer = runtime
        .block_on(asking)
        .map_err(|_| format!("{address} did not answer {path} within {PATIENCE:?}"))?
        .map_err(|fault| fault.to_string())?;
    let text = answer.text();
    let said = text.lines().next().unwrap_or_default();
    match answer.status {
        200 => Ok(start(said)),
        status => Err(format!(
            "{address} answered {path} with {status}: found {:?}, allowed is 200",
            start(said)
        )),
    }
}
