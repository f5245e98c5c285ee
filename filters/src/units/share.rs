//! A part of a whole, written in per cent.

use std::fmt;
use std::str::FromStr;

use crate::draw::Draw;
use crate::written::{Misfit, Written, written};

/// A share of the exchanges a rule looks at: `0%`, or `0.0001%` to `100%` in steps of `0.0001%`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Share {
    // 0 <= millionths <= WHOLE
    millionths: u32,
}

const WHOLE: u32 = 1_000_000;

impl Share {
    /// Nothing: `0%`.
    pub const NONE: Share = Share { millionths: 0 };
    /// Everything: `100%`.
    pub const ALL: Share = Share { millionths: WHOLE };

    /// A share of so many whole per cent; more than 100 is everything.
    pub const fn percent(percent: u8) -> Share {
        let millionths = percent as u32 * 10_000;
        Share {
            millionths: if millionths > WHOLE {
                WHOLE
            } else {
                millionths
            },
        }
    }

    /// Whether a draw falls into this share: never for `0%`, always for `100%`.
    pub fn hits(self, draw: Draw) -> bool {
        draw.below(WHOLE.into()) < self.millionths.into()
    }

    /// The share as a number from 0 to 1.
    pub fn ratio(self) -> f64 {
        f64::from(self.millionths) / f64::from(WHOLE)
    }
}

impl FromStr for Share {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Share, Misfit> {
        read(text).ok_or_else(|| Misfit::of::<Share>(text))
    }
}

fn read(text: &str) -> Option<Share> {
    let number = text.strip_suffix('%')?;
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (number, None),
    };
    // Three digits are a hundred or a slip: `010%` is refused.
    let whole = if whole == "100" {
        100
    } else {
        digits(whole, 2)?
    };
    let mut millionths = whole * 10_000;
    if let Some(decimals) = decimals {
        let mut part = digits(decimals, 4)?;
        for _ in decimals.len()..4 {
            part *= 10;
        }
        millionths += part;
    }
    (millionths <= WHOLE).then_some(Share { millionths })
}

/// A number of one to `most` digits and nothing else.
fn digits(text: &str, most: usize) -> Option<u32> {
    let fits = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.millionths / 10_000, self.millionths % 10_000);
        if part == 0 {
            write!(f, "{whole}%")
        } else {
            let decimals = format!("{part:04}");
            write!(f, "{whole}.{}%", decimals.trim_end_matches('0'))
        }
    }
}

impl Written for Share {
    const ALLOWED: &'static str = "a share is written in per cent, from \"0%\" to \"100%\" with up to four decimals, such as \"10%\" or \"0.5%\"";
    const PATTERN: &'static str = r"^(100(\.0{1,4})?|[0-9]{1,2}(\.[0-9]{1,4})?)%$";
    const EXAMPLE: &'static str = "10%";
}

written!(Share, deserialize_any);
