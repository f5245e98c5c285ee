//! What is written of changes and refusals, and that no token is.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::tokens::{ANN, BOB, lines};
use crate::admin::JSON;
use crate::certs::Folder;
use crate::commands::{File, Running};
use crate::talk::ask;

const RULES: &str = "rules: { engines: { stable: { kind: vllm, url: \"http://127.0.0.1:9\" } }, default_engine: stable }\n";

fn config(admin: &str) -> File {
    File::new(&format!(
        "listen: [{{ address: \"127.0.0.1:0\" }}]\nobserve: {{ address: \"127.0.0.1:0\" }}\nadmin: {admin}\n\
         telemetry: {{ log: {{ format: off, process: json }} }}\nlimits: {{ drain_wait: 0s }}\n{RULES}"
    ))
}

// The events of this name, once the process has ended.
fn events(text: &str, name: &str) -> Vec<Value> {
    let all = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|event| event["event_name"] == name).collect()
}

fn admin_of(running: &mut Running) -> std::net::SocketAddr {
    let event: Value = serde_json::from_str(&running.line("greylag.admin.listening")).unwrap();
    event["greylag.address"].as_str().unwrap().parse().unwrap()
}

#[test]
fn changes_and_refusals_are_written_with_who_and_what_and_no_token_ever_is() {
    let folder = Folder::new();
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let file = config(&format!(
        "{{ address: \"127.0.0.1:0\", token_file: {:?} }}",
        folder.join("tokens")
    ));
    // Whatever a library may tell, too.
    let mut running = Running::with(&file, &[("RUST_LOG", "trace")]);
    let admin = admin_of(&mut running);
    let mut answers = String::new();
    let mut with = |token: &str, method: &str, target: &str, body: &str| {
        let token = format!("authorization: Bearer {token}");
        let answer = ask(admin, method, target, &[JSON, &token], body);
        answers.push_str(&answer.head);
        answers.push_str(&answer.text());
        answer
    };
    let rules = with(ANN, "GET", "/v1/rules", "").text();
    assert_eq!(
        with(ANN, "PUT", "/v1/rules?dry_run=true", &rules).status,
        200
    );
    assert_eq!(with(ANN, "PUT", "/v1/rules", &rules).status, 200);
    assert_eq!(with(ANN, "PUT", "/v1/rules", "{}").status, 400);
    assert_eq!(with(BOB, "PUT", "/v1/rules", &rules).status, 403);
    assert_eq!(with(ANN, "DELETE", "/v1/a\u{7f}\"b", "").status, 400);
    let long = format!("/v1/{}", "x".repeat(1000));
    assert_eq!(with(ANN, "POST", &long, "").status, 404);
    assert_eq!(
        with("guessed-0123456789", "GET", "/v1/rules", "").status,
        401
    );
    let feedback = r#"{"request_id":"x","metric":"m","value":true}"#;
    assert_eq!(with(BOB, "POST", "/v1/feedback", feedback).status, 404);
    assert_eq!(with(ANN, "GET", "/nothing", "").status, 404);
    // A file that is wrong is told of once, and without its tokens.
    std::fs::write(folder.join("tokens"), format!("ann {ANN} write")).unwrap();
    for _ in 0..3 {
        assert_eq!(with(ANN, "GET", "/v1/rules", "").status, 200);
    }
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    assert_eq!(with(ANN, "GET", "/v1/rules", "").status, 200);
    running.signal("TERM");
    let (code, told) = running.end();
    assert_eq!(code, Some(0));

    let changed = events(&told, "greylag.admin.changed");
    assert_eq!(changed.len(), 1, "{changed:?}");
    for (field, value) in [
        ("author", Value::from("ann")),
        ("role", "write".into()),
        ("method", "PUT".into()),
        ("path", "/v1/rules".into()),
        ("status", 200.into()),
        ("version", 2.into()),
    ] {
        assert_eq!(changed[0][format!("greylag.{field}")], value, "{field}");
    }
    let peer = changed[0]["greylag.peer"].as_str().unwrap();
    assert!(peer.starts_with("127.0.0.1:"), "{peer}");

    let refused = events(&told, "greylag.admin.refused");
    let found: Vec<_> = refused
        .iter()
        .map(|event| {
            let text = |field: &str| event[format!("greylag.{field}")].as_str().unwrap_or("-");
            (text("author"), text("role"), text("method"), text("code"))
        })
        .collect();
    let expected = [
        ("ann", "write", "PUT", "bad_json"),
        ("bob", "read", "PUT", "role_too_low"),
        ("ann", "write", "POST", "not_found"),
        ("-", "-", "GET", "token_wrong"),
    ];
    assert_eq!(found, expected);
    let path = refused[2]["greylag.path"].as_str().unwrap();
    assert_eq!(path.len(), 200, "{path}");

    assert_eq!(events(&told, "greylag.admin.tokens_wrong").len(), 1);
    assert_eq!(events(&told, "greylag.admin.tokens_changed").len(), 1);
    for secret in [ANN, BOB, "guessed-0123456789"] {
        assert!(!told.contains(secret), "{secret} is told");
        assert!(!answers.contains(secret), "{secret} is answered");
    }
}

#[test]
fn who_is_turned_away_again_and_again_does_not_fill_the_log() {
    let file = config("{ address: \"127.0.0.1:0\" }");
    let mut running = Running::start(&file);
    let admin = admin_of(&mut running);
    for _ in 0..30 {
        let fields = ["origin: http://evil.example"];
        assert_eq!(ask(admin, "GET", "/v1/rules", &fields, "").status, 403);
    }
    running.signal("TERM");
    let (_, told) = running.end();
    let refused = events(&told, "greylag.admin.refused");
    assert_eq!(refused.len(), 10);
    assert_eq!(refused[0]["greylag.code"], "origin_not_allowed");
}

#[test]
fn over_a_unix_socket_the_author_is_the_user_that_the_kernel_names() {
    let folder = Folder::new();
    let path = folder.join("admin.sock");
    let file = config(&format!("{{ address: \"unix:{}\" }}", path.display()));
    let mut running = Running::start(&file);
    let place = format!("unix:{}", path.display());
    assert!(running.line("greylag.admin.listening").contains(&place));
    let body = RULES.trim_end().strip_prefix("rules: ").unwrap();
    let rules: Value = serde_saphyr::from_str(body).unwrap();
    let rules = rules.to_string();
    let mut stream = UnixStream::connect(&path).unwrap();
    write!(
        stream,
        "PUT /v1/rules HTTP/1.1\r\nhost: a\r\n{JSON}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{rules}",
        rules.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    running.signal("TERM");
    let (_, told) = running.end();
    let changed = events(&told, "greylag.admin.changed");
    assert_eq!(changed.len(), 1, "{told}");
    // The test runs as the same user as the process.
    use std::os::unix::fs::MetadataExt;
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    assert_eq!(changed[0]["greylag.author"], format!("uid:{user}"));
    assert_eq!(changed[0]["greylag.peer"], "unix");
    assert_eq!(events(&told, "greylag.admin.plain").len(), 0);
}

#[test]
fn off_loopback_without_tls_there_is_a_warning() {
    let folder = Folder::new();
    std::fs::write(folder.join("tokens"), lines()).unwrap();
    let file = config(&format!(
        "{{ address: \"0.0.0.0:0\", token_file: {:?} }}",
        folder.join("tokens")
    ));
    let mut running = Running::start(&file);
    let line = running.line("greylag.admin.plain");
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["severity_text"], "WARN");
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}
