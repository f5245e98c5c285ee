//! The file of tokens.
//!
//! In: a path; what is there may change at any time, as Secrets do. Out: the tokens that are in force. A file that became
//! wrong leaves the ones before it, and is told of once. Nothing that is told holds a token.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use greylag_filters::tokens::{LONGEST, Tokens};

use crate::files::{self, Fault, Made};

/// A file of tokens.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    made: Made<Tokens>,
}

impl TokenFile {
    /// This one, which is read.
    ///
    /// # Errors
    /// It cannot be read, or holds no tokens.
    pub fn new(path: &Path) -> io::Result<TokenFile> {
        let file = TokenFile {
            path: path.to_owned(),
            made: Made::of([path.to_owned()]),
        };
        match file.made.current(|| tokens_in(path), |_| {}) {
            Ok(_) => Ok(file),
            Err(fault) => Err(io::Error::other(format!("admin.token_file: {fault}"))),
        }
    }

    /// The tokens that are in force. None, if there have never been any.
    pub fn current(&self) -> Option<Arc<Tokens>> {
        let make = || {
            let tokens = tokens_in(&self.path)?;
            tracing::info!(name: "greylag.admin.tokens_changed", tokens = tokens.count(), "admin.token_file has changed: its tokens are in force");
            Ok(tokens)
        };
        let told = |fault: &Fault| {
            tracing::error!(name: "greylag.admin.tokens_wrong", %fault, "admin.token_file is wrong: the tokens before are used on");
        };
        self.made.current(make, told).ok()
    }
}

fn tokens_in(path: &Path) -> Result<Tokens, Fault> {
    let wrong = |what: &dyn std::fmt::Display| Fault(format!("{}: {what}", path.display()));
    let content = files::read(path, LONGEST as u64).map_err(|error| wrong(&error))?;
    Tokens::read(&content).map_err(|fault| wrong(&fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_became_wrong_leaves_the_tokens_before() {
        const ANN: &[u8] = b"0123456789abcdef";
        const BOB: &[u8] = b"fedcba9876543210";
        let path = std::env::temp_dir().join(format!("greylag-tokens-{}", std::process::id()));
        let write = |content: &str| std::fs::write(&path, content).unwrap();
        let _ = std::fs::remove_file(&path);
        let gone = TokenFile::new(&path).unwrap_err().to_string();
        assert!(
            gone.starts_with("admin.token_file: ") && gone.contains("No such file"),
            "{gone}"
        );
        write("ann write\n");
        let fault = TokenFile::new(&path).unwrap_err().to_string();
        assert!(
            fault.contains("line 1: found other than three words"),
            "{fault}"
        );
        write("ann write 0123456789abcdef\n");
        let file = TokenFile::new(&path).unwrap();
        let check = |known: &[u8], unknown: &[u8]| {
            let tokens = file.current().unwrap();
            assert!(tokens.find(known).is_some() && tokens.find(unknown).is_none());
        };
        check(ANN, BOB);
        write("bob read fedcba9876543210 # no comment here");
        check(ANN, BOB);
        write("bob read fedcba9876543210");
        check(BOB, ANN);
        write("");
        check(BOB, ANN);
        std::fs::remove_file(&path).unwrap();
        check(BOB, ANN);
        write("ann read 0123456789abcdef");
        check(ANN, BOB);
        std::fs::remove_file(&path).unwrap();
    }
}
