//! Who this process is: the tag of what it serves.
//!
//! In: the content of a file, or a caller's gray header. Out: the tag that it says. Both sides of a rollout may have equal
//! rules, so the rules cannot say it.

use http::HeaderMap;

use crate::rules::Tag;
use crate::written::Misfit;

/// The caller's gray header: what an exchange is called by who has routed it.
pub const GRAY: &str = "x-gray-tag";

/// The longest file that is read, in bytes: room for a tag, and for spaces and line ends around it.
pub const LONGEST: usize = 1024;

/// The tag that a file says: its text without the spaces and line ends around it.
///
/// # Errors
/// What is no tag: nothing, more than 64 characters, or others than visible ASCII.
pub fn read(content: &[u8]) -> Result<Tag, Misfit> {
    String::from_utf8_lossy(content.trim_ascii()).parse()
}

/// The tag that a caller says, once and well-formed. Whether the caller is believed is not known here.
pub fn said(headers: &HeaderMap) -> Option<Tag> {
    let mut values = headers.get_all(GRAY).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    read(value.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_says_one_tag() {
        let check = |content: &[u8], expected: Option<&str>| {
            let read = read(content).ok();
            assert_eq!(read.as_ref().map(Tag::as_str), expected, "{content:?}");
        };
        check(b"canary", Some("canary"));
        check(b"  v2-canary\r\n", Some("v2-canary"));
        check(b"", None);
        check(b"\n", None);
        check(b"two words", None);
        check(b"two\nlines", None);
        check("b\u{e4}r".as_bytes(), None);
        check(b"\xff\xfe", None);
        check(&[b'x'; 64], Some(&"x".repeat(64)));
        check(&[b'x'; 65], None);
    }

    #[test]
    fn a_caller_says_a_tag_once() {
        let check = |values: &[&'static str], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(GRAY, HeaderValue::from_static(value));
            }
            let said = said(&headers);
            assert_eq!(said.as_ref().map(Tag::as_str), expected, "{values:?}");
        };
        check(&[], None);
        check(&["stable"], Some("stable"));
        check(&["stable", "canary"], None);
        check(&[""], None);
        check(&["a b"], None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_a_header_value_and_reads_as_itself(content: Vec<u8>) {
            if let Ok(tag) = read(&content) {
                prop_assert!(HeaderValue::from_str(tag.as_str()).is_ok());
                prop_assert_eq!(read(tag.as_str().as_bytes()), Ok(tag));
            }
        }
    }
}
