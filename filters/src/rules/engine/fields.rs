//! Fields that are set on the heads of requests to an engine.
//!
//! In: `headers` and `api_key_file` of an engine. Out: names and values that are valid, or problems. Values are secrets: no
//! message repeats one.

use http::{HeaderName, HeaderValue, header};

use super::Rule;
use crate::matcher::header_name;
use crate::rules::problem::{Place, Problems, list};
use crate::rules::secret::{HIDDEN, Secret};

/// Fields of one connection, of the framing, and those that Greylag itself sets.
const NOT_SET: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-gray-tag",
];

/// The fields that `headers` sets.
pub(super) fn compile(
    rule: &Rule,
    place: Place<'_>,
    problems: &mut Problems,
) -> Vec<(HeaderName, HeaderValue)> {
    let place = place.key("headers");
    let mut fields: Vec<(HeaderName, HeaderValue)> = Vec::with_capacity(rule.headers.len());
    for (name, secret) in rule.headers.iter() {
        let place = place.key(name);
        let Some(name) = header_name(name, place, problems) else {
            continue;
        };
        if NOT_SET.contains(&name.as_str()) {
            problems.add(
                place,
                format_args!(
                    "it may not be set (not allowed: {})",
                    list(NOT_SET.into_iter())
                ),
            );
        }
        if name == header::AUTHORIZATION && rule.api_key_file.is_some() {
            problems.add(place, "`api_key_file` sets this field too");
        }
        if fields.iter().any(|(other, _)| *other == name) {
            problems.add(place, "the field is written twice, case aside");
        }
        fields.extend(value(secret, place, problems).map(|value| (name, value)));
    }
    fields
}

fn value(secret: &Secret, place: Place<'_>, problems: &mut Problems) -> Option<HeaderValue> {
    if secret.is_hidden() {
        problems.add(
            place,
            format_args!("{HIDDEN:?} stands for the value in force at an engine of this name and place, and there is none"),
        );
        return None;
    }
    let Ok(mut value) = HeaderValue::from_str(secret.reveal()) else {
        problems.add(
            place,
            "the value has characters that a header cannot have (allowed: visible ASCII, spaces and tabs)",
        );
        return None;
    };
    value.set_sensitive(true);
    Some(value)
}

/// What is sent for the content of an `api_key_file`: the key without the white space around it, as a bearer token. None if
/// that is empty or nothing that a header can have.
pub fn bearer(content: &str) -> Option<HeaderValue> {
    let key = content.trim();
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    (!key.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::bearer;
    use crate::rules::{Rules, compile};

    fn rules(keys: &Value) -> Rules {
        let mut engine = json!({ "kind": "vllm", "url": "http://a" });
        for (key, value) in keys.as_object().unwrap() {
            engine[key] = value.clone();
        }
        serde_json::from_value(json!({ "engines": { "a": engine }, "default_engine": "a" }))
            .unwrap()
    }

    #[test]
    fn fields_are_set_as_written() {
        let ruleset = compile(&rules(&json!({ "headers": { "X-Org": "o", "b": "" } }))).unwrap();
        let fields = &ruleset.engines()[0].headers;
        assert_eq!(fields[0].0, "x-org");
        assert_eq!(fields[0].1, "o");
        assert!(fields[0].1.is_sensitive() && fields[1].1.is_empty());
    }

    #[test]
    fn what_may_not_be_set_is_a_problem_that_repeats_no_value() {
        for keys in [
            json!({ "headers": { "host": "s3cret" } }),
            json!({ "headers": { "Transfer-Encoding": "s3cret" } }),
            json!({ "headers": { "a b": "s3cret" } }),
            json!({ "headers": { "a": "s3cret\r\nb: c" } }),
            json!({ "headers": { "a": "x", "A": "s3cret" } }),
            json!({ "headers": { "a": "<hidden>" } }),
            json!({ "headers": { "authorization": "s3cret" }, "api_key_file": "/key" }),
        ] {
            let problems = compile(&rules(&keys)).unwrap_err();
            assert_eq!(problems.len(), 1, "{keys}: {problems:?}");
            assert!(problems[0].path.starts_with("rules.engines.a.headers"));
            assert!(!problems[0].what.contains("s3cret"), "{problems:?}");
        }
    }

    #[test]
    fn a_key_is_sent_without_the_white_space_around_it() {
        assert_eq!(bearer("k3y\n").unwrap(), "Bearer k3y");
        for none in ["", " \n", "a\nb", "a\0"] {
            assert_eq!(bearer(none), None, "{none:?}");
        }
    }
}
