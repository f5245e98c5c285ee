//! Lengths of time on the command line.
//!
//! In: text, in the form that the configuration and the API have. Out: a length of time that can be waited for, or what is allowed.

use std::ops::RangeInclusive;
use std::time::Duration;

use greylag_filters::units::Period;

/// A length of time.
///
/// # Errors
/// It is none, or so long that nobody waits for it.
pub fn period(text: &str) -> Result<Duration, String> {
    between(text, Duration::ZERO..=Period::LONGEST)
}

/// A length of time from one to another.
///
/// # Errors
/// It is none, or not between these.
pub fn between(text: &str, allowed: RangeInclusive<Duration>) -> Result<Duration, String> {
    let found: Period = text.parse().map_err(|misfit| format!("{misfit}"))?;
    if allowed.contains(&found.get()) {
        return Ok(found.get());
    }
    let [least, most] = [allowed.start(), allowed.end()].map(|bound| Period::from(*bound));
    Err(format!("allowed are {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_read_and_else_is_named() {
        let [least, most] = [Duration::from_millis(100), Duration::from_secs(3600)];
        let read = |text: &str| between(text, least..=most);
        for (text, expected) in [
            ("100ms", least),
            ("1h", most),
            ("59m60s", most),
            ("1m30s", Duration::from_secs(90)),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in ["99ms", "1h1ns"] {
            assert_eq!(read(text), Err("allowed are 100ms to 1h".into()), "{text}");
        }
        for text in ["", "1", "1 s", "1min", "-1s"] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains("a duration needs a unit"), "{refused}");
        }
        assert!(period("365d").is_ok() && period("366d").is_err());
    }
}
