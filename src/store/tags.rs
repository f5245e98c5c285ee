//! Entity tags: whether what somebody has edited is still what is in force.

/// The value of an `If-Match` field (RFC 9110 §13.1.1).
#[derive(Debug, PartialEq, Eq)]
pub enum EntityTags {
    /// `*`: whatever is in force.
    Any,
    /// One of these, quotes included; weak tags never match strongly, so they are left out.
    OneOf(Vec<String>),
}

impl EntityTags {
    /// Reads an `If-Match` value; what is not a strong entity tag allows nothing.
    pub fn parse(value: &str) -> Self {
        if value.trim() == "*" {
            return EntityTags::Any;
        }
        let tags = value.split(',').map(str::trim);
        EntityTags::OneOf(
            tags.filter(|tag| tag.starts_with('"') && tag.ends_with('"') && tag.len() >= 2)
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Whether the thing with this tag may be changed.
    pub fn allow(&self, tag: &str) -> bool {
        match self {
            EntityTags::Any => true,
            EntityTags::OneOf(tags) => tags.iter().any(|allowed| allowed == tag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_is_read_as_the_rfc_says() {
        let check = |value: &str, tag: &str, allowed: bool| {
            assert_eq!(
                EntityTags::parse(value).allow(tag),
                allowed,
                "{value} for {tag}"
            );
        };
        check("*", "\"a\"", true);
        check("\"a\"", "\"a\"", true);
        check("\"b\" , \"a\"", "\"a\"", true);
        check("W/\"a\"", "\"a\"", false);
        check("a", "\"a\"", false);
        check("", "\"a\"", false);
    }
}
