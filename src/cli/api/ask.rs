//! One request to the API.
//!
//! In: a method, a path whose steps may be anybody's text, and what goes with it. Out: a request. What is put into a path or a query
//! is escaped here, so that no text can become another path; what cannot be one is not asked at all.

use std::fmt::Write as _;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH};
use http::{Method, Request, Uri};

/// The longest path with its query, in bytes: as long as `http` takes it.
const LONGEST: usize = u16::MAX as usize - 1;

/// Why something cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A step of the path is none.
    #[error("a name is empty; each has at least one letter")]
    Nameless,
    /// The path is too long.
    #[error("found {0} bytes of names and text to be sent, allowed are {LONGEST}")]
    Long(usize),
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Ask {
    method: Method,
    path: String,
    has_query: bool,
    is_nameless: bool,
    fields: Vec<(HeaderName, HeaderValue)>,
    body: String,
}

impl Ask {
    /// Asks this of a path.
    pub fn new(method: Method, path: &str) -> Ask {
        Ask {
            method,
            path: path.to_owned(),
            has_query: false,
            is_nameless: false,
            fields: Vec::new(),
            body: String::new(),
        }
    }

    /// Reads what is at a path.
    pub fn get(path: &str) -> Ask {
        Ask::new(Method::GET, path)
    }

    /// Puts this JSON at a path.
    pub fn put(path: &str, json: String) -> Ask {
        let json_type = HeaderValue::from_static("application/json");
        let ask = Ask::new(Method::PUT, path).field(CONTENT_TYPE, json_type);
        Ask { body: json, ..ask }
    }

    /// The same, one step further down the path.
    pub fn step(mut self, step: &str) -> Ask {
        self.path.push('/');
        match step {
            "" => self.is_nameless = true,
            // As they are, these would be the same place and the one above.
            "." => self.path.push_str("%2E"),
            ".." => self.path.push_str("%2E%2E"),
            step => escape(&mut self.path, step),
        }
        self
    }

    /// The same with a key of the query, where there is a value for it.
    pub fn query(mut self, key: &str, value: Option<&str>) -> Ask {
        if let Some(value) = value {
            self.path.push(if self.has_query { '&' } else { '?' });
            self.has_query = true;
            self.path.push_str(key);
            self.path.push('=');
            escape(&mut self.path, value);
        }
        self
    }

    /// The same with a field.
    pub fn field(mut self, name: HeaderName, value: HeaderValue) -> Ask {
        self.fields.push((name, value));
        self
    }

    /// The same, only if what has this entity tag is still in force.
    pub fn expecting(self, tag: Option<&HeaderValue>) -> Ask {
        match tag {
            Some(tag) => self.field(IF_MATCH, tag.clone()),
            None => self,
        }
    }

    pub(super) fn request(self) -> Result<Request<String>, Unfit> {
        if self.is_nameless {
            return Err(Unfit::Nameless);
        }
        // A path of ours, with what others said escaped, is one unless it is too long.
        let long = |_| Unfit::Long(self.path.len());
        let uri: Uri = self.path.parse().map_err(long)?;
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        request.headers_mut().extend(self.fields);
        Ok(request)
    }
}

// All but what RFC 3986 calls unreserved.
fn escape(to: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                to.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            byte => drop(write!(to, "%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_place_in_a_path() {
        let check = |ask: Ask, expected: &str| {
            assert_eq!(ask.request().unwrap().uri().to_string(), expected);
        };
        check(Ask::get("/v1/splits"), "/v1/splits");
        check(Ask::get("/v1/splits").step("a"), "/v1/splits/a");
        let hostile = Ask::get("/v1/splits").step("../a/b?c#d e\r\nf: é");
        check(
            hostile,
            "/v1/splits/..%2Fa%2Fb%3Fc%23d%20e%0D%0Af%3A%20%C3%A9",
        );
        for (step, expected) in [
            (".", "/a/%2E/b"),
            ("..", "/a/%2E%2E/b"),
            ("...", "/a/.../b"),
        ] {
            check(Ask::get("/a").step(step).step("b"), expected);
        }
        let query = Ask::get("/v1/x").query("a", Some("b&c=d")).query("e", None);
        check(query.query("f", Some("+ ")), "/v1/x?a=b%26c%3Dd&f=%2B%20");
    }

    #[test]
    fn what_is_no_path_is_refused_with_what_is_allowed() {
        let check = |ask: Ask, expected: Option<Unfit>| {
            assert_eq!(ask.request().err(), expected);
        };
        check(Ask::get("/a").step(""), Some(Unfit::Nameless));
        check(Ask::get("/a").step("").step("b"), Some(Unfit::Nameless));
        let long = |length: usize| Ask::get("/a").query("q", Some(&"x".repeat(length)));
        let rest = LONGEST - "/a?q=".len();
        check(long(rest), None);
        check(long(rest + 1), Some(Unfit::Long(LONGEST + 1)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_makes_a_path(step in "\\PC*|[\\x00-\\x{ffff}]*", value in "\\PC*") {
            let asked = Ask::get("/v1").step(&step).query("q", Some(&value)).request();
            let Ok(asked) = asked else {
                proptest::prop_assert_eq!(step, "");
                return Ok(());
            };
            let uri = asked.uri();
            let place = uri.path().strip_prefix("/v1/");
            proptest::prop_assert!(place.is_some_and(|place| !["", ".", ".."].contains(&place)), "{uri}");
            proptest::prop_assert_eq!(uri.path().matches('/').count(), 2);
            proptest::prop_assert!(uri.query().is_some_and(|query| query.starts_with("q=")));
        }
    }
}
