//! `ctl rules edit`, with scripts for editors.

use std::net::SocketAddr;

use super::{Output, RULES, ctl};
use crate::commands::{File, with};
use crate::harness::Greylag;

fn edit(admin: SocketAddr, editor: &str) -> Output {
    let admin = format!("http://{admin}");
    with(
        &["ctl", "rules", "edit"],
        &[("GREYLAG_CTL_ADMIN", &admin), ("VISUAL", editor)],
    )
}

// A shell script as an editor, which gets the file as $1.
fn script(text: &str) -> (File, String) {
    let file = File::new(text);
    let command = format!("sh {}", file.path());
    (file, command)
}

fn version(admin: SocketAddr) -> String {
    let (_, out, _) = ctl(&[admin], &["--json", "status"]);
    let status: serde_json::Value = serde_json::from_str(&out).unwrap();
    status["rules"]["version"].to_string()
}

// The file that is named as kept, which is removed.
fn kept(err: &str) -> String {
    let (_, rest) = err.split_once("what was edited is kept: ").expect(err);
    let path = rest.lines().next().unwrap();
    let text = std::fs::read_to_string(path).expect(err);
    std::fs::remove_file(path).unwrap();
    text
}

#[test]
fn what_is_edited_is_put_in_force_or_kept() {
    let greylag = Greylag::start(RULES);
    let admin = greylag.app().admin;

    // As it is.
    let (code, out, err) = edit(admin, "true");
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert_eq!(err, "nothing was edited, so nothing is sent\n");
    // With another comment.
    let (_file, comment) = script("echo '# later' >>\"$1\"");
    let (code, _, err) = edit(admin, &comment);
    assert_eq!(
        (code, err.as_str()),
        (
            Some(0),
            "what was edited means the same, so nothing is sent\n"
        )
    );
    assert_eq!(version(admin), "1");

    // Well. The file is this user's alone.
    let (_file, good) =
        script("ls -l \"$1\" | cut -c1-10 >\"$0.mode\"; sed -i 's/stable: 90/stable: 60/' \"$1\"");
    let (code, out, err) = edit(admin, &good);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("weights.stable: 90 -> 60"), "{out}");
    assert_eq!(version(admin), "2");
    let mode = format!("{}.mode", good.strip_prefix("sh ").unwrap());
    assert_eq!(std::fs::read_to_string(&mode).unwrap(), "-rw-------\n");
    std::fs::remove_file(mode).unwrap();

    // So that it cannot be read.
    let (_file, unread) = script("sed -i 's/stable: 60/stable: many/' \"$1\"");
    let (code, _, err) = edit(admin, &unread);
    assert_eq!(code, Some(65), "{err}");
    assert!(err.contains("rules.splits[0].weights.stable: "), "{err}");
    assert!(kept(&err).contains("stable: many"));

    // So that it does not fit together.
    let (_file, misfit) =
        script("sed -i 's/^default_engine: stable/default_engine: other/' \"$1\"");
    let (code, _, err) = edit(admin, &misfit);
    assert_eq!(code, Some(65), "{err}");
    assert!(
        err.contains("rules.default_engine: engine \"other\" is not defined"),
        "{err}"
    );
    assert!(kept(&err).contains("default_engine: other"));

    // The editor fails once something was typed.
    let (_file, dies) = script("echo '# typed' >>\"$1\"; exit 3");
    let (code, _, err) = edit(admin, &dies);
    assert_eq!(code, Some(70), "{err}");
    assert!(kept(&err).contains("# typed"));
    // And at once.
    let (code, _, err) = edit(admin, "false");
    assert_eq!(code, Some(70), "{err}");
    assert!(!err.contains("is kept"), "{err}");
    assert_eq!(version(admin), "2");
}

#[test]
fn somebody_who_was_faster_is_not_written_over() {
    let greylag = Greylag::start(RULES);
    let admin = greylag.app().admin;
    let faster = format!(
        "{} ctl --admin http://{admin} split default stable=5 candidate=5 >&2\nsed -i 's/stable: 90/stable: 60/' \"$1\"",
        env!("CARGO_BIN_EXE_greylag")
    );
    let (_file, editor) = script(&faster);
    let (code, _, err) = edit(admin, &editor);
    assert_eq!(code, Some(75), "{err}");
    assert!(
        err.contains("Other rules are in force by now (412)"),
        "{err}"
    );
    let text = kept(&err);
    assert!(text.contains("stable: 60"));
    assert_eq!(version(admin), "2");
    // As it says, it can be put once it was looked at.
    let file = File::new(&text);
    let (code, out, err) = ctl(&[admin], &["rules", "put", file.path()]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
}
