//! What this process is called: the tag of exchanges that the rules leave unnamed.
//!
//! In: a file that may change at any time, as labels of a pod do, and what trusted callers say. Out: a tag. A file that
//! no longer says one leaves the last one in use, and is told of once.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use greylag_filters::identity::{LONGEST, read};
use greylag_filters::rules::Tag;
use parking_lot::RwLock;
use tokio::time::{MissedTickBehavior, interval};

use crate::config;
use crate::files::{self, Fault, Made};

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// So many tags of callers are taken, since each becomes a label.
const MOST: usize = 64;

/// The tag of this process, and those that its callers have given exchanges.
#[derive(Debug, Default)]
pub struct Identity {
    own: Option<Own>,
    callers: RwLock<HashSet<Arc<str>>>,
}

#[derive(Debug)]
struct Own {
    path: PathBuf,
    file: Made<Tag>,
    tag: RwLock<Arc<str>>,
}

impl Identity {
    /// As the configuration says; its file is read.
    ///
    /// # Errors
    /// The file cannot be read, or says no tag.
    pub fn new(rule: &config::Identity) -> io::Result<Identity> {
        let own = match &rule.tag_file {
            None => None,
            Some(path) => Some(
                Own::new(path.clone())
                    .map_err(|fault| io::Error::other(format!("identity.tag_file: {fault}")))?,
            ),
        };
        Ok(Identity {
            own,
            callers: RwLock::default(),
        })
    }

    /// The tag of an exchange that the rules leave unnamed: the caller's, else this process's own, if there is one.
    pub fn tag(&self, callers: Option<&Tag>) -> Option<Arc<str>> {
        callers
            .and_then(|tag| self.known(tag.as_str()))
            .or_else(|| self.own.as_ref().map(|own| own.tag.read().clone()))
    }

    // The caller's tag, unless so many others were said before that it would be one label too many.
    fn known(&self, tag: &str) -> Option<Arc<str>> {
        if let Some(known) = self.callers.read().get(tag) {
            return Some(known.clone());
        }
        let mut callers = self.callers.write();
        if callers.len() == MOST {
            return None;
        }
        let tag: Arc<str> = tag.into();
        callers.insert(tag.clone());
        if callers.len() == MOST {
            tracing::warn!(
                name: "greylag.identity.too_many_tags",
                most = MOST,
                "callers have said so many tags in x-gray-tag: no other is taken"
            );
        }
        Some(tag)
    }

    /// Looks at the file now and then, for as long as it is polled.
    pub async fn watch(&self) {
        let mut look = interval(PAUSE);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            if let Some(own) = &self.own {
                own.look();
            }
        }
    }
}

impl Own {
    fn new(path: PathBuf) -> Result<Own, Fault> {
        let file = Made::of([path.clone()]);
        let tag = file.current(|| tag_in(&path), |_| {})?;
        Ok(Own {
            tag: RwLock::new(tag.as_str().into()),
            path,
            file,
        })
    }

    fn look(&self) {
        let told = |fault: &Fault| {
            tracing::warn!(name: "greylag.identity.unreadable", %fault, tag = &**self.tag.read(), "identity.tag_file says no tag: the one before is used on");
        };
        // It has been made once, so there is always one.
        let Ok(tag) = self.file.current(|| tag_in(&self.path), told) else {
            return;
        };
        if tag.as_str() != &**self.tag.read() {
            tracing::info!(name: "greylag.identity.changed", tag = tag.as_str(), "identity.tag_file says a new tag");
            *self.tag.write() = tag.as_str().into();
        }
    }
}

fn tag_in(path: &Path) -> Result<Tag, Fault> {
    let wrong = |what: &dyn std::fmt::Display| Fault(format!("{}: {what}", path.display()));
    let content = files::read(path, LONGEST as u64).map_err(|error| wrong(&error))?;
    read(&content).map_err(|misfit| wrong(&misfit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str) -> Tag {
        text.parse().unwrap()
    }

    #[test]
    fn only_so_many_tags_of_callers_are_taken() {
        let identity = Identity::default();
        assert_eq!(identity.tag(None), None);
        for number in 0..MOST {
            let said = format!("t{number}");
            assert_eq!(identity.tag(Some(&tag(&said))).as_deref(), Some(&*said));
        }
        assert_eq!(identity.tag(Some(&tag("one-more"))), None);
        assert_eq!(identity.tag(Some(&tag("t0"))).as_deref(), Some("t0"));
    }

    #[test]
    fn a_file_that_says_no_tag_leaves_the_last_one() {
        let path = std::env::temp_dir().join(format!("greylag-identity-{}", std::process::id()));
        let rule = config::Identity {
            tag_file: Some(path.clone()),
        };
        let write = |content: &str| std::fs::write(&path, content).unwrap();
        write("two words");
        let fault = Identity::new(&rule).unwrap_err().to_string();
        assert!(
            fault.starts_with("identity.tag_file: ") && fault.contains("found \"two words\""),
            "{fault}"
        );
        write("stable\n");
        let identity = Identity::new(&rule).unwrap();
        let check = |expected: &str| {
            identity.own.as_ref().unwrap().look();
            assert_eq!(identity.tag(None).as_deref(), Some(expected));
        };
        check("stable");
        write("canary-7");
        check("canary-7");
        write("");
        check("canary-7");
        std::fs::remove_file(&path).unwrap();
        check("canary-7");
        let gone = Identity::new(&rule).unwrap_err().to_string();
        assert!(gone.contains("No such file"), "{gone}");
        write("stable");
        check("stable");
        std::fs::remove_file(&path).unwrap();
    }
}
