//! The query of a request, read strictly.
//!
//! In: `a=1&b=2`. Out: the values of the keys that are allowed, each at most once, or a problem that says which are.
//! A key that is misspelt is never ignored: `dry-run=true` would otherwise publish.

use super::problem::{Code, Problem, start};

/// The pairs of a query, as axum's `Query` gives them.
pub type Pairs = Vec<(String, String)>;

/// The values of the `allowed` keys, in their order.
///
/// # Errors
/// Another key, or a key that stands twice.
pub fn take<const N: usize>(
    pairs: Pairs,
    allowed: [&str; N],
) -> Result<[Option<String>; N], Problem> {
    let mut values = [const { None }; N];
    for (key, value) in pairs {
        let slot = allowed
            .iter()
            .zip(&mut values)
            .find_map(|(name, slot)| (*name == key).then_some(slot));
        match slot {
            Some(slot @ None) => *slot = Some(value),
            Some(Some(_)) => return Err(bad(format!("{key:?} stands in the query twice"))),
            None => {
                let keys = allowed.join(", ");
                let key = start(&key);
                return Err(bad(format!("found {key:?} in the query; allowed: {keys}")));
            }
        }
    }
    Ok(values)
}

/// A key that is `true` or `false`, or what it is if it is not there.
///
/// # Errors
/// Another value.
pub fn flag(name: &str, value: Option<String>, default: bool) -> Result<bool, Problem> {
    match value.as_deref() {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => {
            let found = start(other);
            Err(bad(format!(
                "{name}: found {found:?}, allowed are true and false"
            )))
        }
    }
}

/// A key that is a whole number from 1 to `most`, if it is there.
///
/// # Errors
/// Another value.
pub fn up_to(name: &str, value: Option<&str>, most: usize) -> Result<Option<usize>, Problem> {
    let Some(text) = value else {
        return Ok(None);
    };
    match text.parse::<usize>() {
        Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
        Ok(_) | Err(_) => {
            let found = start(text);
            Err(bad(format!(
                "{name}: found {found:?}, allowed are 1 to {most}"
            )))
        }
    }
}

/// A problem with the query.
pub fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Code::BadQuery, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], expected: Result<[Option<&str>; 2], &str>) {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        let found = take(pairs.collect(), ["a", "b"]);
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
        check(&[("b", "1"), ("a", "")], Ok([Some(""), Some("1")]));
        check(&[("c", "1")], Err("allowed: a, b"));
        check(&[("a", "1"), ("a", "1")], Err("twice"));
    }
}
