//! The state file: what was set through the API, for the process that comes after this one.
//!
//! In: what is to be kept. Out: a file that is whole at any time, also when the process is killed while it is written: it is
//! written beside, made durable and put in its place. The one before it is kept too. A file that cannot be used is kept under
//! another name, or else nothing is written. It holds secrets of rules, so nobody else may read it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use greylag_filters::layers::{Latch, Overlay};
use greylag_filters::rules::Rules;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::files;

/// What this program writes, and the newest that it can read.
const FORMAT: u32 = 1;
/// The longest file that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// What is kept.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// Which form this is.
    pub format: u32,
    /// The version that was published last.
    pub version: u64,
    /// The hash of the configuration file's rules, 16 hexadecimal digits: while it is the same, `base` counts before the file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<String>,
    /// The base, if it is not the file's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub base: Option<Rules>,
    /// What lies on it.
    #[serde(default)]
    pub overlays: Vec<Overlay>,
    /// What gates did.
    #[serde(default)]
    pub latches: Vec<Latch>,
}

impl Saved {
    /// As of a version, without anything yet.
    pub fn of(version: u64) -> Saved {
        Saved {
            format: FORMAT,
            version,
            file: None,
            base: None,
            overlays: Vec::new(),
            latches: Vec::new(),
        }
    }
}

/// The state file, which no other process writes meanwhile.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    // whether what is there could be read, or was written by this process
    is_sound: bool,
    // whether what is there could not be kept, and so must stay
    is_frozen: bool,
    // released when it is closed
    _lock: Option<Flock<File>>,
}

/// What a state file says at the start.
#[derive(Debug, Default)]
pub struct Found {
    /// What was kept, if there is anything.
    pub saved: Option<Saved>,
    /// What was wrong with it, a sentence each.
    pub faults: Vec<String>,
}

impl StateFile {
    /// The state file at this path, which need not exist, unlike its directory.
    ///
    /// # Errors
    /// Another process has it, or nothing can be written there.
    pub fn open(path: &Path) -> io::Result<StateFile> {
        let named = |error: io::Error| {
            let what = format!("state_file: {}: {error}", path.display());
            io::Error::new(error.kind(), what)
        };
        let lock = private()
            .truncate(false)
            .open(beside(path, "lock"))
            .map_err(named)?;
        let lock = match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Some(lock),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
                return Err(named(io::Error::other("another Greylag uses it")));
            }
            // Some file systems know no locks.
            Err((_, error)) => {
                tracing::warn!(name: "greylag.state.not_locked", path = %path.display(), %error, "the state file cannot be locked: another Greylag could use it too");
                None
            }
        };
        Ok(StateFile {
            // A link stays one: what it leads to is written.
            path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            is_sound: false,
            is_frozen: false,
            _lock: lock,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; where it cannot be used, the one before it. What cannot be used is kept under another name.
    pub fn read(&mut self) -> Found {
        let mut faults = Vec::new();
        for path in [self.path.clone(), beside(&self.path, "before")] {
            match read(&path) {
                Ok(saved) => {
                    self.is_sound = faults.is_empty();
                    return Found {
                        saved: Some(saved),
                        faults,
                    };
                }
                // Who has removed the file wants nothing of what was in it.
                Err(Unusable::Absent) => break,
                Err(Unusable::Because(why)) => {
                    let kept = self.set_aside(&path);
                    faults.push(format!("{}: {why}; {kept}", path.display()));
                }
            }
        }
        Found {
            saved: None,
            faults,
        }
    }

    /// Keeps what is there under another name, since what it says cannot be used; says where. If that is not possible nothing is
    /// written from now on.
    pub fn keep(&mut self) -> String {
        self.is_sound = false;
        let path = self.path.clone();
        self.set_aside(&path)
    }

    // Under a name that is never written again.
    fn set_aside(&mut self, path: &Path) -> String {
        let mut free = (1..1000).map(|number| beside(&self.path, &format!("unusable-{number}")));
        let Some(aside) = free.find(|aside| !aside.exists()) else {
            self.is_frozen = true;
            return "a thousand such are kept already, so nothing is written any more".to_owned();
        };
        // A second name costs nothing, and not every file system has them.
        match fs::hard_link(path, &aside).or_else(|_| fs::copy(path, &aside).map(drop)) {
            Ok(()) => format!("it is kept as {}", aside.display()),
            Err(error) => {
                self.is_frozen = true;
                let aside = aside.display();
                format!("it cannot be kept as {aside}, so nothing is written any more: {error}")
            }
        }
    }

    /// Puts this in the place of what is there; durable once it returns.
    ///
    /// # Errors
    /// The system's; what was there is still there then.
    pub fn write(&mut self, saved: &Saved) -> io::Result<()> {
        if self.is_frozen {
            let why = "what is there cannot be used and could not be kept elsewhere";
            return Err(io::Error::other(why));
        }
        let next = beside(&self.path, "next");
        // A link there would lead elsewhere, and what was left there may be for others to read.
        let mut options = private();
        let options = options.truncate(true).custom_flags(nix::libc::O_NOFOLLOW);
        let mut file = options.open(&next)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(&serde_json::to_vec(saved)?)?;
        file.sync_all()?;
        drop(file);
        if self.is_sound {
            self.keep_before();
        }
        fs::rename(&next, &self.path)?;
        self.is_sound = true;
        // The directory holds the name.
        match self
            .path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            Some(parent) => File::open(parent)?.sync_all(),
            None => File::open(".")?.sync_all(),
        }
    }

    // A second name for what is there, so that there is never none. Without hard links there is one file less to fall back on.
    fn keep_before(&self) {
        let (link, before) = (beside(&self.path, "link"), beside(&self.path, "before"));
        let _ = fs::remove_file(&link);
        if fs::hard_link(&self.path, &link).is_ok() {
            let _ = fs::rename(&link, &before);
        }
    }
}

enum Unusable {
    Absent,
    Because(String),
}

fn read(path: &Path) -> Result<Saved, Unusable> {
    let because = |why: String| Err(Unusable::Because(why));
    let text = match files::read(path, LONGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unusable::Absent),
        Err(error) => return because(error.to_string()),
    };
    // A newer form may have anything else in it.
    #[derive(Deserialize)]
    struct Form {
        format: u32,
    }
    match serde_json::from_slice::<Form>(&text) {
        Ok(Form { format: FORMAT }) => {}
        Ok(Form { format }) => {
            return because(format!(
                "found format {format}, as other versions of Greylag write; this one reads {FORMAT}"
            ));
        }
        Err(error) => return because(place_of(&error)),
    }
    serde_json::from_slice(&text).or_else(|error| because(place_of(&error)))
}

// The library's text could repeat what it has found, which may be a secret.
fn place_of(error: &serde_json::Error) -> String {
    format!(
        "it is not what Greylag writes there, at line {} column {}",
        error.line(),
        error.column()
    )
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}
