//! `ctl rules edit`: the base in an editor.
//!
//! In: the base, as YAML in a file that nobody else may read, and whatever the editor makes of it. Out: the base replaced, if it is still
//! the one that was read; or nothing. What somebody typed and Greylag did not take is never lost: the file is kept and named.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use greylag_filters::rules::Rules;
use http::HeaderValue;

use super::change::Terms;
use super::failure::Failure;
use super::fleet::{Fleet, hear};
use super::rules;
use crate::cli::api::{Api, Ask};
use crate::cli::{Exit, complain};
use crate::config::Config;

const HEAD: &str = "\
# The base of the rules. Once this file is saved and the editor has ended, it is put in force, if nobody has changed the rules meanwhile.
# Left as it is, nothing is sent. `<hidden>` stands for a secret and means the one in force.
";

/// Lets somebody edit the base.
///
/// # Errors
/// How the command ends.
pub async fn edit(fleet: &Fleet, editor: Option<&str>, terms: &Terms) -> Result<(), Exit> {
    let api = fleet.only("rules edit")?;
    let editor = editor.map_or_else(usual_editor, str::to_owned);
    let ended = |failure: Failure| {
        complain(&failure.text());
        failure.exit()
    };
    let (text, tag) = begin(api).await.map_err(ended)?;
    let file = Draft::write(&text).map_err(ended)?;
    let say_kept = || {
        complain(&format_args!(
            "what was edited is kept: {0}\nto send it: greylag ctl rules put {0}",
            file.path.display()
        ));
    };
    let kept = |exit: Exit| {
        say_kept();
        exit
    };
    if let Err(failure) = run(&editor, &file.path) {
        let exit = ended(failure);
        return Err(match file.reads_as(&text) {
            true => {
                file.remove();
                exit
            }
            false => kept(exit),
        });
    }
    if file.reads_as(&text) {
        file.remove();
        complain(&"nothing was edited, so nothing is sent");
        return Ok(());
    }
    let after = rules::read(&file.path).map_err(kept)?;
    if is_same(&text, &after) {
        file.remove();
        complain(&"what was edited means the same, so nothing is sent");
        return Ok(());
    }
    let terms = Terms {
        if_match: terms.if_match.clone().or(Some(tag)),
        ..terms.clone()
    };
    let put = rules::put(api, &after, &terms).await;
    let is_made = match &put {
        // A dry run has put nothing in force.
        Ok(_) => !terms.dry_run,
        Err(failure) => failure.made().is_some(),
    };
    let told = fleet.tell(&[put]);
    match is_made {
        true => file.remove(),
        false => say_kept(),
    }
    told
}

// What the variables name; the first that says anything.
#[expect(
    clippy::disallowed_methods,
    reason = "an editor is named by variables, everywhere by the same ones"
)]
fn usual_editor() -> String {
    let named = ["VISUAL", "EDITOR"].into_iter().flat_map(std::env::var);
    let mut named = named.filter(|editor| !editor.trim().is_empty());
    named.next().unwrap_or_else(|| "vi".to_owned())
}

// The base as it is edited, and what it is called.
async fn begin(api: &Api) -> Result<(String, HeaderValue), Failure> {
    let heard = hear(api, Ask::get("/v1/rules")).await?;
    let tag = heard.answer.header("etag").and_then(|tag| tag.parse().ok());
    let tag = tag.ok_or_else(|| Failure::odd(api, "the rules came without an ETag"))?;
    let text = rules::yaml(&heard.answer.text());
    Ok((format!("{HEAD}{text}\n"), tag))
}

fn is_same(before: &str, after: &str) -> bool {
    let before: Option<Rules> = Config::read_rules(before, "the rules").ok();
    before.is_some_and(|before| rules::json(&before) == after)
}

// As git does: by a shell, so that an editor may have arguments.
fn run(editor: &str, file: &Path) -> Result<(), Failure> {
    let ours = |what: String| Failure::Ours {
        exit: Exit::Failed,
        what,
    };
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor);
    let ended = shell.arg(file).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(ours(format!("the editor {editor:?} ended with {status}"))),
        Err(error) => Err(ours(format!(
            "the editor {editor:?} cannot be started: {error}"
        ))),
    }
}

// A file that is edited.
#[derive(Debug)]
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn write(text: &str) -> Result<Draft, Failure> {
        let folder = std::env::temp_dir();
        let written = create(&folder).and_then(|(path, mut file)| {
            file.write_all(text.as_bytes())?;
            Ok(Draft { path })
        });
        written.map_err(|error| Failure::Ours {
            exit: Exit::System,
            what: format!("{}: no file can be written: {error}", folder.display()),
        })
    }

    fn reads_as(&self, text: &str) -> bool {
        std::fs::read(&self.path).is_ok_and(|bytes| bytes == text.as_bytes())
    }

    fn remove(&self) {
        // It holds nothing that is not in force already.
        let _ = std::fs::remove_file(&self.path);
    }
}

// A new file for this user alone, under a name that nobody else has made.
fn create(folder: &Path) -> io::Result<(PathBuf, std::fs::File)> {
    const TRIES: u32 = 1000;
    for number in 0..TRIES {
        let name = format!("greylag-rules-{}-{number}.yaml", std::process::id());
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return Ok((path, file)),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn nobody_else_may_read_what_is_edited() {
        let draft = Draft::write("a").unwrap();
        let other = Draft::write("b").unwrap();
        assert_ne!(draft.path, other.path);
        let mode = std::fs::metadata(&draft.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(draft.reads_as("a") && !draft.reads_as("b"));
        for draft in [draft, other] {
            draft.remove();
            assert!(!draft.path.exists());
        }
    }
}
