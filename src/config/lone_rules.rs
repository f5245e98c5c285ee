//! Reads rules that stand alone, as they are sent to the admin API.
//!
//! In: a text: what stands under `rules`, or a whole configuration, of which the rules are taken. Out: the rules, or all that cannot be
//! read, with its places in that text. Whether they fit together is not looked at: a secret that is hidden is known only where it is in
//! force.

use greylag_filters::rules::Rules;
use serde_saphyr::Error;

use super::Config;
use super::read::{Fault, parse, planted};
use super::survey::{self, Survey};
use super::tree::{Origin, ROOT, Step, Tree};

impl Config {
    /// The rules in the text of a file called `name`.
    ///
    /// # Errors
    /// A [`Fault`].
    pub fn read_rules(text: &str, name: &str) -> Result<Rules, Fault> {
        // Looked at as it is first, so that what is no YAML is told with its own places. What a configuration misses there, rules may.
        let parsed = parse(text, name)?.err();
        let empty = parsed.filter(|error| matches!(error, Error::Eof { .. }));
        let mut tree = planted(empty.as_ref(), text, name)?;
        let read = match holds_rules(&tree) {
            true => survey::read(&mut tree),
            false => survey::read(&mut wrapped(text, name)?).map_err(unwrapped),
        };
        let config = read.map_err(|survey| survey.failed(name).0)?;
        Ok(config.rules)
    }
}

fn holds_rules(tree: &Tree) -> bool {
    let mut keys = tree.within(ROOT).map(|(_, entry)| &entry.step);
    keys.any(|step| matches!(step, Step::Key(key) if key == "rules"))
}

// A configuration with nothing but them: one line further down, and one column to the right.
fn wrapped(text: &str, name: &str) -> Result<Tree, Fault> {
    let mut whole = String::from("rules:\n");
    for line in text.lines() {
        // Where a document begins or ends is nothing within one.
        let marker = ["---", "...", "%"]
            .into_iter()
            .find(|marker| line.starts_with(marker));
        let line = match marker {
            Some("%") => "",
            Some(marker) => line.strip_prefix(marker).unwrap_or_default(),
            None => line,
        };
        whole.push_str(if marker.is_some() { "    " } else { " " });
        whole.push_str(line);
        whole.push('\n');
    }
    planted(None, &whole, name)
}

fn unwrapped(mut survey: Survey) -> Survey {
    for finding in &mut survey.findings {
        if let Origin::File((line, column)) = &mut finding.origin {
            *line = line.saturating_sub(1).max(1);
            *column = column.saturating_sub(1).max(1);
        }
    }
    survey
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "engines: { stable: { kind: vllm, url: \"http://127.0.0.1:9\" } }\ndefault_engine: stable\n";

    #[test]
    fn rules_are_read_alone_or_out_of_a_configuration_in_any_form() {
        let expected = Config::read_rules(RULES, "a").unwrap();
        let json = serde_json::to_string(&expected).unwrap();
        let indented = RULES
            .replace("engines:", "  engines:")
            .replace("default", "  default");
        for text in [
            format!("rules:\n{indented}"),
            format!("workers: 2\nrules: {json}\n"),
            json.clone(),
            serde_json::to_string_pretty(&expected).unwrap(),
            format!("{{\"rules\":{json}}}"),
            format!("# why\n---\n{RULES}"),
            format!("%YAML 1.2\n---\n{RULES}...\n"),
            format!("--- {json}\n"),
        ] {
            let rules =
                Config::read_rules(&text, "a").unwrap_or_else(|fault| panic!("{fault}\n{text}"));
            assert_eq!(rules, expected, "{text}");
        }
    }

    #[test]
    fn what_a_secret_stands_for_is_not_asked_here() {
        let with = RULES.replace("url:", "headers: { authorization: \"<hidden>\" }, url:");
        assert!(Config::read_rules(&with, "a").is_ok());
    }

    #[test]
    fn all_that_cannot_be_read_is_told_with_its_place() {
        let check = |text: &str, expected: &[&str]| {
            let fault = Config::read_rules(text, "a.yaml").unwrap_err().to_string();
            assert_eq!(fault.lines().collect::<Vec<_>>(), expected, "{text}");
        };
        check(
            "engine: {}\ndefault_engine: stable\nengines:\n  stable: { kind: vllm, url: 'http://a', typo: 1 }\n",
            &[
                "a.yaml:1:1: rules: unknown key \"engine\"; allowed: engines, default_engine, splits, routes, traffic, trace; did you mean \"engines\"?",
                "a.yaml:4:42: rules.engines.stable: unknown key \"typo\"; allowed: kind, url, grpc, tag, set, usage, headers, api_key_file, tls, host, timeouts, pool, health",
            ],
        );
        check("a: [\n", &["a.yaml:1:4: unclosed bracket '['"]);
        check(
            "default_engine: stable\nengines:\n\tstable: {}\n",
            &["a.yaml:3:1: found a tab in the indentation; YAML is indented by spaces"],
        );
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_read_gives_rules_or_names_the_file(
            text in "(engines|rules|default_engine|: |\\{|\\}|\n|  |- |a|---|%|\"|\\[|\\]|#|\\|){0,24}",
        ) {
            if let Err(fault) = Config::read_rules(&text, "a.yaml") {
                let fault = fault.to_string();
                proptest::prop_assert!(fault.lines().all(|line| line.starts_with("a.yaml:")), "{}", fault);
            }
        }
    }
}
