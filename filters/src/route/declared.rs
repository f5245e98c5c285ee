//! The paths that rules add to the inference routes.
//!
//! In: `rules.routes`, then paths without their query. Out: the dialect of a path, if it was given one. A path that is an
//! inference route of its own accord is never asked for here. Nothing grows after rules are compiled.

use super::Route;
use crate::meter::Dialect;
use crate::rules::Ordered;
use crate::rules::problem::{Place, Problems, list};
use crate::written::start;

/// Compiled `rules.routes`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    exact: Vec<(Box<str>, Dialect)>,
    // the longest first, so that the first that fits is the one that counts
    beginnings: Vec<(Box<str>, Dialect)>,
}

impl Declared {
    /// The compiled routes; what is wrong with them goes to `problems`.
    pub(crate) fn compile(
        rules: &Ordered<String, String>,
        place: Place<'_>,
        problems: &mut Problems,
    ) -> Declared {
        let mut declared = Declared::default();
        for (path, name) in rules.iter() {
            let place = place.key(path);
            if let Some(what) = fault(path) {
                problems.add(place, what);
            }
            let dialect = Dialect::named(name).filter(|dialect| dialect.is_declarable());
            let Some(dialect) = dialect else {
                let allowed = Dialect::ALL
                    .iter()
                    .filter(|dialect| dialect.is_declarable());
                let allowed = list(allowed.map(|dialect| dialect.name()));
                let found = start(name);
                problems.add(
                    place,
                    format_args!("{found:?} is no dialect (allowed: {allowed})"),
                );
                continue;
            };
            match path.strip_suffix('*') {
                Some(beginning) => declared.beginnings.push((beginning.into(), dialect)),
                None => declared.exact.push((path.as_str().into(), dialect)),
            }
        }
        let length = |(path, _): &(Box<str>, Dialect)| std::cmp::Reverse(path.len());
        declared.beginnings.sort_by_key(length);
        declared
    }

    /// The dialect of a path: that of the same path, else of its longest beginning.
    pub(crate) fn dialect(&self, path: &str) -> Option<Dialect> {
        let same = self.exact.iter().find(|(exact, _)| **exact == *path);
        let found = same.or_else(|| {
            let mut beginnings = self.beginnings.iter();
            beginnings.find(|(beginning, _)| path.starts_with(&**beginning))
        });
        found.map(|(_, dialect)| *dialect)
    }
}

/// What is wrong with a declared path.
fn fault(path: &str) -> Option<String> {
    let (body, is_beginning) = match path.strip_suffix('*') {
        Some(body) => (body, true),
        None => (path, false),
    };
    let found = start(path);
    if !body.starts_with('/') {
        Some(format!("found {found:?}, but a path begins with \"/\""))
    } else if body.contains('*') {
        Some(format!(
            "found {found:?}, but a \"*\" stands only at the end of a path"
        ))
    } else if body.contains(['?', '#']) {
        Some(format!("found {found:?}, but a path has no query"))
    } else if is_beginning && body == "/" {
        Some("this is every path, so that looks after health would be inference too".to_owned())
    } else if Route::of(path).is_inference() {
        Some("this is an inference route already".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Rules, Ruleset, compile};

    fn rules(routes: &[(&str, &str)]) -> Result<Ruleset, Vec<String>> {
        let mut rules: Rules = serde_json::from_str(
            r#"{"engines":{"a":{"kind":"vllm","url":"http://a"}},"default_engine":"a"}"#,
        )
        .unwrap();
        let owned = |(path, name): &(&str, &str)| ((*path).to_owned(), (*name).to_owned());
        rules.routes = Ordered::new(routes.iter().map(owned).collect()).unwrap();
        compile(&rules).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_declared_path_is_an_inference_route_with_its_dialect() {
        let ruleset = rules(&[
            ("/apps/*", "json"),
            ("/invocations", "chat"),
            ("/apps/llm/*", "completions"),
            ("/apps/llm/rank", "rerank"),
        ])
        .unwrap();
        let check = |path: &str, dialect: Option<Dialect>| {
            let route = ruleset.route(path);
            assert_eq!(
                route,
                dialect.map_or(Route::Other, Route::Declared),
                "{path}"
            );
            assert_eq!(route.dialect(), dialect, "{path}");
            assert_eq!(route.is_inference(), dialect.is_some(), "{path}");
        };
        check("/invocations", Some(Dialect::Chat));
        check("/invocations/", None);
        check("/invocationsx", None);
        check("/apps/", Some(Dialect::Json));
        check("/apps", None);
        check("/apps/x/y", Some(Dialect::Json));
        check("/apps/llm/x", Some(Dialect::Completions));
        check("/apps/llm/rank", Some(Dialect::Rerank));
        check("/apps/llm/rank/x", Some(Dialect::Completions));
        check("/health", None);
        check("", None);
        assert_eq!(ruleset.route("/v1/messages"), Route::Messages);
        assert_eq!(Route::Declared(Dialect::Chat).label(), "declared");
    }

    #[test]
    fn a_known_route_inside_a_declared_beginning_stays_what_it_is() {
        let ruleset = rules(&[("/v1/*", "json")]).unwrap();
        assert_eq!(ruleset.route("/v1/completions"), Route::Completions);
        assert_eq!(ruleset.route("/v1/x"), Route::Declared(Dialect::Json));
    }

    #[test]
    fn the_key_names_every_dialect_that_it_takes() {
        let schema = serde_json::to_value(schemars::schema_for!(Rules)).unwrap();
        let text = schema["properties"]["routes"]["description"]
            .as_str()
            .unwrap();
        for dialect in Dialect::ALL {
            let named = text.contains(&format!("`{}`", dialect.name()));
            assert_eq!(named, dialect.is_declarable(), "{}", dialect.name());
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let problems = rules(&[
            ("invocations", "chat"),
            ("/v1/messages", "messages"),
            ("/v2/models/m/generate", "json"),
            ("/v1/audio/*", "audio"),
            ("/a*/b", "chat"),
            ("/*", "chat"),
            ("*", "chat"),
            ("/a?b=c", "chat"),
            ("/b", "openai"),
            ("/c", "model_infer"),
            ("d", "Chat"),
        ])
        .unwrap_err();
        let allowed = "allowed: \"chat\", \"completions\", \"responses\", \"embeddings\", \"score\", \"rerank\", \"json\", \"audio\", \"messages\", \"generate\", \"generate_stream\", \"completion\", \"triton_infer\", \"triton_generate\"";
        let expected = [
            "rules.routes.invocations: found \"invocations\", but a path begins with \"/\"",
            "rules.routes[\"/v1/messages\"]: this is an inference route already",
            "rules.routes[\"/v2/models/m/generate\"]: this is an inference route already",
            "rules.routes[\"/v1/audio/*\"]: this is an inference route already",
            "rules.routes[\"/a*/b\"]: found \"/a*/b\", but a \"*\" stands only at the end of a path",
            "rules.routes[\"/*\"]: this is every path, so that looks after health would be inference too",
            "rules.routes[\"*\"]: found \"*\", but a path begins with \"/\"",
            "rules.routes[\"/a?b=c\"]: found \"/a?b=c\", but a path has no query",
            &format!("rules.routes[\"/b\"]: \"openai\" is no dialect ({allowed})"),
            &format!("rules.routes[\"/c\"]: \"model_infer\" is no dialect ({allowed})"),
            "rules.routes.d: found \"d\", but a path begins with \"/\"",
            &format!("rules.routes.d: \"Chat\" is no dialect ({allowed})"),
        ];
        assert_eq!(problems, expected);
    }
}
