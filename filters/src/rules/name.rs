//! Names that people give: of engines, of splits, and tags.
//!
//! A name becomes part of paths in the API and of metric labels, a tag a header value and a label, so both
//! are held to characters that need no quoting there.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use crate::written::{Misfit, Written, written};

/// The name of an engine or a rule: 1 to 64 of `A`–`Z`, `a`–`z`, `0`–`9`, `.`, `_`, `-`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name(Box<str>);

/// What an engine is called upstream and in metrics (`gray_tag`): 1 to 64 visible ASCII characters.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tag(Box<str>);

const MOST: usize = 64;

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tag {
    /// The tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Name, Misfit> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if (1..=MOST).contains(&text.len()) && text.bytes().all(plain) {
            Ok(Name(text.into()))
        } else {
            Err(Misfit::of::<Name>(text))
        }
    }
}

impl FromStr for Tag {
    type Err = Misfit;

    fn from_str(text: &str) -> Result<Tag, Misfit> {
        if (1..=MOST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Tag(text.into()))
        } else {
            Err(Misfit::of::<Tag>(text))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Written for Name {
    const ALLOWED: &'static str =
        "a name is 1 to 64 letters, digits, dots, underscores and hyphens (ASCII)";
    const PATTERN: &'static str = "^[A-Za-z0-9._-]{1,64}$";
    const EXAMPLE: &'static str = "candidate";
}

impl Written for Tag {
    const ALLOWED: &'static str = "a tag is 1 to 64 visible ASCII characters, without spaces";
    const PATTERN: &'static str = "^[!-~]{1,64}$";
    const EXAMPLE: &'static str = "v2-canary";
}

written!(Name, deserialize_str);
written!(Tag, deserialize_str);

#[cfg(test)]
mod tests {
    use super::{Name, Tag};

    fn check(text: &str, name: bool, tag: bool) {
        assert_eq!(text.parse::<Name>().is_ok(), name, "name {text:?}");
        assert_eq!(text.parse::<Tag>().is_ok(), tag, "tag {text:?}");
    }

    #[test]
    fn names_and_tags_need_no_quoting() {
        check("a.B_c-9", true, true);
        check(&"n".repeat(64), true, true);
        check(&"n".repeat(65), false, false);
        check("", false, false);
        check("a b", false, false);
        check("a/b", false, true);
        check("a\n", false, false);
        check("ä", false, false);
    }
}
