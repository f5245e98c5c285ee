//! What is wrong with rules, and where.

use std::fmt;

/// One thing that is wrong with rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Where, from `rules` down: `rules.splits[0].weights.candidate`.
    pub path: String,
    /// What was found and what is allowed, in lower case and without a full stop.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// A place in the rules; made longer on the way down, turned into text only for a problem.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// The beginning of every path.
    Rules,
    /// A key of a map.
    Key(&'a Place<'a>, &'a str),
    /// An entry of a list, counted from 0.
    Entry(&'a Place<'a>, usize),
}

impl<'a> Place<'a> {
    pub(crate) fn key(&'a self, key: &'a str) -> Place<'a> {
        Place::Key(self, key)
    }

    pub(crate) fn entry(&'a self, index: usize) -> Place<'a> {
        Place::Entry(self, index)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Rules => f.write_str("rules"),
            Place::Key(above, key) => write!(f, "{above}{}", Step(key)),
            Place::Entry(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// A key as it stands in a path: `.key`, or `["a key"]` where a dot or a space in it would make the path ambiguous.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a>(pub &'a str);

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step(key) = self;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if !key.is_empty() && key.bytes().all(plain) {
            write!(f, ".{key}")
        } else {
            write!(f, "[{:?}]", crate::written::start(key))
        }
    }
}

/// All problems found so far.
#[derive(Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, place: Place<'_>, what: impl fmt::Display) {
        self.0.push(Problem {
            path: place.to_string(),
            what: what.to_string(),
        });
    }

    pub(crate) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// Names for a message: `"a", "b"`, or `none`; the first 16 of many.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.map(|name| format!("{name:?}"));
    let mut list = names.by_ref().take(16).collect::<Vec<_>>().join(", ");
    let more = names.count();
    if list.is_empty() {
        list.push_str("none");
    }
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::{Place, list};

    #[test]
    fn a_path_leads_from_the_rules_down() {
        let splits = Place::Rules.key("splits");
        let split = splits.entry(0);
        let weights = split.key("weights");
        assert_eq!(
            weights.key("candidate").to_string(),
            "rules.splits[0].weights.candidate"
        );
        assert_eq!(
            weights.key("a.b").to_string(),
            "rules.splits[0].weights[\"a.b\"]"
        );
        assert_eq!(weights.key("").to_string(), "rules.splits[0].weights[\"\"]");
    }

    #[test]
    fn a_list_of_names_stays_short() {
        assert_eq!(list([].into_iter()), "none");
        assert_eq!(list(["a", "b"].into_iter()), "\"a\", \"b\"");
        assert!(list(["a"; 20].into_iter()).ends_with("\"a\" and 4 more"));
    }
}
