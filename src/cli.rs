//! The command line: which commands there are, and how a process ends.
//!
//! In: arguments. Out: an exit code, after `sysexits.h`. What a command makes goes to standard output, everything else to
//! standard error. A command itself stands in a file of its own.

pub mod api;
mod check;
mod ctl;
pub mod demo;
mod events;
mod health;
mod lines;
mod meter;
mod period;
mod run;
mod schema;
mod signals;
mod sim;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

/// A sidecar for inference traffic: split, measure and compare token streams
#[derive(Debug, Parser)]
#[command(name = "greylag", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve, until SIGTERM or SIGINT
    Run {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Say whether a configuration can be used, or what is wrong with it
    Check {
        /// The configuration file
        file: PathBuf,
    },
    /// Print the JSON Schema of the configuration, or of a line of the access log
    Schema {
        /// Of a line of the access log
        #[arg(long)]
        log: bool,
    },
    /// Say whether a running Greylag is well: exit code 0, or 1
    Health(health::Args),
    /// Say what the meter makes of a recorded answer
    Meter(meter::Args),
    /// Show what Greylag does, on two simulated engines, in a minute
    Demo(demo::Args),
    /// Look at running Greylags, and change what they do
    Ctl(Box<ctl::Args>),
    /// Be an engine: vLLM's API without a model
    Sim(Box<greylag_sim::Args>),
}

/// How a process ends, other than well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    /// What was asked for is not well: what a container's health check has to say.
    Unwell = 1,
    /// The command line is not understood (`EX_USAGE`).
    Usage = 64,
    /// The input was refused (`EX_DATAERR`).
    Input = 65,
    /// Greylag cannot be reached, or does not answer (`EX_UNAVAILABLE`).
    Unavailable = 69,
    /// A command did not do what it is for (`EX_SOFTWARE`).
    Failed = 70,
    /// An address cannot be listened on, a file cannot be opened (`EX_OSERR`).
    System = 71,
    /// What was made cannot be written (`EX_IOERR`).
    Output = 74,
    /// Others were faster, or too many, or it takes longer: another try may do (`EX_TEMPFAIL`).
    TryLater = 75,
    /// Whoever asks may not (`EX_NOPERM`).
    Denied = 77,
    /// The configuration cannot be used (`EX_CONFIG`).
    Config = 78,
}

const EXIT_CODES: &str = "Exit codes: 0 ended well, 1 not well (health), 64 usage, 65 the input was refused, 69 Greylag cannot be reached, 70 the command failed, \
71 an address or a file cannot be opened, 74 output cannot be written, 75 try again, 77 not allowed, 78 configuration, 128 + N ended at once by a second signal N";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    match Line::try_parse() {
        Ok(line) => line.command.run(),
        Err(error) => {
            let asked = !error.use_stderr();
            // Nobody is left to tell when this cannot be written.
            let _ = error.print();
            if asked {
                ExitCode::SUCCESS
            } else {
                Exit::Usage.into()
            }
        }
    }
}

impl Command {
    fn run(self) -> ExitCode {
        let done = match self {
            Command::Run { config } => return run::run(&config).unwrap_or_else(ExitCode::from),
            Command::Check { file } => check::check(&file),
            Command::Schema { log } => schema::schema(log),
            Command::Health(args) => health::health(&args),
            Command::Meter(args) => meter::meter(&args),
            Command::Demo(args) => demo::run(&args).map_err(|what| {
                complain(&what);
                Exit::Failed
            }),
            Command::Ctl(args) => ctl::ctl(&args),
            Command::Sim(args) => sim::sim(&args),
        };
        done.map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
    }
}

/// The runtime of a command: this thread.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Writes what a command makes.
fn print(text: &str) -> Result<(), Exit> {
    writeln!(io::stdout(), "{text}").map_err(|_| Exit::Output)
}

/// Says why a command ends.
fn complain(what: &dyn std::fmt::Display) {
    // Nobody is left to tell when this cannot be written.
    let _ = writeln!(io::stderr(), "{what}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_fit_together() {
        Line::command().debug_assert();
    }

    #[test]
    fn exit_codes_are_those_that_the_help_names() {
        for exit in [
            Exit::Unwell,
            Exit::Usage,
            Exit::Input,
            Exit::Unavailable,
            Exit::Failed,
            Exit::System,
            Exit::Output,
            Exit::TryLater,
            Exit::Denied,
            Exit::Config,
        ] {
            let code = exit as u8;
            assert_eq!(ExitCode::from(exit), ExitCode::from(code));
            assert!(EXIT_CODES.contains(&format!(" {code} ")), "{code}");
        }
    }
}
