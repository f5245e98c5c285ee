//! Tokens: who has one, what it allows, and what becomes of guesses.

use std::net::SocketAddr;

use crate::admin::{DEAD, JSON, problem};
use crate::certs::Folder;
use crate::harness::{Answer, Greylag};
use crate::talk::ask;

pub const ANN: &str = "ann-0123456789-secret";
pub const BOB: &str = "bob-9876543210-secret";

/// The lines of a file: ann may write, bob may read.
pub fn lines() -> String {
    format!("# who may what\nann write {ANN}\nbob read {BOB}\n")
}

fn keys(folder: &Folder) -> String {
    let file = folder.join("tokens");
    format!("admin: {{ address: \"127.0.0.1:0\", token_file: {file:?} }}")
}

fn with(admin: SocketAddr, token: &str, method: &str, target: &str, body: &str) -> Answer {
    let token = format!("authorization: Bearer {token}");
    ask(admin, method, target, &[JSON, &token], body)
}

#[test]
fn whoever_has_no_token_that_is_in_force_gets_nothing() {
    let folder = Folder::new();
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let greylag = Greylag::with(&keys(&folder), DEAD);
    let admin = greylag.app().admin;
    for fields in [
        &[][..],
        &["authorization: Basic YW5uOmFubg=="],
        &["authorization: Bearer"],
    ] {
        let answer = ask(admin, "GET", "/v1/rules", fields, "");
        let detail = problem(&answer, 401, "token_missing");
        assert!(detail.contains("Authorization: Bearer TOKEN"), "{detail}");
        let asked = answer.header("www-authenticate");
        assert_eq!(asked, Some("Bearer realm=\"greylag\""));
    }
    let twice = format!("authorization: Bearer {ANN}\r\nauthorization: Bearer {ANN}");
    let answer = ask(admin, "GET", "/v1/rules", &[&twice], "");
    problem(&answer, 401, "token_missing");
    for token in ["x", "ann-0123456789-secre", "ann-0123456789-secret1"] {
        let answer = with(admin, token, "GET", "/v1/rules", "");
        problem(&answer, 401, "token_wrong");
        assert!(answer.header("www-authenticate").is_some());
        // What is not there is not told of either.
        problem(
            &with(admin, token, "GET", "/nothing", ""),
            401,
            "token_wrong",
        );
    }
    // Where it comes from is looked at first.
    let fields = [
        &*format!("authorization: Bearer {ANN}"),
        "origin: http://evil.example",
    ];
    let answer = ask(admin, "GET", "/v1/rules", &fields, "");
    problem(&answer, 403, "origin_not_allowed");
    assert_eq!(with(admin, ANN, "GET", "/v1/rules", "").status, 200);
}

#[test]
fn a_token_allows_what_its_role_says() {
    let folder = Folder::new();
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let greylag = Greylag::with(&keys(&folder), DEAD);
    let admin = greylag.app().admin;
    let rules = with(admin, BOB, "GET", "/v1/rules", "").text();
    for target in ["/v1/rules", "/v1/rules?dry_run=true"] {
        let detail = problem(
            &with(admin, BOB, "PUT", target, &rules),
            403,
            "role_too_low",
        );
        assert_eq!(detail, "found a token of the role read, needed is write");
    }
    // A method that is not there is one that could change something.
    problem(
        &with(admin, BOB, "DELETE", "/v1/rules", ""),
        403,
        "role_too_low",
    );
    problem(
        &with(admin, ANN, "DELETE", "/v1/rules", ""),
        405,
        "method_not_allowed",
    );
    // Callers judge answers with a token that only reads.
    let feedback = r#"{"request_id":"x","metric":"m","value":true}"#;
    let judged = with(admin, BOB, "POST", "/v1/feedback", feedback);
    problem(&judged, 404, "not_found");
    problem(
        &with(admin, BOB, "GET", "/v1/feedback", ""),
        405,
        "method_not_allowed",
    );
    let head = with(admin, BOB, "HEAD", "/v1/rules", "");
    assert_eq!(head.header("x-greylag-rules-version"), Some("1"));
    let put = with(admin, ANN, "PUT", "/v1/rules", &rules);
    assert_eq!(put.json()["version"], 2);
}

#[test]
fn a_changed_file_is_used_by_the_next_request_and_a_wrong_one_is_not() {
    let folder = Folder::new();
    let write = |text: &str| std::fs::write(folder.join("tokens"), text).unwrap();
    write(&lines());
    let greylag = Greylag::with(&keys(&folder), DEAD);
    let check = |ann: u16, bob: u16| {
        let found = [ANN, BOB].map(|token| {
            let answer = with(greylag.app().admin, token, "GET", "/v1/rules", "");
            answer.status
        });
        assert_eq!(found, [ann, bob]);
    };
    check(200, 200);
    write(&format!("bob read {BOB}"));
    check(401, 200);
    write("");
    check(401, 200);
    write(&format!("ann {ANN} write"));
    check(401, 200);
    std::fs::remove_file(folder.join("tokens")).unwrap();
    check(401, 200);
    write(&format!("ann write {ANN}"));
    check(200, 401);
}

#[test]
fn a_start_with_a_wrong_file_says_what_is_wrong_and_no_token() {
    let folder = Folder::new();
    let refused = || {
        let fault = Greylag::try_with(&keys(&folder), DEAD).err().unwrap();
        fault.to_string()
    };
    let fault = refused();
    assert!(
        fault.starts_with("admin.token_file: ") && fault.contains("No such file"),
        "{fault}"
    );
    std::fs::write(
        folder.join("tokens"),
        format!("{}eve admin {ANN}x", lines()),
    )
    .unwrap();
    let fault = refused();
    assert!(
        fault.contains("line 4: the second word is no role"),
        "{fault}"
    );
    assert!(!fault.contains("secret"), "{fault}");
}

#[test]
fn who_guesses_has_to_wait_and_then_no_token_helps() {
    let folder = Folder::new();
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let greylag = Greylag::with(&keys(&folder), DEAD);
    let admin = greylag.app().admin;
    // Who brings none has not guessed.
    for _ in 0..20 {
        problem(
            &ask(admin, "GET", "/v1/rules", &[], ""),
            401,
            "token_missing",
        );
    }
    for guess in 0..10 {
        let token = format!("guess-{guess}-0123456789");
        problem(
            &with(admin, &token, "GET", "/v1/rules", ""),
            401,
            "token_wrong",
        );
    }
    for token in ["another-0123456789", ANN] {
        let answer = with(admin, token, "GET", "/v1/rules", "");
        problem(&answer, 429, "too_many_tries");
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
}
