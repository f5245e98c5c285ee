//! `ctl` and Greylag's own admin API, where it asks who is there: tokens, TLS, a unix socket.

use super::{Output, RULES};
use crate::certs::{Authority, Folder};
use crate::commands::with;
use crate::guard::tokens::{ANN, BOB, lines};
use crate::harness::Greylag;

// Files of the tokens, and the key of the configuration that asks for one.
fn tokens(folder: &Folder) -> String {
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    for (name, token) in [("ann", ANN), ("bob", BOB), ("eve", "eve-5555555555-secret")] {
        std::fs::write(folder.join(name), token).unwrap();
    }
    format!("token_file: {:?}", folder.join("tokens"))
}

fn ctl(admin: &str, more: &[&str], arguments: &[&str]) -> Output {
    let all = [&["ctl", "--admin", admin], more, arguments].concat();
    with(&all, &[])
}

const LOOK: &[&str] = &["split"];
const MOVE: &[&str] = &["split", "default", "stable=1", "candidate=1"];

#[test]
fn a_token_allows_what_its_role_says() {
    let folder = Folder::new();
    let keys = format!("admin: {{ address: \"127.0.0.1:0\", {} }}", tokens(&folder));
    let greylag = Greylag::with(&keys, RULES);
    let admin = format!("http://{}", greylag.app().admin);
    let check = |who: Option<&str>, arguments: &[&str], code: i32, part: &str| {
        let file = who.map(|who| folder.join(who).display().to_string());
        let more = file.iter().flat_map(|file| ["--token-file", file]);
        let output = ctl(&admin, &more.collect::<Vec<_>>(), arguments);
        assert_eq!(output.0, Some(code), "{output:?}");
        assert!(
            format!("{}{}", output.1, output.2).contains(part),
            "{output:?}"
        );
        assert!(!output.2.contains("secret"), "{output:?}");
    };
    check(
        None,
        LOOK,
        77,
        "--token-file names a file that holds a token",
    );
    check(Some("eve"), LOOK, 77, "(401)");
    check(Some("bob"), LOOK, 0, "candidate");
    check(
        Some("bob"),
        MOVE,
        77,
        "found a token of the role read, needed is write",
    );
    check(Some("bob"), &["rules", "get"], 0, "default_engine: stable");
    check(Some("bob"), &["events", "--after", "0"], 0, "");
    check(Some("ann"), MOVE, 0, "version 2 is in force");
    // The owner is who has the token.
    check(Some("bob"), &["overlays"], 0, "ann");
    check(None, &["events", "--follow"], 77, "(401)");
    check(None, &["exchanges", "--follow"], 77, "(401)");
}

#[test]
fn an_admin_api_with_tls_is_asked_by_those_who_trust_it() {
    let folder = Folder::new();
    let authority = Authority::new();
    let own = authority.sign("localhost");
    let keys = format!(
        "admin: {{ address: \"127.0.0.1:0\", tls: {{ cert: {:?}, key: {:?} }}, {} }}",
        own.cert,
        own.key,
        tokens(&folder)
    );
    let greylag = Greylag::with(&keys, RULES);
    let admin = format!("https://localhost:{}", greylag.app().admin.port());
    let (ca, other) = (authority.file(), Authority::new());
    let token = folder.join("ann").display().to_string();
    let shown = ["--token-file", &token, "--ca", ca.to_str().unwrap()];
    let (code, out, err) = ctl(&admin, &shown, MOVE);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("version 2 is in force"), "{out}");
    let other = other.file();
    let shown = ["--token-file", &token, "--ca", other.to_str().unwrap()];
    let (code, _, err) = ctl(&admin, &shown, LOOK);
    assert_eq!(code, Some(69), "{err}");
}

#[test]
fn an_admin_api_on_a_unix_socket_is_asked() {
    let folder = Folder::new();
    let path = folder.join("admin.sock");
    let keys = format!("admin: {{ address: \"unix:{}\" }}", path.display());
    let _greylag = Greylag::with(&keys, RULES);
    let admin = format!("unix:{}", path.display());
    for (arguments, part) in [
        (MOVE, "version 2 is in force"),
        (&["overlays"], "uid:"),
        (&["events"], "version 2"),
    ] {
        let (code, out, err) = ctl(&admin, &[], arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert!(out.contains(part), "{out}");
    }
}
