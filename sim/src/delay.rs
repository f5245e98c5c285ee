//! How long the engine takes over something, as a distribution.
//!
//! In: a written form such as `50ms`, `20ms..80ms` or `lognormal:50ms,200ms`, and a generator. Out: durations.
//! Never negative, never longer than [`LONGEST`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use humantime::{format_duration, parse_duration};
use rand::RngExt;
use rand::rngs::SmallRng;

/// A delay before something the engine does. Written `none`, `50ms`, `20ms..80ms` or `lognormal:MEDIAN,P99`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// As fast as the machine goes.
    #[default]
    None,
    /// Always the same.
    Fixed(Duration),
    /// Anything from `min` to `max`, all equally likely; `min <= max`.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Log-normal, as latencies of real engines mostly are; `0 < median <= p99`.
    LogNormal {
        /// Half of all draws are shorter.
        median: Duration,
        /// One draw in a hundred is longer.
        p99: Duration,
    },
}

impl Delay {
    /// One draw, at most [`LONGEST`].
    pub(crate) fn draw(self, chance: &mut SmallRng) -> Duration {
        let drawn = match self {
            Delay::None => Duration::ZERO,
            Delay::Fixed(fixed) => fixed,
            Delay::Uniform { min, max } => {
                min + max.saturating_sub(min).mul_f64(chance.random::<f64>())
            }
            Delay::LogNormal { median, p99 } => {
                let stretch = (p99.as_secs_f64() / median.as_secs_f64()).ln() / Z99;
                let factor = (stretch * normal(chance)).exp();
                // A spread beyond what a float holds ends as the longest delay, not as a panic.
                Duration::try_from_secs_f64(median.as_secs_f64() * factor).unwrap_or(LONGEST)
            }
        };
        drawn.min(LONGEST)
    }
}

/// A draw longer than this is cut to it: one day.
pub const LONGEST: Duration = Duration::from_secs(86_400);

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

/// A standard normal draw, by Box and Muller.
fn normal(chance: &mut SmallRng) -> f64 {
    // 1 − [0, 1) is never zero, so that the logarithm is finite.
    let radius = (-2.0 * (1.0 - chance.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * chance.random::<f64>()).cos()
}

/// Why a text is not a delay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DelayError {
    /// No number, or no unit.
    #[error("a duration needs a number and a unit, such as \"250ms\", found {0:?}")]
    NotADuration(String),
    /// Longer than [`LONGEST`].
    #[error("a duration is at most 1day, found {0:?}")]
    TooLong(String),
    /// One of its two parts is missing.
    #[error("a lognormal delay is written lognormal:MEDIAN,P99, found {0:?}")]
    OnePart(String),
    /// No distribution has these percentiles.
    #[error("a lognormal delay needs 0 < median <= p99, found {0:?}")]
    NoSuchCurve(String),
    /// The longer end stands first.
    #[error("a range of delays goes from short to long, found {0:?}")]
    Backwards(String),
}

impl FromStr for Delay {
    type Err = DelayError;

    fn from_str(text: &str) -> Result<Delay, DelayError> {
        if text == "none" {
            return Ok(Delay::None);
        }
        if let Some(pair) = text.strip_prefix("lognormal:") {
            let (median, p99) = pair
                .split_once(',')
                .ok_or_else(|| DelayError::OnePart(text.to_owned()))?;
            let (median, p99) = (duration(median)?, duration(p99)?);
            if median.is_zero() || p99 < median {
                return Err(DelayError::NoSuchCurve(text.to_owned()));
            }
            return Ok(Delay::LogNormal { median, p99 });
        }
        if let Some((min, max)) = text.split_once("..") {
            let (min, max) = (duration(min)?, duration(max)?);
            if max < min {
                return Err(DelayError::Backwards(text.to_owned()));
            }
            return Ok(Delay::Uniform { min, max });
        }
        Ok(Delay::Fixed(duration(text)?))
    }
}

/// A duration with its unit, such as `250ms`; `0s` is allowed.
pub(crate) fn duration(text: &str) -> Result<Duration, DelayError> {
    let parsed =
        parse_duration(text.trim()).map_err(|_| DelayError::NotADuration(text.to_owned()))?;
    if parsed > LONGEST {
        Err(DelayError::TooLong(text.to_owned()))
    } else {
        Ok(parsed)
    }
}

/// The duration in its written form without spaces, as [`duration`] reads it back.
pub(crate) fn short(duration: Duration) -> String {
    format_duration(duration).to_string().replace(' ', "")
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::None => f.write_str("none"),
            Delay::Fixed(fixed) => f.write_str(&short(*fixed)),
            Delay::Uniform { min, max } => write!(f, "{}..{}", short(*min), short(*max)),
            Delay::LogNormal { median, p99 } => {
                write!(f, "lognormal:{},{}", short(*median), short(*p99))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::generator;

    fn check(text: &str, expected: Delay) {
        let delay: Delay = text.parse().unwrap();
        assert_eq!(delay, expected);
        assert_eq!(
            delay.to_string().parse::<Delay>().unwrap(),
            delay,
            "the written form round-trips"
        );
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn every_form_is_read_and_written_back() {
        check("none", Delay::None);
        check("50ms", Delay::Fixed(ms(50)));
        check("1m30s", Delay::Fixed(ms(90_000)));
        check(
            "20ms..80ms",
            Delay::Uniform {
                min: ms(20),
                max: ms(80),
            },
        );
        check(
            "lognormal:50ms,200ms",
            Delay::LogNormal {
                median: ms(50),
                p99: ms(200),
            },
        );
    }

    #[test]
    fn what_is_not_a_delay_is_refused_with_the_text_found() {
        for text in [
            "",
            "50",
            "-5ms",
            "80ms..20ms",
            "lognormal:50ms",
            "lognormal:0s,1s",
            "lognormal:2s,1s",
            "2days",
        ] {
            let message = text.parse::<Delay>().unwrap_err().to_string();
            assert!(
                text.split("..").any(|part| message.contains(part)),
                "{message}"
            );
        }
    }

    #[test]
    fn draws_stay_in_their_range_and_follow_their_percentiles() {
        let mut chance = generator(1, "delay", b"");
        let uniform = Delay::Uniform {
            min: ms(20),
            max: ms(80),
        };
        assert!((0..1_000).all(|_| (ms(20)..=ms(80)).contains(&uniform.draw(&mut chance))));
        let skewed = Delay::LogNormal {
            median: ms(50),
            p99: ms(200),
        };
        let mut drawn: Vec<_> = (0..10_000).map(|_| skewed.draw(&mut chance)).collect();
        drawn.sort();
        assert!(
            (ms(47)..ms(53)).contains(&drawn[5_000]),
            "{:?}",
            drawn[5_000]
        );
        assert!(
            (ms(175)..ms(230)).contains(&drawn[9_900]),
            "{:?}",
            drawn[9_900]
        );
    }
}
