//! What an engine is like: its model, its pace, its manners.
//!
//! In: values from code or from the command line. Out: what holds for every request that does not ask for something else.
//! Never changes a request under way: an engine reads its settings once a request.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::RngExt;

use crate::chance::generator;
use crate::delay::Delay;
use crate::order::{Order, OrderError};
use crate::tokens::Tokens;

/// What an engine is like. The default is quick and honest.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The one model served; a request that names another gets 404, as from vLLM.
    pub model: String,
    /// All chance comes from it: equal seeds and equal requests give equal bytes.
    pub seed: u64,
    /// From the end of the request to the first token.
    pub ttft: Delay,
    /// Between two steps of the engine; a step gives one token to each choice, or `tokens_per_event` of them.
    pub inter_token: Delay,
    /// The length of an answer; `max_tokens` of a request caps it, `ignore_eos` stretches it to `max_tokens`.
    pub tokens: Tokens,
    /// Tokens an event bears, from the second event on (vLLM's `--stream-interval`: the first token always goes alone).
    pub tokens_per_event: usize,
    /// Sends `: keep-alive` comments so far apart while no token is due (vLLM's `--sse-keep-alive-interval`).
    pub keep_alive: Option<Duration>,
    /// Gives every stream its usage event and usage on each event, unasked (vLLM's `--enable-force-include-usage`).
    pub force_include_usage: bool,
    /// Who gets something other than an honest answer; the first that hits counts, and only inference requests are hit.
    pub misbehave: Vec<Misbehaviour>,
    /// Answers carry `x-request-id` (vLLM's `--enable-request-id-headers`).
    pub request_id_headers: bool,
    /// Closes a connection that has been idle for so long (5 s in uvicorn).
    pub keep_alive_timeout: Option<Duration>,
    /// Whether `/health` answers 200 or, like a vLLM whose worker died, 503.
    pub healthy: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            model: "tiny".into(),
            seed: 1,
            ttft: Delay::None,
            inter_token: Delay::None,
            tokens: Tokens::fixed(16),
            tokens_per_event: 1,
            keep_alive: None,
            force_include_usage: false,
            misbehave: Vec::new(),
            request_id_headers: false,
            keep_alive_timeout: None,
            healthy: true,
        }
    }
}

impl Settings {
    /// What inference request `number` (from 1) gets when it does not say so itself.
    pub(crate) fn order(&self, number: u64) -> Order {
        self.misbehave
            .iter()
            .enumerate()
            .find(|(index, misbehaviour)| misbehaviour.when.hits(self.seed, *index, number))
            .map(|(_, misbehaviour)| misbehaviour.order.clone())
            .unwrap_or_default()
    }
}

/// An order for some of the requests. Written `10%:status=503;retry_after=1`, `1/5:reset` or, for all, just the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misbehaviour {
    /// Whom it hits.
    pub when: When,
    /// What they get.
    pub order: Order,
}

/// Which requests are hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So many in a million, by chance; 1,000,000 is all.
    Share {
        /// 0 to 1,000,000.
        millionths: u32,
    },
    /// Every nth inference request, counted from 1.
    Nth(u64),
}

impl When {
    fn hits(self, seed: u64, index: usize, number: u64) -> bool {
        match self {
            When::Share { millionths } => {
                let key = [number.to_le_bytes(), (index as u64).to_le_bytes()].concat();
                generator(seed, "misbehave", &key).random_range(0..1_000_000) < millionths
            }
            When::Nth(n) => n > 0 && number.is_multiple_of(n),
        }
    }
}

/// Why a text is no misbehaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MisbehaviourError {
    /// Its first part says nobody.
    #[error(
        "whom a misbehaviour hits is written as a share (\"10%\", 0.0001% to 100%, or 0%) or \"1/N\", found {0:?}"
    )]
    Nobody(String),
    /// Its second part is no order.
    #[error(transparent)]
    Order(#[from] OrderError),
}

impl FromStr for Misbehaviour {
    type Err = MisbehaviourError;

    fn from_str(text: &str) -> Result<Misbehaviour, MisbehaviourError> {
        // A colon also stands in `lognormal:…`, so only a first part that is a share or a fraction is one.
        let (when, order) = match text.split_once(':') {
            Some((when, order)) if when.ends_with('%') || when.contains('/') => {
                (when.parse()?, order)
            }
            _ => (
                When::Share {
                    millionths: 1_000_000,
                },
                text,
            ),
        };
        Ok(Misbehaviour {
            when,
            order: order.parse()?,
        })
    }
}

impl FromStr for When {
    type Err = MisbehaviourError;

    fn from_str(text: &str) -> Result<When, MisbehaviourError> {
        let nobody = || MisbehaviourError::Nobody(text.to_owned());
        if let Some(nth) = text.strip_prefix("1/") {
            return nth
                .parse()
                .ok()
                .filter(|n| *n > 0)
                .map(When::Nth)
                .ok_or_else(nobody);
        }
        let percent: f64 = text
            .strip_suffix('%')
            .and_then(|share| share.parse().ok())
            .ok_or_else(nobody)?;
        let millionths = (percent * 10_000.0).round();
        if !(0.0..=1_000_000.0).contains(&millionths) || (percent > 0.0 && millionths < 1.0) {
            return Err(nobody());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number from 0 to 1,000,000 by the check above"
        )]
        Ok(When::Share {
            millionths: millionths as u32,
        })
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Share { millionths } => write!(f, "{}%", f64::from(*millionths) / 10_000.0),
            When::Nth(n) => write!(f, "1/{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(text: &str, requests: u64) -> usize {
        let settings = Settings {
            misbehave: vec![text.parse().unwrap()],
            ..Settings::default()
        };
        (1..=requests)
            .filter(|number| settings.order(*number) != Order::default())
            .count()
    }

    #[test]
    fn a_share_hits_that_many_and_the_ends_are_exact() {
        assert_eq!(hits("0%:reset", 1_000), 0);
        assert_eq!(hits("100%:reset", 1_000), 1_000);
        assert_eq!(hits("reset", 1_000), 1_000);
        assert_eq!(hits("1/5:reset", 1_000), 200);
        let some = hits("10%:reset", 10_000);
        assert!((850..1_150).contains(&some), "{some}");
    }

    #[test]
    fn the_first_that_hits_counts() {
        let settings = Settings {
            misbehave: vec![
                "1/2:reset".parse().unwrap(),
                "ttft=lognormal:1ms,2ms".parse().unwrap(),
            ],
            ..Settings::default()
        };
        assert_eq!(settings.order(2), "reset".parse().unwrap());
        assert_eq!(settings.order(3), "ttft=lognormal:1ms,2ms".parse().unwrap());
    }

    #[test]
    fn who_is_hit_round_trips() {
        for text in ["10%", "0.0001%", "100%", "0%", "1/5"] {
            assert_eq!(text.parse::<When>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_bad_share_is_refused() {
        for text in [
            "101%:reset",
            "-1%:reset",
            "x%:reset",
            "1/0:reset",
            "2/5:reset",
            "0.00001%:reset",
        ] {
            assert!(text.parse::<Misbehaviour>().is_err(), "{text:?}");
        }
    }
}
