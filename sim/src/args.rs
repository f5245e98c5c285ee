//! The settings of an engine as options of a command line.
//!
//! In: options, read by clap. Out: an address and [`Settings`]. Never prints and never runs anything.

use std::net::SocketAddr;
use std::time::Duration;

use crate::delay::{Delay, duration};
use crate::settings::{Misbehaviour, Settings};
use crate::tokens::Tokens;

/// The options of `greylag sim`. The defaults are those of a small model on a quick GPU.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8100")]
    pub listen: SocketAddr,
    /// One more address, where HTTP/2 is spoken with prior knowledge, gRPC included; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub http2: Option<SocketAddr>,
    /// The model served; a request that names another gets 404
    #[arg(long, default_value = "tiny")]
    pub model: String,
    /// From the end of a request to its first token: none, 50ms, 20ms..80ms or lognormal:MEDIAN,P99
    #[arg(long, value_name = "DELAY", default_value = "lognormal:40ms,120ms")]
    pub ttft: Delay,
    /// Between two tokens of an answer, written like --ttft
    #[arg(long, value_name = "DELAY", default_value = "8ms..12ms")]
    pub inter_token: Delay,
    /// Tokens of an answer, N or MIN..MAX; max_tokens of a request caps them
    #[arg(long, value_name = "N", default_value = "16..64")]
    pub tokens: Tokens,
    /// Tokens each event bears after the first
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub tokens_per_event: usize,
    /// All chance comes from it: equal seeds and requests give equal bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Who gets something else, and what: 10%:status=503;retry_after=1, 1/5:cut=3;how=rst, … ; may be repeated, the first that hits counts
    #[arg(long, value_name = "WHO:WHAT")]
    pub misbehave: Vec<Misbehaviour>,
    /// Send keep-alive comments so far apart while no token is due
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub keep_alive: Option<Duration>,
    /// Close connections that have been idle for so long
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    pub keep_alive_timeout: Duration,
    /// Give every stream its usage, asked or not
    #[arg(long)]
    pub force_include_usage: bool,
    /// Answer with x-request-id
    #[arg(long)]
    pub request_id_headers: bool,
}

impl Args {
    /// What the options say an engine is like.
    pub fn settings(&self) -> Settings {
        Settings {
            model: self.model.clone(),
            seed: self.seed,
            ttft: self.ttft,
            inter_token: self.inter_token,
            tokens: self.tokens,
            tokens_per_event: self.tokens_per_event,
            keep_alive: self.keep_alive,
            force_include_usage: self.force_include_usage,
            misbehave: self.misbehave.clone(),
            request_id_headers: self.request_id_headers,
            keep_alive_timeout: Some(self.keep_alive_timeout),
            healthy: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Sim {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_become_settings() {
        let line = [
            "sim",
            "--listen",
            "127.0.0.1:0",
            "--model",
            "m",
            "--ttft",
            "50ms",
            "--inter-token",
            "none",
            "--tokens",
            "3..5",
            "--tokens-per-event",
            "4",
            "--seed",
            "9",
            "--misbehave",
            "10%:reset",
            "--misbehave",
            "1/5:cut=3;how=rst",
            "--keep-alive",
            "1s",
        ];
        let settings = Sim::try_parse_from(line).ok().unwrap().args.settings();
        assert_eq!(
            (
                settings.model.as_str(),
                settings.seed,
                settings.tokens_per_event
            ),
            ("m", 9, 4)
        );
        assert_eq!(
            (settings.ttft, settings.inter_token),
            (Delay::Fixed(Duration::from_millis(50)), Delay::None)
        );
        assert_eq!(settings.misbehave[1], "1/5:cut=3;how=rst".parse().unwrap());
        assert_eq!(settings.keep_alive_timeout, Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        for (option, value, reason) in [
            ("--ttft", "50", "needs a number and a unit"),
            ("--misbehave", "10%:nonsense", "allowed: reset"),
            ("--tokens", "0", "from 1"),
        ] {
            let message = Sim::try_parse_from(["sim", option, value])
                .err()
                .unwrap()
                .to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
