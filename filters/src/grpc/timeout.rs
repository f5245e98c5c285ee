//! How long a caller waits, as `grpc-timeout` says it.
//!
//! In: the field's value. Out: a duration, and the same written. What is written is never less than what was meant, so
//! that rounding cuts no call short.

use std::time::Duration;

/// A `grpc-timeout` that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found no gRPC timeout, allowed are 1 to 8 digits and one of H, M, S, m, u, n, such as 250m"
)]
pub struct BadTimeout;

/// The units from the finest, with the nanoseconds in each.
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// The largest number that may stand before a unit: eight digits.
const MOST: u128 = 99_999_999;

/// Reads the value of a `grpc-timeout` field: up to eight digits and a unit. Zero is a timeout that has passed.
///
/// # Errors
/// [`BadTimeout`] for anything else.
pub fn read_timeout(value: &[u8]) -> Result<Duration, BadTimeout> {
    let (unit, digits) = value.split_last().ok_or(BadTimeout)?;
    let (_, nanos) = UNITS
        .iter()
        .find(|(letter, _)| letter == unit)
        .ok_or(BadTimeout)?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BadTimeout);
    }
    let count = digits
        .iter()
        .fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    // 99999999 hours are more nanoseconds than 64 bits hold.
    Ok(match nanos / 1_000_000_000 {
        0 => Duration::from_nanos(count * nanos),
        seconds => Duration::from_secs(count * seconds),
    })
}

/// Writes a duration as a `grpc-timeout`, in the finest unit in which eight digits hold it, rounded up. What is longer
/// than 99999999 hours becomes those.
pub fn write_timeout(timeout: Duration) -> String {
    for (unit, nanos) in UNITS {
        let count = timeout.as_nanos().div_ceil(u128::from(nanos));
        if count <= MOST {
            return format!("{count}{}", char::from(unit));
        }
    }
    format!("{MOST}H")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        let check = |value: &str, expected: Duration| {
            assert_eq!(read_timeout(value.as_bytes()), Ok(expected), "{value}");
        };
        // as NVIDIA's client sent it
        check("1m", Duration::from_millis(1));
        check("2H", Duration::from_secs(7200));
        check("3M", Duration::from_secs(180));
        check("4S", Duration::from_secs(4));
        check("5u", Duration::from_micros(5));
        check("6n", Duration::from_nanos(6));
        check("0S", Duration::ZERO);
        check("00000010m", Duration::from_millis(10));
        check("99999999H", Duration::from_secs(99_999_999 * 3600));
        check("99999999S", Duration::from_secs(99_999_999));
    }

    #[test]
    fn anything_else_is_no_timeout() {
        for value in [
            "",
            "S",
            "1",
            "123456789S",
            "1s",
            "1h",
            "-1S",
            "+1S",
            " 1S",
            "1 S",
            "1S ",
            "1.5S",
            "١S",
        ] {
            assert_eq!(read_timeout(value.as_bytes()), Err(BadTimeout), "{value}");
        }
    }

    #[test]
    fn a_timeout_is_written_in_the_finest_unit_that_holds_it() {
        let check = |timeout: Duration, expected: &str| {
            assert_eq!(write_timeout(timeout), expected);
        };
        check(Duration::ZERO, "0n");
        check(Duration::from_nanos(99_999_999), "99999999n");
        check(Duration::from_nanos(100_000_001), "100001u");
        check(Duration::from_secs(1), "1000000u");
        check(Duration::from_secs(100), "100000m");
        check(Duration::from_secs(1_000_000), "1000000S");
        check(Duration::MAX, "99999999H");
    }

    proptest! {
        #[test]
        fn what_was_written_reads_as_no_less_and_hardly_more(seconds in 0u64..359_999_996_400, nanos in 0u32..1_000_000_000) {
            let timeout = Duration::new(seconds, nanos);
            let read = read_timeout(write_timeout(timeout).as_bytes()).expect("it was written well");
            prop_assert!(read >= timeout);
            // Eight digits, of which at least five count when a unit is 60 or 1000 of the one before.
            prop_assert!(read - timeout <= timeout / 10_000 + Duration::from_nanos(1));
        }

        #[test]
        fn any_value_is_read_or_refused(value: Vec<u8>) {
            if let Ok(timeout) = read_timeout(&value) {
                prop_assert!(timeout <= Duration::from_secs(99_999_999 * 3600));
            }
        }
    }
}
