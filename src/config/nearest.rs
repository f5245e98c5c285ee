//! Which of the words that are allowed was meant.
//!
//! In: a word that was found, and those that are allowed. Out: the one that differs from it by a slip of the hand, if one does.

use greylag_filters::rules::{Problem, Rules, Step};

/// Longer words are no slips of allowed ones.
const LONGEST: usize = 64;

/// `; did you mean …?` after a message, or nothing.
pub(super) fn hint<'a>(found: &str, allowed: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(found, allowed) {
        Some(word) => format!("; did you mean {word:?}?"),
        None => String::new(),
    }
}

/// The hint to a problem with an engine that is not defined.
pub(super) fn engine(rules: &Rules, problem: &Problem) -> String {
    let engines = || rules.engines.keys().map(|name| name.as_str());
    let unknown = |path: String, name: &str| {
        let is_it = problem.path == path && engines().all(|engine| engine != name);
        is_it.then(|| hint(name, engines()))
    };
    let default = || unknown("rules.default_engine".into(), rules.default_engine.as_str());
    let weights = rules.splits.iter().enumerate().flat_map(|(index, split)| {
        let names = split.weights.keys().map(|name| name.as_str());
        names.map(move |name| (format!("rules.splits[{index}].weights{}", Step(name)), name))
    });
    let mut weights = weights.filter_map(|(path, name)| unknown(path, name));
    default().or_else(|| weights.next()).unwrap_or_default()
}

/// The nearest of these words, where one is near.
pub(super) fn nearest<'a>(
    found: &str,
    allowed: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let alike = |word: &str| word.to_ascii_lowercase().replace('-', "_");
    if found.len() > LONGEST {
        return None;
    }
    let found = alike(found);
    let slips = |word: &str| strsim::osa_distance(&found, &alike(word));
    // One slip, and one more for every four letters.
    let most = 1 + found.chars().count() / 4;
    let near = allowed.into_iter().map(|word| (slips(word), word));
    // Of words of two letters each is a slip of every other.
    let near = near.filter(|(slips, word)| *slips <= most && *slips < word.chars().count().min(3));
    near.min_by_key(|(slips, _)| *slips).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_told_from_another_word() {
        let check = |found: &str, expected: Option<&str>| {
            let allowed = ["weights", "name", "tls", "on_unhealthy", "h2c", "stable-a"];
            assert_eq!(nearest(found, allowed), expected, "{found}");
        };
        check("weigths", Some("weights"));
        check("wieght", Some("weights"));
        check("Weights", Some("weights"));
        check("nam", Some("name"));
        check("tsl", Some("tls"));
        check("on-unhealthy", Some("on_unhealthy"));
        check("onUnhealthy", Some("on_unhealthy"));
        check("stabel-a", Some("stable-a"));
        check("h2", Some("h2c"));
        check("matches", None);
        check("x", None);
        check("", None);
        check(&"weights".repeat(20), None);
    }
}
