//! Bearer tokens: who may ask the admin API, and for what.
//!
//! In: the content of a file, a line each; and what a caller says. Out: whose token that is, and what it allows. Which
//! tokens there are does not show in how long a look takes, and no message and no `Debug` ever holds one.

use std::collections::BTreeSet;
use std::fmt;

use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::rules::Name;

/// The longest file that is read, in bytes.
pub const LONGEST: usize = 256 << 10;
/// The most tokens of a file.
const MOST: usize = 512;
/// The shortest token, in characters: what is shorter could be guessed.
const LEAST_TOKEN: usize = 16;
/// The longest token.
const LONGEST_TOKEN: usize = 256;

/// Names that are authors without a token.
const RESERVED: [&str; 2] = ["greylag", "loopback"];

/// What a token allows.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// To look.
    Read,
    /// To look and to change.
    Write,
}

impl Role {
    /// The role as files and logs say it.
    pub fn label(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
        }
    }
}

/// What is wrong with a file of tokens. It says where, and never what stands there: that may be a token.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A line is no token's.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong, and what is allowed.
        what: &'static str,
    },
    /// There is none.
    #[error("found no token, at least one is needed; a line is NAME ROLE TOKEN")]
    None,
    /// There are too many, or the file is too long.
    #[error("found more than {MOST} tokens or {LONGEST} bytes, allowed are as many")]
    Many,
}

/// The tokens of a file.
#[derive(Clone, Eq, PartialEq)]
pub struct Tokens(Vec<Token>);

#[derive(Clone, Eq, PartialEq)]
struct Token {
    name: Name,
    role: Role,
    padded: Padded,
}

// No token holds a zero, so equal ones are equal with zeros after them, and no others are.
type Padded = [u8; LONGEST_TOKEN];

/// Whose token it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Known<'a> {
    /// The name that it was given.
    pub name: &'a Name,
    /// What it allows.
    pub role: Role,
}

impl Tokens {
    /// Reads a file: `NAME ROLE TOKEN` a line; empty lines, and those that begin with `#`, say nothing.
    ///
    /// # Errors
    /// The first line that is wrong; too many; none.
    pub fn read(content: &[u8]) -> Result<Tokens, Fault> {
        if content.len() > LONGEST {
            return Err(Fault::Many);
        }
        let (mut all, mut used) = (Vec::new(), BTreeSet::new());
        for (line, text) in (1..).zip(content.split(|byte| *byte == b'\n')) {
            let text = text.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            let wrong = |what| Fault::Line { line, what };
            let token = Token::read(text).map_err(wrong)?;
            if !used.insert(token.padded) {
                return Err(wrong(
                    "the token stands on another line too, and is for one name only",
                ));
            }
            if RESERVED.contains(&token.name.as_str()) {
                return Err(wrong(
                    "the name is one that Greylag gives itself, or who brings no token",
                ));
            }
            if all.iter().any(|other: &Token| other.name == token.name) {
                return Err(wrong(
                    "the name stands on another line too, and has one token only",
                ));
            }
            if all.len() == MOST {
                return Err(Fault::Many);
            }
            all.push(token);
        }
        match all.is_empty() {
            true => Err(Fault::None),
            false => Ok(Tokens(all)),
        }
    }

    /// Whose token this is. All are compared, to their ends, whatever is found.
    pub fn find(&self, said: &[u8]) -> Option<Known<'_>> {
        let (padded, fits) = padded(said);
        // 0 is nobody; 1.. are the tokens.
        let mut found = 0_u32;
        for (number, token) in (1_u32..).zip(&self.0) {
            let equal = token.padded.as_slice().ct_eq(&padded);
            found.conditional_assign(&number, equal);
        }
        let index = usize::try_from(found).ok()?.checked_sub(1)?;
        let token = self.0.get(index).filter(|_| fits)?;
        Some(Known {
            name: &token.name,
            role: token.role,
        })
    }

    /// How many there are, at least one.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Token {
    fn read(line: &[u8]) -> Result<Token, &'static str> {
        const SHAPE: &str = "found other than three words; a line is NAME ROLE TOKEN";
        let Ok(line) = std::str::from_utf8(line) else {
            return Err("found bytes that are not UTF-8; a line is NAME ROLE TOKEN");
        };
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(role), Some(token), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(SHAPE);
        };
        let name = name.parse().map_err(|_| {
            "the first word is no name: allowed are 1 to 64 letters, digits, dots, underscores and hyphens (ASCII)"
        })?;
        let role = match role {
            "read" => Role::Read,
            "write" => Role::Write,
            _ => return Err("the second word is no role: allowed are read and write"),
        };
        let is_token = (LEAST_TOKEN..=LONGEST_TOKEN).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return Err(
                "the third word is no token: allowed are 16 to 256 visible ASCII characters",
            );
        }
        let (padded, _) = padded(token.as_bytes());
        Ok(Token { name, role, padded })
    }
}

// With zeros after it; whether all of it is there.
fn padded(text: &[u8]) -> (Padded, bool) {
    let mut padded = [0; LONGEST_TOKEN];
    for (to, from) in padded.iter_mut().zip(text) {
        *to = *from;
    }
    (padded, text.len() <= LONGEST_TOKEN && !text.contains(&0))
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|token| (&token.name, token.role));
        f.debug_map().entries(shown).finish()
    }
}

/// What a fuzzer feeds: any file. Nothing panics, no message shows what is in it, and what was read is found, alone.
#[cfg(any(test, fuzzing))]
pub fn fuzz_tokens(bytes: &[u8]) {
    match Tokens::read(bytes) {
        Ok(tokens) => {
            assert!((1..=MOST).contains(&tokens.count()));
            let shown = format!("{tokens:?}");
            for token in &tokens.0 {
                let said: Vec<u8> = token.padded.into_iter().filter(|byte| *byte != 0).collect();
                let found = tokens.find(&said).map(|known| (known.name, known.role));
                assert_eq!(found, Some((&token.name, token.role)));
                let longer = [&said, &b"x"[..]].concat();
                let is_one = tokens
                    .0
                    .iter()
                    .any(|other| padded(&longer) == (other.padded, true));
                assert_eq!(tokens.find(&longer).is_some(), is_one);
                // A token may be part of a name; only one that is not would show.
                let text = String::from_utf8_lossy(&said);
                let is_named = tokens
                    .0
                    .iter()
                    .any(|token| token.name.as_str().contains(&*text));
                assert!(is_named || !shown.contains(&*text));
            }
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
    if let Ok(tokens) = Tokens::read(b"ann write 0123456789abcdef") {
        assert_eq!(tokens.find(bytes).is_some(), bytes == b"0123456789abcdef");
    }
}

#[cfg(test)]
mod tests;
