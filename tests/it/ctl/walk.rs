//! What `docs/ctl.md` shows is what happens: each command of it is run, in order, and prints what stands there.
//!
//! The Greylag is the test's own, with the README's configuration and two simulated engines. What differs from run to run is named by
//! [`steady`]; a line of `…` stands for any lines.

use std::path::Path;
use std::process::Command;

use greylag::app::App;
use greylag::config::Config;
use tokio::runtime::Runtime;

use crate::admin::JSON;
use crate::certs::Folder;
use crate::harness::sim;
use crate::talk::Talk;

const DOCUMENT: &str = include_str!("../../../docs/ctl.md");
const README: &str = include_str!("../../../README.md");

// A command, and what stands below it.
struct Shown<'a> {
    command: &'a str,
    lines: Vec<&'a str>,
}

fn shown(document: &str) -> Vec<Shown<'_>> {
    let mut all: Vec<Shown<'_>> = Vec::new();
    for block in document.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        for line in block.lines() {
            match (line.strip_prefix("$ "), all.last_mut()) {
                (Some(command), _) => all.push(Shown {
                    command,
                    lines: Vec::new(),
                }),
                (None, Some(last)) => last.lines.push(line),
                (None, None) => panic!("{line:?} stands below no command"),
            }
        }
    }
    all
}

// A text whose times, hashes, numbers of processes and ports are words.
fn steady(text: &str) -> String {
    let is_cut = |letter: char| letter.is_whitespace() || "\"(){}[],;`".contains(letter);
    let mut steady = String::new();
    for piece in text.split_inclusive(is_cut) {
        let word = piece.trim_end_matches(|letter: char| is_cut(letter) || letter == ':');
        steady.push_str(&named(word));
        steady.push_str(&piece[word.len()..]);
    }
    // The width of a column follows from what is in it.
    steady.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn named(word: &str) -> String {
    let is_hash =
        |word: &str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A process's number has as many digits as it needs.
    let is_boot = |word: &str| {
        (8..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let spans = ["ms", "s", "m", "h"];
    if word.ends_with('Z') && word.starts_with("20") && word.contains('T') {
        return "TIME".to_owned();
    }
    if word.ends_with("canary.yaml") {
        return "canary.yaml".to_owned();
    }
    if spans
        .iter()
        .any(|span| word.strip_suffix(span).is_some_and(is_number))
    {
        return "SPAN".to_owned();
    }
    match (word.split_once('-'), word.strip_prefix("http://127.0.0.1:")) {
        (Some((boot, number)), _) if is_boot(boot) && is_number(number) => format!("BOOT-{number}"),
        (_, Some(port)) if port.len() > 3 => "http://127.0.0.1:PORT".to_owned(),
        (_, _) if is_hash(word) => "HASH".to_owned(),
        (_, _) => word.to_owned(),
    }
}

// Whether lines are as they should be, where one of `…` stands for any.
fn fits(expected: &[String], found: &[String]) -> bool {
    match (expected.split_first(), found.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((line, expected)), _) if line == "…" => {
            (0..=found.len()).any(|skipped| fits(expected, &found[skipped..]))
        }
        (Some((line, expected)), Some((other, found))) => line == other && fits(expected, found),
        (Some(_), None) => false,
    }
}

fn lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lines = lines.map(steady);
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn each_command_of_the_document_prints_what_stands_there() {
    let runtime = Runtime::new().unwrap();
    let (stable, candidate) = (runtime.block_on(sim()), runtime.block_on(sim()));
    let (_, sample) = README.split_once("```yaml\n").unwrap();
    let (sample, _) = sample.split_once("```").unwrap();
    let ports = [
        ("0.0.0.0:8000", "127.0.0.1:0".to_owned()),
        ("127.0.0.1:8100", stable.address().to_string()),
        ("127.0.0.1:8200", candidate.address().to_string()),
    ];
    let mut sample = ports.iter().fold(sample.to_owned(), |sample, (from, to)| {
        sample.replace(from, to)
    });
    for side in ["admin", "observe"] {
        sample.push_str(&format!("{side}: {{ address: \"127.0.0.1:0\" }}\n"));
    }
    sample.push_str("telemetry: { log: { format: off } }\nlimits: { drain_wait: 0s, drain: 5s }\n");
    let folder = Folder::new();
    let file = folder.join("canary.yaml");
    std::fs::write(&file, sample).unwrap();
    let app = App::start(Config::load(&file).unwrap()).unwrap();

    let mut client = Talk::with(app.addresses[0]);
    for id in ["docs-1", "docs-2"] {
        let id = format!("x-request-id: {id}");
        let body = "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";
        let fields = [JSON, &id, "x-gray-strategy: stable"];
        let answer = client.ask("POST", "/v1/chat/completions", &fields, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let mut wrong = Vec::new();
    let shown = shown(DOCUMENT);
    assert!(shown.len() > 20, "found {} commands", shown.len());
    for Shown {
        command,
        lines: expected,
    } in shown
    {
        let output = run(command, &app, &file);
        let (found, expected) = (lines(output.lines()), lines(expected.into_iter()));
        if !fits(&expected, &found) {
            wrong.push(format!(
                "$ {command}\n--- it prints\n{output}--- where there stands\n{}\n",
                expected.join("\n")
            ));
        }
    }
    app.stop();
    assert!(wrong.is_empty(), "docs/ctl.md:\n{}", wrong.join("\n"));
}

fn run(command: &str, app: &App, file: &Path) -> String {
    assert!(command.contains("greylag ctl "), "{command}");
    let admin = format!("http://{}", app.admin);
    let program = Path::new(env!("CARGO_BIN_EXE_greylag"));
    let command = command.replace("greylag ctl ", &format!("{} ctl ", program.display()));
    // The address of the document stands for the test's.
    let command = command.replace("http://127.0.0.1:9901", &admin);
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(file.parent().unwrap())
        .env("GREYLAG_CTL_ADMIN", admin)
        .env_remove("VISUAL")
        .output()
        .unwrap();
    // A path of this program is in no document.
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_differs_from_run_to_run_is_named_and_nothing_else() {
    for (text, expected) in [
        ("a  2026-12-01T14:22:03.627Z  b", "a TIME b"),
        (
            "{\"hash\":\"e7e9d0c1620501e1\",\"since\":\"2026-12-01T14:22:03Z\"}",
            "{\"hash\":\"HASH\",\"since\":\"TIME\"}",
        ),
        ("tag 1049d77d8391f355-8", "tag BOOT-8"),
        ("tag 16195ab59ea83d8-1", "tag BOOT-1"),
        ("2026-12 abcdef01-x", "2026-12 abcdef01-x"),
        (
            "http://127.0.0.1:9901 refused it:",
            "http://127.0.0.1:PORT refused it:",
        ),
        ("http://127.0.0.1:9 cannot", "http://127.0.0.1:9 cannot"),
        ("up  3s  466.7ms 90 90.0%", "up SPAN SPAN 90 90.0%"),
        ("file  /somewhere/canary.yaml: ok", "file canary.yaml: ok"),
        ("version 8, stable=50", "version 8, stable=50"),
    ] {
        assert_eq!(steady(text), expected);
    }
    let of = |text: &str| lines(text.lines());
    assert!(fits(&of("a\n…\nd"), &of("a\nb\nc\nd")));
    assert!(!fits(&of("a\n…\nd"), &of("a\nb\nc")));
    assert!(!fits(&of("a"), &of("a\nb")));
}
