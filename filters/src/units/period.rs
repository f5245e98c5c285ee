//! A length of time, written with its units.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::written::{Misfit, Written, written};

/// A length of time: whole numbers, each with its unit (`ns`, `us`, `ms`, `s`, `m`, `h`, `d`), added up.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Period(Duration);

impl Period {
    /// The longest time that is waited for anything, 365 days: far from where adding it to a point in time could
    /// overflow. A longer one can be written, and is refused where it is used.
    pub const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    /// The length as the standard library's type.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Period {
    fn from(duration: Duration) -> Period {
        Period(duration)
    }
}

impl FromStr for Period {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Period, Misfit> {
        read(text).ok_or_else(|| Misfit::of::<Period>(text))
    }
}

fn read(text: &str) -> Option<Period> {
    let mut sum = Duration::ZERO;
    let mut rest = text;
    loop {
        let (number, after) = rest.split_at_checked(run(rest, |b| b.is_ascii_digit()))?;
        let (unit, after) = after.split_at_checked(run(after, |b| b.is_ascii_alphabetic()))?;
        sum = sum.checked_add(part(number.parse().ok()?, unit)?)?;
        if after.is_empty() {
            return Some(Period(sum));
        }
        rest = after;
    }
}

/// How many bytes at the start are of a kind.
fn run(text: &str, kind: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| kind(*b)).count()
}

fn part(number: u64, unit: &str) -> Option<Duration> {
    match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(60 * 60).map(Duration::from_secs),
        "d" => number.checked_mul(24 * 60 * 60).map(Duration::from_secs),
        _ => None,
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        let (seconds, nanos) = (self.0.as_secs(), u64::from(self.0.subsec_nanos()));
        let parts = [
            (seconds / (24 * 60 * 60), "d"),
            (seconds / (60 * 60) % 24, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (nanos / 1_000_000, "ms"),
            (nanos / 1_000 % 1_000, "us"),
            (nanos % 1_000, "ns"),
        ];
        for (number, unit) in parts.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, "{number}{unit}")?;
        }
        Ok(())
    }
}

impl Written for Period {
    const ALLOWED: &'static str = "a duration needs a unit, such as \"250ms\" or \"1m30s\"";
    const PATTERN: &'static str = "^([0-9]+(ns|us|ms|s|m|h|d))+$";
    const EXAMPLE: &'static str = "1m30s";
}

written!(Period, deserialize_any);
