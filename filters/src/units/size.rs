//! An amount of bytes, written with its unit.

use std::fmt;
use std::str::FromStr;

use crate::written::{Misfit, Written, written};

/// An amount of bytes: a whole number and `B`, `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024) or `kB`, `MB`,
/// `GB`, `TB` (powers of 1000).
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Size(u64);

// From the largest to the smallest, so that printing finds the shortest exact form first.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

impl Size {
    /// A size of so many bytes.
    pub const fn new(bytes: u64) -> Size {
        Size(bytes)
    }

    /// The amount in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Size, Misfit> {
        read(text).ok_or_else(|| Misfit::of::<Size>(text))
    }
}

fn read(text: &str) -> Option<Size> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number: u64 = number.parse().ok()?;
    number.checked_mul(*factor).map(Size)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in UNITS {
            if self.0 > 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        f.write_str("0B")
    }
}

impl Written for Size {
    const ALLOWED: &'static str =
        "a size needs a unit, such as \"512B\", \"64KiB\", \"1MiB\" or \"10MB\"";
    const PATTERN: &'static str = "^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB|TB|TiB)$";
    const EXAMPLE: &'static str = "64KiB";
}

written!(Size, deserialize_any);
