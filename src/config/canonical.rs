//! A tree written as YAML again, one key or value a line.
//!
//! In: a tree, of which entries may have been taken out. Out: a text that reads as the tree does, and which entry each of its lines
//! is about. Aliases, tags, comments and styles are gone; the text is never shown.

use std::fmt::Write as _;

use super::tree::{Entry, Id, Kind, Leaf, ROOT, Step, Tree};

/// What of an entry a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Key,
    Value,
}

/// A tree's text.
#[derive(Debug, Default)]
pub(super) struct Canonical {
    /// The text.
    pub(super) text: String,
    lines: Vec<(Id, Part)>,
}

impl Canonical {
    /// Writes a tree.
    pub(super) fn of(tree: &Tree) -> Canonical {
        let mut canonical = Canonical::default();
        if let Some(root) = tree.entry(ROOT) {
            canonical.value(tree, ROOT, root);
        }
        canonical
    }

    /// What the line of this number, from 1, is about.
    pub(super) fn at(&self, line: u64) -> Option<(Id, Part)> {
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        self.lines.get(index).copied()
    }

    fn value(&mut self, tree: &Tree, id: Id, entry: &Entry) {
        let (open, close) = match &entry.kind {
            Kind::Map(_) => ("{", "}"),
            Kind::List(_) => ("[", "]"),
            Kind::Leaf(Leaf::Plain { text, .. }) => return self.line(text, id, Part::Value),
            Kind::Leaf(Leaf::Text(text)) => return self.line(&quoted(text), id, Part::Value),
        };
        self.line(open, id, Part::Value);
        for (id, entry) in tree.within(id) {
            if let Step::Key(key) = &entry.step {
                // Marked as a key, since only short ones are known as such by the colon alone.
                self.line(&format!("? {}", quoted(key)), id, Part::Key);
                self.text.push_str(": ");
            }
            self.value(tree, id, entry);
            self.line(",", id, Part::Value);
        }
        self.line(close, id, Part::Value);
    }

    fn line(&mut self, text: &str, id: Id, part: Part) {
        self.text.push_str(text);
        self.text.push('\n');
        self.lines.push((id, part));
    }
}

// As a JSON text, whose every escape is YAML's too. It has no line end.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Whatever could end a line, or is no text for YAML.
            letter if !matches!(letter, ' '..='~') && !letter.is_alphanumeric() => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\U{:08X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Canonical, quoted};
    use crate::config::tree::Tree;

    fn check(text: &str) {
        let canonical = Canonical::of(&Tree::read(text).unwrap());
        let read = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
        assert_eq!(read(text), read(&canonical.text), "{}", canonical.text);
    }

    #[test]
    fn what_is_written_reads_as_what_was_read() {
        check("a: 1\nb: [x, 'y z', \"\\t\", { c: ~ }]\nd:\n  - e: |\n      two\n      lines\n");
        check("a: &x { b: 1.50 }\nc: *x\nd: 0x10\ne: .5\nf: '5'\ng: true\nh: 'true'\n");
        check("- é\n- \"\\u2028\\x85\"\n- 12345678901234567890123\n- -1\n- !!str 5\n");
        check("text");
        check("base: &b { x: 1 }\nmore: { <<: *b, y: 2 }\n");
        let long = "k".repeat(5000);
        check(&format!("? {long}\n: 1\n'a: b': {{ ? {long} : 2 }}\n"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_survives_its_quotes(text in "\\PC{0,20}|[\\x00-\\x{ffff}]{0,8}") {
            let read: String = serde_saphyr::from_str(&quoted(&text)).unwrap();
            proptest::prop_assert_eq!(read, text);
        }
    }
}
