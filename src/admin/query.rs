//! The query of a request, read strictly.
//!
//! In: `a=1&b=2`. Out: the values of the keys that are allowed, each at most once, or a problem that says which are.
//! A key that is misspelt is never ignored: `dry-run=true` would otherwise publish.

use std::fmt;

use schemars::{Schema, json_schema};

use super::problem::{Code, Problem, start};

/// The pairs of a query, as axum's `Query` gives them.
pub type Pairs = Vec<(String, String)>;

/// A key of a query.
#[derive(Debug)]
pub struct Param {
    /// The key.
    pub name: &'static str,
    /// What it means.
    pub what: &'static str,
    /// What is allowed.
    pub kind: ParamKind,
}

/// What a value of a query may be.
#[derive(Debug, Clone, Copy)]
pub enum ParamKind {
    /// `true` or `false`.
    Flag,
    /// A whole number from 1 to this.
    UpTo(usize),
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// Text of 1 to so many characters.
    Text(usize),
    /// A point in time, or how long from now.
    End,
}

impl ParamKind {
    /// The schema of a value.
    pub fn schema(self) -> Schema {
        match self {
            ParamKind::Flag => json_schema!({ "type": "boolean" }),
            ParamKind::UpTo(most) => {
                json_schema!({ "type": "integer", "minimum": 1, "maximum": most })
            }
            ParamKind::Word(words) => json_schema!({ "type": "string", "enum": words() }),
            ParamKind::Text(most) => {
                json_schema!({ "type": "string", "minLength": 1, "maxLength": most })
            }
            ParamKind::End => {
                json_schema!({ "type": "string", "examples": ["30m"] })
            }
        }
    }
}

impl Param {
    // Of text: whether it is one that is allowed. The others are read by whoever takes them.
    fn check(&self, value: &str) -> Result<(), Problem> {
        match self.kind {
            ParamKind::Word(words) => {
                let words = words();
                if words.contains(&value) {
                    return Ok(());
                }
                let (found, allowed) = (start(value), words.join(", "));
                Err(self.wrong(format!("found {found:?}, allowed: {allowed}")))
            }
            ParamKind::Text(most) => {
                let length = value.chars().count();
                if (1..=most).contains(&length) {
                    return Ok(());
                }
                Err(self.wrong(format!(
                    "found {length} characters, allowed are 1 to {most}"
                )))
            }
            ParamKind::Flag | ParamKind::UpTo(_) | ParamKind::End => Ok(()),
        }
    }

    /// A problem with its value.
    pub fn wrong(&self, what: impl fmt::Display) -> Problem {
        bad(format!("{}: {what}", self.name))
    }

    /// A value that is `true` or `false`, or `default` if there is none.
    ///
    /// # Errors
    /// Another value.
    pub fn flag(&self, value: Option<String>, default: bool) -> Result<bool, Problem> {
        match value.as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => {
                let found = start(other);
                Err(self.wrong(format!("found {found:?}, allowed are true and false")))
            }
        }
    }

    /// A value that is a whole number from 1 to `most`, if there is one.
    ///
    /// # Errors
    /// Another value.
    pub fn up_to(&self, value: Option<String>, most: usize) -> Result<Option<usize>, Problem> {
        let Some(text) = value else {
            return Ok(None);
        };
        match text.parse::<usize>() {
            Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => {
                let found = start(&text);
                Err(self.wrong(format!("found {found:?}, allowed are 1 to {most}")))
            }
        }
    }
}

/// The values of the `allowed` keys, in their order.
///
/// # Errors
/// Another key, a key that stands twice, or a text that is not allowed.
pub fn take<const N: usize>(
    pairs: Pairs,
    allowed: [&Param; N],
) -> Result<[Option<String>; N], Problem> {
    let mut values = [const { None }; N];
    for (key, value) in pairs {
        let slot = allowed
            .iter()
            .zip(&mut values)
            .find_map(|(param, slot)| (param.name == key).then_some((param, slot)));
        match slot {
            Some((param, slot @ None)) => {
                param.check(&value)?;
                *slot = Some(value);
            }
            Some((_, Some(_))) => return Err(bad(format!("{key:?} stands in the query twice"))),
            None => {
                let keys = allowed.map(|param| param.name).join(", ");
                let key = start(&key);
                return Err(bad(format!("found {key:?} in the query; allowed: {keys}")));
            }
        }
    }
    Ok(values)
}

/// A problem with the query.
pub fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Code::BadQuery, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Param = Param {
        name: "a",
        what: "",
        kind: ParamKind::Text(3),
    };
    const B: Param = Param {
        name: "b",
        what: "",
        kind: ParamKind::Word(|| vec!["1", "2"]),
    };

    fn check(pairs: &[(&str, &str)], expected: Result<[Option<&str>; 2], &str>) {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        let found = take(pairs.collect(), [&A, &B]);
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.each_ref().map(|v| v.as_deref()), expected)
            }
            (Err(problem), Err(part)) => {
                assert!(format!("{problem:?}").contains(part), "{problem:?}")
            }
            (found, _) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn only_the_allowed_keys_are_taken_each_once() {
        check(&[], Ok([None, None]));
        check(&[("b", "1")], Ok([None, Some("1")]));
        check(&[("b", "1"), ("a", "x")], Ok([Some("x"), Some("1")]));
        check(
            &[("a", "")],
            Err("a: found 0 characters, allowed are 1 to 3"),
        );
        check(&[("a", "four")], Err("found 4 characters"));
        check(&[("b", "3")], Err("b: found \\\"3\\\", allowed: 1, 2"));
        check(&[("c", "1")], Err("allowed: a, b"));
        check(&[("a", "1"), ("a", "1")], Err("twice"));
    }
}
