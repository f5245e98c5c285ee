//! Text of others on a terminal.
//!
//! In: what an API says: names, owners, reasons. Out: the same with everything written out that a terminal would obey, or that would
//! show as something else than it is. No escape sequence of others ever reaches a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Text in a line.
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_treacherous) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\n' => plain.push_str("\\n"),
            '\r' => plain.push_str("\\r"),
            '\t' => plain.push_str("\\t"),
            letter if is_treacherous(letter) => {
                // Writing to a string cannot fail.
                let _ = write!(plain, "\\u{{{:x}}}", u32::from(letter));
            }
            letter => plain.push(letter),
        }
    }
    Cow::Owned(plain)
}

/// A text that is JSON, as JSON: what is treacherous can only stand in its strings, where it is escaped.
pub fn json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => plain.push(letter),
            letter if is_treacherous(letter) => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    let _ = write!(plain, "\\u{unit:04x}");
                }
            }
            letter => plain.push(letter),
        }
    }
    plain
}

/// Whether a text can be shown as it is, line ends and all.
pub fn is_plain(text: &str) -> bool {
    !text
        .chars()
        .any(|letter| letter != '\n' && is_treacherous(letter))
}

/// A value in a line: text without quotes, everything else as JSON.
pub fn value(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => line(text).into_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            json(&value.to_string())
        }
    }
}

/// What an answer says there, in a line; a dash where it says nothing.
pub fn said(answer: &Value, key: &str) -> String {
    answer.get(key).map_or("-".to_owned(), value)
}

// Controls; what turns the direction of writing; what has no width.
fn is_treacherous(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        for (text, expected) in [
            ("canary at 50 %", "canary at 50 %"),
            ("für später – 日本", "für später – 日本"),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\r\nb\tc\x07\x08", "a\\r\\nb\\tc\\u{7}\\u{8}"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
        ] {
            assert_eq!(line(text), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_treacherous_letter_is_left(text in "\\PC*|[\\x00-\\x{10ffff}]*") {
            proptest::prop_assert!(is_plain(&line(&text)) && !line(&text).contains('\n'));
        }

        #[test]
        fn json_means_the_same(text in "\\PC*|[\\x00-\\x{10ffff}]*") {
            let sent = Value::from(text).to_string();
            let plain = json(&sent);
            proptest::prop_assert!(is_plain(&plain));
            let read: Value = serde_json::from_str(&plain).unwrap();
            proptest::prop_assert_eq!(read.to_string(), sent);
        }
    }
}
