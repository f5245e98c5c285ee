//! Which requests a rule looks at.
//!
//! In: the `match` of a rule, then requests. Out: whether a request fits. Fields are joined by AND, the values
//! of a field by OR, and a field that is left out fits everything. What a request does not say (a body that
//! was not read says no model) fits no value.

mod pattern;

use http::HeaderName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::Request;
use crate::rules::ordered::Ordered;
use crate::rules::problem::{Place, Problems};
use crate::written::start;
use pattern::Pattern;

/// Which requests a rule looks at: all fields must fit, each with one of its values. A value is exact
/// (`llama`), a beginning (`llama*`; `*` alone is any value), or a regular expression after a tilde
/// (`~^llama-[0-9]+b$`) that is searched for in the text, so anchor it if the whole must fit. A text of more than
/// 8 KiB fits no regular expression.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Match")]
pub struct Rule {
    /// Paths, without their query. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Methods, in upper case as on the wire. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Headers by name, case aside, each with its values; a header that is sent several times fits if one
    /// of them does. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Ordered<String, Vec<String>>>,
    /// Models as the body names them. A request without a readable body fits none. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// `true`: requests for a stream; `false`: requests for a whole answer. A request without a readable
    /// body fits neither. Default: both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

impl Rule {
    /// Whether every inference request fits.
    pub(crate) fn is_everything(&self) -> bool {
        let any = |values: &Option<Vec<String>>| {
            values
                .as_ref()
                .is_none_or(|values| values.iter().any(|value| value == "*"))
        };
        any(&self.paths)
            && any(&self.methods)
            && self.headers.as_ref().is_none_or(Ordered::is_empty)
            && self.models.is_none()
            && self.stream.is_none()
    }
}

/// A compiled [`Rule`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    paths: Option<Vec<Pattern>>,
    methods: Option<Vec<Pattern>>,
    headers: Vec<(HeaderName, Vec<Pattern>)>,
    models: Option<Vec<Pattern>>,
    stream: Option<bool>,
}

impl Matcher {
    /// The compiled rule; what is wrong with it goes to `problems`.
    pub(crate) fn compile(rule: &Rule, place: Place<'_>, problems: &mut Problems) -> Matcher {
        let mut field = |key: &str, values: &Option<Vec<String>>| {
            values
                .as_ref()
                .map(|values| patterns(values, place.key(key), problems))
        };
        let paths = field("paths", &rule.paths);
        let methods = field("methods", &rule.methods);
        let models = field("models", &rule.models);
        for (index, method) in rule.methods.iter().flatten().enumerate() {
            if !method.starts_with('~') && method.bytes().any(|b| b.is_ascii_lowercase()) {
                problems.add(
                    place.key("methods").entry(index),
                    format_args!(
                        "methods are written in upper case; found {:?}",
                        start(method)
                    ),
                );
            }
        }
        let headers_place = place.key("headers");
        let mut headers: Vec<(HeaderName, Vec<Pattern>)> = Vec::new();
        for (name, values) in rule.headers.iter().flat_map(Ordered::iter) {
            let header_place = headers_place.key(name);
            let values = patterns(values, header_place, problems);
            let Some(header) = header_name(name, header_place, problems) else {
                continue;
            };
            if headers.iter().any(|(other, _)| *other == header) {
                problems.add(
                    header_place,
                    "the header is written twice, since case does not count in its name",
                );
            }
            headers.push((header, values));
        }
        Matcher {
            paths,
            methods,
            headers,
            models,
            stream: rule.stream,
        }
    }

    /// Whether a request fits.
    pub(crate) fn fits(&self, request: &Request<'_>) -> bool {
        let one = |patterns: &Option<Vec<Pattern>>, text: Option<&str>| match patterns {
            None => true,
            Some(patterns) => {
                text.is_some_and(|text| patterns.iter().any(|p| p.fits(text.as_bytes())))
            }
        };
        one(&self.methods, Some(request.method.as_str()))
            && one(&self.paths, Some(request.path))
            && self
                .stream
                .is_none_or(|stream| request.body.is_some_and(|body| body.stream == stream))
            && one(
                &self.models,
                request.body.and_then(|body| body.model.as_deref()),
            )
            && self.headers.iter().all(|(name, patterns)| {
                let values = request.headers.get_all(name);
                values
                    .iter()
                    .any(|value| patterns.iter().any(|p| p.fits(value.as_bytes())))
            })
    }
}

fn patterns(values: &[String], place: Place<'_>, problems: &mut Problems) -> Vec<Pattern> {
    if values.is_empty() {
        problems.add(
            place,
            "no value is given, so that nothing could fit; leave the key out to fit everything",
        );
    }
    let mut patterns = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        match Pattern::read(value) {
            Ok(pattern) => patterns.push(pattern),
            Err(fault) => problems.add(place.entry(index), fault),
        }
    }
    patterns
}

/// A header's name as it may stand in rules.
pub(crate) fn header_name(
    name: &str,
    place: Place<'_>,
    problems: &mut Problems,
) -> Option<HeaderName> {
    let header = HeaderName::from_bytes(name.as_bytes()).ok();
    if header.is_none() {
        problems.add(
            place,
            format_args!(
                "{:?} is no header name (allowed: letters, digits and !#$%&'*+-.^_`|~, such as \"x-user-id\")",
                start(name)
            ),
        );
    }
    header
}

#[cfg(test)]
mod tests;
