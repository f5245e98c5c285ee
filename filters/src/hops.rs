//! How many Greylags a request has passed.
//!
//! In: a head's fields. Out: the number that `x-greylag-hop` says, or none where it says none that makes sense; and what
//! the next one is told. Whether the sender is believed is not known here.

use http::HeaderMap;

/// The field that says it: a whole number from 1 on.
pub const FIELD: &str = "x-greylag-hop";

/// So many Greylags a request may have passed; the one after them answers 508, since it must be going in a circle.
pub const MOST: u8 = 4;

/// How many Greylags a request has passed before this one.
///
/// A field that is repeated, has more than three digits or is anything but a number from 1 to 255 counts as none: no
/// Greylag has written it.
pub fn passed(headers: &HeaderMap) -> u8 {
    let mut values = headers.get_all(FIELD).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return 0;
    };
    let digits = value.as_bytes();
    if !digits.iter().all(u8::is_ascii_digit) || digits.len() > 3 {
        return 0;
    }
    let number = digits
        .iter()
        .fold(0u16, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    u8::try_from(number).unwrap_or(0)
}

/// Whether a request that has passed so many may pass this one too.
pub fn may_go_on(passed: u8) -> bool {
    passed < MOST
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn said(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FIELD, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_small_number_is_read_and_nothing_else() {
        let check = |values: &[&str], number: u8| {
            assert_eq!(passed(&said(values)), number, "{values:?}");
        };
        check(&[], 0);
        check(&["1"], 1);
        check(&["4"], 4);
        check(&["007"], 7);
        check(&["255"], 255);
        for nonsense in [
            "", "0", "256", "0001", "-1", "+1", "1 ", "1,2", "one", "1.0",
        ] {
            check(&[nonsense], 0);
        }
        // Whoever said it twice is none of ours.
        check(&["1", "1"], 0);
        check(&["1", "2"], 0);
    }

    #[test]
    fn the_fifth_in_a_row_is_one_too_many() {
        let check = |passed: u8, may: bool| assert_eq!(may_go_on(passed), may, "{passed}");
        check(0, true);
        check(3, true);
        check(4, false);
        check(255, false);
    }

    proptest! {
        #[test]
        fn what_one_writes_the_next_reads(number in 1_u8..) {
            prop_assert_eq!(passed(&said(&[&number.to_string()])), number);
        }

        #[test]
        fn no_value_panics(bytes: Vec<u8>) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                headers.append(FIELD, value);
                passed(&headers);
            }
        }
    }
}
