//! `greylag ctl`: the admin API by hand.
//!
//! In: a command, and which Greylags it is for. Out: what they answer, as columns for people or as JSON for programs, and an exit code
//! that says what went wrong. A token comes from a file, and is neither taken from the command line nor shown.

mod change;
mod edit;
mod engines;
mod events;
mod exchanges;
mod failure;
mod fleet;
mod follow;
mod history;
mod overlays;
mod plain;
mod reset;
mod rules;
mod splits;
mod status;
mod table;
mod watch;
mod whom;

use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory as _, Subcommand};

use super::api::Api;
use super::period::period;
use super::{Exit, Line, complain, print, runtime};
use change::{OverlayTerms, Terms, Wanted};
use fleet::Fleet;
use splits::Share;
use whom::Whom;

/// What `greylag ctl` is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    whom: Whom,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// How things stand
    Status,
    /// The engines: whether they are up, where they are
    Engines,
    /// Show splits, or move one
    Split {
        /// The split
        name: Option<String>,
        /// A weight for each of its engines: stable=90 candidate=10
        #[arg(value_name = "ENGINE=WEIGHT", requires = "name")]
        weights: Vec<Share>,
        #[command(flatten)]
        terms: OverlayTerms,
    },
    /// Let callers choose an engine of a split, or not
    Force {
        /// The split
        name: String,
        /// Whether they may
        #[arg(value_enum)]
        switch: Switch,
        #[command(flatten)]
        terms: OverlayTerms,
    },
    /// What lies on the base of the rules
    Overlays,
    /// Lift an overlay: what lies below is in force again
    Lift {
        /// Its id, as `overlays` shows it
        id: String,
        #[command(flatten)]
        terms: Terms,
    },
    /// The rules, whole
    #[command(subcommand)]
    Rules(Rules),
    /// What was in force before
    History {
        /// One version, with what it changed
        version: Option<u64>,
        /// At most so many
        #[arg(long, value_name = "N", conflicts_with = "version")]
        limit: Option<u32>,
    },
    /// Put a version in force again, as a new one
    Restore {
        /// The version
        version: u64,
        #[command(flatten)]
        terms: Terms,
    },
    /// The last exchanges
    Exchanges(exchanges::Wanted),
    /// What happens, as it happens
    Events(events::Wanted),
    /// Turn all faults and mirrors off
    Reset {
        /// Why, for those who look at it later
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// How things stand, again and again
    Watch(watch::Wanted),
    /// Wait until rules are in force
    Wait {
        /// This version, or one after it
        #[arg(long, value_name = "N", required_unless_present = "hash")]
        version: Option<u64>,
        /// The rules of this hash
        #[arg(long, value_name = "HASH", conflicts_with = "version")]
        hash: Option<String>,
        /// At most so long
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = period)]
        timeout: Duration,
    },
    /// Print what a shell needs to complete these commands
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
enum Rules {
    /// Print the base
    Get {
        /// With what lies on it
        #[arg(long)]
        in_force: bool,
    },
    /// Replace the base
    Put {
        /// YAML or JSON: the rules, or a configuration that holds them; - is standard input
        file: PathBuf,
        #[command(flatten)]
        terms: Terms,
    },
    /// Say what a file would change
    Diff {
        /// YAML or JSON: the rules, or a configuration that holds them; - is standard input
        file: PathBuf,
    },
    /// Edit the base, and replace it if nobody else has meanwhile
    Edit {
        /// The editor. Default: what VISUAL names, or EDITOR, else vi
        #[arg(long, value_name = "COMMAND")]
        editor: Option<String>,
        #[command(flatten)]
        terms: Terms,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Does what is asked.
pub(super) fn ctl(args: &Args) -> Result<(), Exit> {
    if let Command::Completions { shell } = &args.command {
        return completions(*shell);
    }
    let fleet = args.whom.fleet()?;
    let runtime = runtime().map_err(|error| {
        complain(&format_args!("no runtime: {error}"));
        Exit::System
    })?;
    runtime.block_on(args.command.run(&fleet))
}

fn completions(shell: clap_complete::Shell) -> Result<(), Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Line::command(), "greylag", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

impl Command {
    async fn run(&self, fleet: &Fleet) -> Result<(), Exit> {
        match self {
            Command::Status => fleet.each(status::status).await,
            Command::Engines => fleet.each(engines::show).await,
            Command::Overlays => fleet.each(overlays::show).await,
            Command::Split {
                name,
                weights,
                terms,
            } => split(fleet, name.as_deref(), weights, terms).await,
            Command::Force {
                name,
                switch,
                terms,
            } => {
                let is_on = matches!(switch, Switch::On);
                let switch = async |api: &Api| splits::force(api, name, is_on, terms).await;
                fleet.change(switch).await
            }
            Command::Lift { id, terms } => {
                fleet
                    .change(async |api: &Api| overlays::lift(api, id, terms).await)
                    .await
            }
            Command::Rules(rules) => rules.run(fleet).await,
            Command::History { version, limit } => match version {
                Some(version) => {
                    fleet
                        .each(async |api: &Api| history::version(api, *version).await)
                        .await
                }
                None => {
                    fleet
                        .each(async |api: &Api| history::versions(api, *limit).await)
                        .await
                }
            },
            Command::Restore { version, terms } => {
                let restore = async |api: &Api| history::restore(api, *version, terms).await;
                fleet.change(restore).await
            }
            Command::Exchanges(wanted) => exchanges::show(fleet, wanted).await,
            Command::Events(wanted) => events::show(fleet, wanted).await,
            Command::Reset { reason } => {
                fleet
                    .change(async |api: &Api| reset::reset(api, reason.as_deref()).await)
                    .await
            }
            Command::Watch(wanted) => watch::watch(fleet, wanted).await,
            Command::Wait {
                version,
                hash,
                timeout,
            } => {
                let wanted = match (version, hash) {
                    (_, Some(hash)) => Wanted::Hash(hash.clone()),
                    (version, None) => Wanted::Version(version.unwrap_or_default()),
                };
                let wait = async |api: &Api| change::in_force(api, &wanted, *timeout).await;
                fleet.each(wait).await
            }
            // Printed before anybody is asked.
            Command::Completions { shell } => completions(*shell),
        }
    }
}

async fn split(
    fleet: &Fleet,
    name: Option<&str>,
    weights: &[Share],
    terms: &OverlayTerms,
) -> Result<(), Exit> {
    match name {
        Some(name) if !weights.is_empty() => {
            let shares = splits::shares(weights).map_err(|twice| {
                complain(&twice);
                Exit::Usage
            })?;
            let weigh = async |api: &Api| splits::weigh(api, name, &shares, terms).await;
            fleet.change(weigh).await
        }
        _ if terms.is_any() => {
            complain(
                &"a split is moved by weights, such as stable=90 candidate=10, and found none",
            );
            Err(Exit::Usage)
        }
        name => {
            fleet
                .each(async |api: &Api| splits::show(api, name).await)
                .await
        }
    }
}

impl Rules {
    async fn run(&self, fleet: &Fleet) -> Result<(), Exit> {
        match self {
            Rules::Get { in_force } => {
                fleet
                    .each(async |api: &Api| rules::get(api, *in_force).await)
                    .await
            }
            Rules::Put { file, terms } => {
                let rules = rules::read(file)?;
                fleet
                    .change(async |api: &Api| rules::put(api, &rules, terms).await)
                    .await
            }
            Rules::Diff { file } => {
                let rules = rules::read(file)?;
                let terms = Terms {
                    dry_run: true,
                    ..Terms::default()
                };
                fleet
                    .each(async |api: &Api| rules::put(api, &rules, &terms).await)
                    .await
            }
            Rules::Edit { editor, terms } => edit::edit(fleet, editor.as_deref(), terms).await,
        }
    }
}
