//! How many tokens an answer has.
//!
//! In: a number or a range, and a generator. Out: a number of tokens, at least one. Never zero: an engine answers something.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use rand::rngs::SmallRng;

/// The number of tokens the engine would write if nothing limited it. Written `16` or `16..64`, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    min: u64,
    max: u64,
}

impl Tokens {
    /// Always `tokens`, or one where that is zero.
    pub fn fixed(tokens: u64) -> Tokens {
        let tokens = tokens.clamp(1, MOST);
        Tokens {
            min: tokens,
            max: tokens,
        }
    }

    /// Any number from `min` to `max`, all equally likely.
    ///
    /// # Errors
    /// When `min` is zero, `max` is below `min`, or `max` is over a million.
    pub fn range(min: u64, max: u64) -> Result<Tokens, TokensError> {
        if min == 0 || max < min || max > MOST {
            return Err(TokensError::NoSuchRange { min, max });
        }
        Ok(Tokens { min, max })
    }

    /// One draw.
    pub(crate) fn draw(self, chance: &mut SmallRng) -> u64 {
        chance.random_range(self.min..=self.max)
    }
}

/// The longest answer.
const MOST: u64 = 1_000_000;

/// Why a text is not a number of tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// Neither a whole number nor two of them.
    #[error("tokens are a number or a range such as \"16..64\", found {0:?}")]
    NotANumber(String),
    /// Numbers that make no range.
    #[error("tokens are from 1 to {MOST}, the smaller number first, found {min}..{max}")]
    NoSuchRange {
        /// The first.
        min: u64,
        /// The second.
        max: u64,
    },
}

impl FromStr for Tokens {
    type Err = TokensError;

    fn from_str(text: &str) -> Result<Tokens, TokensError> {
        let number = |part: &str| {
            part.trim()
                .parse::<u64>()
                .map_err(|_| TokensError::NotANumber(text.to_owned()))
        };
        match text.split_once("..") {
            Some((min, max)) => Tokens::range(number(min)?, number(max)?),
            None => number(text).and_then(|tokens| Tokens::range(tokens, tokens)),
        }
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}..{}", self.min, self.max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::generator;

    #[test]
    fn both_ends_of_a_range_are_drawn_and_nothing_outside_it() {
        let tokens: Tokens = "3..5".parse().unwrap();
        let mut chance = generator(1, "tokens", b"");
        let drawn: std::collections::BTreeSet<_> =
            (0..200).map(|_| tokens.draw(&mut chance)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn the_written_form_round_trips_and_nonsense_is_refused() {
        for text in ["1", "16", "16..64"] {
            assert_eq!(text.parse::<Tokens>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "5..3", "0..4", "a..b", "1..2000000"] {
            assert!(text.parse::<Tokens>().is_err(), "{text:?}");
        }
    }
}
