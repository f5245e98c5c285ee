//! Values that a person writes as one piece of text: how they are read from YAML and JSON, written
//! back, and described in the schema.
//!
//! In: a value of any type, as a deserializer hands it over. Out: the parsed value, or a message that
//! says what was found and what is allowed. A number is never taken for a text whose unit was forgotten.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};

/// A value with one textual form. `Display` and `FromStr` must round-trip.
pub(crate) trait Written: FromStr<Err: fmt::Display> + fmt::Display {
    /// What is allowed, as the beginning of a message that `; found …` ends.
    const ALLOWED: &'static str;
    /// A regular expression that every allowed text matches (JSON Schema's `pattern`).
    const PATTERN: &'static str;
    /// A text to copy.
    const EXAMPLE: &'static str;
}

/// A text that is not what is allowed here.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{allowed}; found {found:?}")]
pub struct Misfit {
    /// What is allowed.
    pub allowed: &'static str,
    /// The start of what was found: at most 64 characters and a mark that more was there.
    pub found: String,
}

impl Misfit {
    /// A misfit for a type, with the text that was found.
    pub(crate) fn of<T: Written>(found: &str) -> Misfit {
        Misfit {
            allowed: T::ALLOWED,
            found: start(found),
        }
    }
}

/// The first 64 characters of a text, marked when there is more.
///
/// A message may be logged and sent, so it must not grow with what somebody else wrote.
pub fn start(text: &str) -> String {
    let mut chars = text.chars();
    let mut start: String = chars.by_ref().take(64).collect();
    if chars.next().is_some() {
        start.push('…');
    }
    start
}

/// Reads a [`Written`] value out of whatever the deserializer found.
pub(crate) struct Reader<T>(PhantomData<T>);

impl<T> Reader<T> {
    pub(crate) fn new() -> Reader<T> {
        Reader(PhantomData)
    }
}

impl<'de, T: Written> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text such as {:?} ({})", T::EXAMPLE, T::ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, found: u64) -> Result<T, E> {
        Err(unfit::<T, E>(format_args!("the number {found}")))
    }

    fn visit_i64<E: Error>(self, found: i64) -> Result<T, E> {
        Err(unfit::<T, E>(format_args!("the number {found}")))
    }

    fn visit_f64<E: Error>(self, found: f64) -> Result<T, E> {
        Err(unfit::<T, E>(format_args!("the number {found}")))
    }

    fn visit_bool<E: Error>(self, found: bool) -> Result<T, E> {
        Err(unfit::<T, E>(format_args!("{found}")))
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Err(unfit::<T, E>(format_args!("nothing")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        Err(unfit::<T, A::Error>(format_args!("a list")))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        Err(unfit::<T, A::Error>(format_args!("a map")))
    }
}

fn unfit<T: Written, E: Error>(found: fmt::Arguments<'_>) -> E {
    E::custom(format_args!("{}; found {found}", T::ALLOWED))
}

/// Gives a [`Written`] type its serde and schema forms.
///
/// The second argument says how a bare YAML scalar is read: `deserialize_any` keeps numbers numbers, so
/// that a forgotten unit is named in the message; `deserialize_str` takes `123` for the text it is.
macro_rules! written {
    ($type:ident, $read:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.$read($crate::written::Reader::<$type>::new())
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use $crate::written::Written;
                schemars::json_schema!({
                    "type": "string",
                    "description": <$type>::ALLOWED,
                    "pattern": <$type>::PATTERN,
                    "examples": [<$type>::EXAMPLE],
                })
            }
        }
    };
}
pub(crate) use written;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Written;
    use crate::feedback::{Id, Metric};
    use crate::rules::{Address, Name, Tag};
    use crate::units::{Moment, Period, Share, Size};

    /// What can be read matches the schema's pattern, and so does what is printed.
    fn check<T: Written>(text: &str) {
        let pattern = regex_lite::Regex::new(T::PATTERN).unwrap();
        if let Ok(value) = text.parse::<T>() {
            assert!(
                pattern.is_match(text),
                "{text:?} is read, but not by {pattern}"
            );
            assert!(
                pattern.is_match(&value.to_string()),
                "{value} is printed, but not by {pattern}"
            );
        }
    }

    fn check_all(text: &str) {
        check::<Share>(text);
        check::<Period>(text);
        check::<Size>(text);
        check::<Name>(text);
        check::<Tag>(text);
        check::<Address>(text);
        check::<Id>(text);
        check::<Metric>(text);
        check::<Moment>(text);
    }

    #[test]
    fn an_example_can_be_copied() {
        fn check<T: Written>() {
            assert!(T::EXAMPLE.parse::<T>().is_ok(), "{}", T::EXAMPLE);
            check_all(T::EXAMPLE);
        }
        check::<Share>();
        check::<Period>();
        check::<Size>();
        check::<Name>();
        check::<Tag>();
        check::<Address>();
        check::<Id>();
        check::<Metric>();
        check::<Moment>();
    }

    proptest! {
        #[test]
        fn the_schema_allows_what_can_be_read(
            any in "\\PC{0,8}",
            share in "[0-9]{1,4}(\\.[0-9]{0,5})?%",
            period in "([0-9]{1,3}[numshd]s?){1,3}",
            size in "[0-9]{1,21}[kKMGT]?i?B",
            moment in "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{0,10})?Z",
            address in "http://(\\[[0-9a-f:.]{1,12}\\]|[0-9a-zA-Z._-]{1,8})(:[0-9]{0,6})?",
        ) {
            for text in [any, share, period, size, moment, address] {
                check_all(&text);
            }
        }
    }
}
