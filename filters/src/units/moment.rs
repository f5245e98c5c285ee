//! A point in time, written as RFC 3339 has it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::written::{Misfit, Written, written};

/// A point in time, to the millisecond, in UTC: `2026-12-01T10:30:00.000Z`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Moment(u64);

impl Moment {
    // The last millisecond of the year 9999, beyond which RFC 3339 has no text.
    const LAST: u64 = 253_402_300_799_999;

    /// The moment that many milliseconds after 1970 began.
    pub fn at(milliseconds: u64) -> Moment {
        Moment(milliseconds.min(Moment::LAST))
    }

    /// How long after `earlier` it is; zero if it is before it.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment so much later; the last one that can be written, if that is beyond it.
    pub fn after(self, by: Duration) -> Moment {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Moment::at(self.0.saturating_add(by))
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Moment {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(0).after(since)
    }
}

impl From<Moment> for SystemTime {
    fn from(moment: Moment) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(moment.0)
    }
}

impl FromStr for Moment {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Moment, Misfit> {
        // The library also takes years before 1970 for some moment after it.
        match humantime::parse_rfc3339(text) {
            Ok(time) if time >= UNIX_EPOCH => Ok(time.into()),
            Ok(_) | Err(_) => Err(Misfit::of::<Moment>(text)),
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis((*self).into()).fmt(f)
    }
}

impl Written for Moment {
    const ALLOWED: &'static str =
        "a point in time is written as RFC 3339 has it, in UTC, from 1970 on";
    const PATTERN: &'static str =
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]*)?Z$";
    const EXAMPLE: &'static str = "2026-12-01T10:30:00Z";
}

written!(Moment, deserialize_any);
