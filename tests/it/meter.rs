//! `greylag meter`: what it says of every recorded answer is what docs/captures.md says.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::recorded;

fn meter(arguments: &[&str], file: &Path) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greylag"));
    command.arg("meter").args(arguments).arg(file);
    command.output().unwrap()
}

fn found(arguments: &[&str], file: &Path) -> Value {
    let output = meter(&[&["--json"], arguments].concat(), file);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", file.display());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filters/fixtures");
    root.join(format!("{name}.response.http"))
}

/// The rows of the page: name, dialect, token events, output tokens, first token event, outcome, finish reasons.
fn rows() -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/captures.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('/'));
    rows.map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    })
    .collect()
}

fn number(cell: &str) -> Value {
    cell.parse::<u64>().map_or(Value::Null, Value::from)
}

#[test]
fn every_recorded_answer_is_metered_as_the_page_says() {
    let all = recorded::all();
    let rows = rows();
    assert!(rows.len() > 100, "{}", rows.len());
    for row in &rows {
        let name = &*row[0];
        let recorded = all.iter().find(|recorded| recorded.name == name);
        let Some(recorded) = recorded else { continue };
        let found = found(&["--path", &recorded.path], &fixture(name));
        assert_eq!(found["dialect"], *row[1], "{name}");
        // An answer that failed as a whole is not read.
        if recorded.status == 200 {
            assert_eq!(found["token_events"], number(&row[2]), "{name}");
            assert_eq!(found["first_token_event"], number(&row[4]), "{name}");
        }
        assert_eq!(found["output_tokens"], number(&row[3]), "{name}");
        // That the client left is not in the file.
        let outcome = match &*row[5] {
            "client_gone" => "truncated",
            other => other,
        };
        assert_eq!(found["outcome"], outcome, "{name}");
        let mut words: Vec<&str> = Vec::new();
        for reason in row[6].split(", ").filter(|reason| !reason.is_empty()) {
            let (word, count) = reason.split_once(':').unwrap();
            words.extend(std::iter::repeat_n(word, count.parse().unwrap()));
        }
        assert_eq!(found["finish_reasons"], serde_json::json!(words), "{name}");
    }
}

#[test]
fn answers_that_went_well_are_recognised_without_a_path() {
    for row in rows() {
        // An error says too little, and a stream of nothing says nothing.
        if row[5] != "ok" || row[0] == "triton/generate-stream-zero-responses" {
            continue;
        }
        let found = found(&[], &fixture(row[0].split('#').next().unwrap()));
        assert_eq!(found["dialect"], *row[1], "{}", row[0]);
    }
}

#[test]
fn what_cannot_be_metered_says_why() {
    let check = |arguments: &[&str], file: &Path, code: i32, what: &str| {
        let output = meter(arguments, file);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(what), "{errors}");
    };
    let stream = fixture("vllm/chat-stream");
    check(&["--path", "/v1/models"], &stream, 64, "no inference route");
    check(&["--dialect", "chats"], &stream, 64, "allowed are chat,");
    check(&[], Path::new("/nowhere/at/all"), 71, "/nowhere/at/all");
    let no_answer = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    check(&[], &no_answer, 70, "does not begin with the head");
    let people = meter(&["--dialect", "chat"], &stream);
    let text = String::from_utf8_lossy(&people.stdout).into_owned();
    assert!(text.contains("first_token_event  2\n"), "{text}");
}
