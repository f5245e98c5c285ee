//! The class of an exchange: real, or a test's.
//!
//! Load tests, replays and probes mark their requests with a header, so that their figures stay out of
//! verdicts and SLOs. The mark is believed only from a trusted peer: anybody else could hide behind it.

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::Request;
use crate::rules::problem::{Place, Problems};

/// How traffic is told apart.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Traffic")]
pub struct Rule {
    /// The mark of test traffic: load tests, replays, probes. Such exchanges are labelled `traffic="test"`.
    pub test: Mark,
}

/// A header with a certain value.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mark {
    /// The header's name, case aside. Believed from trusted peers only. Default: `x-traffic-class`.
    pub header: String,
    /// The value that marks, exactly. Default: `test`.
    pub value: String,
}

impl Default for Mark {
    fn default() -> Mark {
        Mark {
            header: "x-traffic-class".to_owned(),
            value: "test".to_owned(),
        }
    }
}

/// The class of an exchange.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Class {
    /// Somebody wants the answer.
    Real,
    /// A load test, a replay or a probe.
    Test,
}

impl Class {
    /// The value of the metric label `traffic`.
    pub fn label(self) -> &'static str {
        match self {
            Class::Real => "real",
            Class::Test => "test",
        }
    }
}

/// Tells the class of a request.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    header: HeaderName,
    value: HeaderValue,
}

impl Classes {
    /// The compiled rule, or none and the problems with it.
    pub(crate) fn compile(
        rule: &Rule,
        place: Place<'_>,
        problems: &mut Problems,
    ) -> Option<Classes> {
        let test = place.key("test");
        let header = crate::matcher::header_name(&rule.test.header, test.key("header"), problems);
        let value = HeaderValue::from_str(&rule.test.value).ok();
        // A header's value arrives without spaces at its ends, so such a mark could never be met.
        let value = value
            .filter(|_| !rule.test.value.is_empty() && rule.test.value.trim() == rule.test.value);
        if value.is_none() {
            problems.add(
                test.key("value"),
                format_args!(
                    "a mark is visible text without spaces at its ends; found {:?}",
                    crate::written::start(&rule.test.value)
                ),
            );
        }
        Some(Classes {
            header: header?,
            value: value?,
        })
    }

    /// The class of a request.
    pub(crate) fn of(&self, request: &Request<'_>) -> Class {
        if request.trusted && self.mark_in(request.headers).is_some() {
            Class::Test
        } else {
            Class::Real
        }
    }

    /// The header that marks a test, if these have it with the value that does.
    pub(crate) fn mark_in(&self, headers: &HeaderMap) -> Option<&HeaderName> {
        let mut values = headers.get_all(&self.header).iter();
        values
            .any(|value| *value == self.value)
            .then_some(&self.header)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method};

    use super::{Class, Classes, Rule};
    use crate::route::Route;
    use crate::rules::Request;
    use crate::rules::problem::{Place, Problems};

    fn check(values: &[&'static str], trusted: bool, class: Class) {
        let mut problems = Problems::default();
        let classes = Classes::compile(&Rule::default(), Place::Rules, &mut problems).unwrap();
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-traffic-class", HeaderValue::from_static(value));
        }
        let request = Request {
            method: &Method::GET,
            path: "/health",
            route: Route::Other,
            headers: &headers,
            body: None,
            client: None,
            trusted,
        };
        assert_eq!(classes.of(&request), class, "{values:?}");
    }

    #[test]
    fn only_a_trusted_mark_makes_a_test() {
        check(&["test"], true, Class::Test);
        check(&["real", "test"], true, Class::Test);
        check(&["test"], false, Class::Real);
        check(&["Test"], true, Class::Real);
        check(&["testing"], true, Class::Real);
        check(&[""], true, Class::Real);
        check(&[], true, Class::Real);
    }
}
