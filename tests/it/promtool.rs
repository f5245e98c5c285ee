//! The metrics page before Prometheus' own judge.
//!
//! In: a Greylag that has carried a stream, a plain answer, a page and a refusal. Out: what `promtool check metrics`
//! says of its `/metrics`. Without promtool a person is told so; in CI that is a failure.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use greylag_sim::{Engine, Settings};

use crate::harness::{Client, Greylag, engines};

const CHAT: &str =
    r#"{"model":"tiny","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
const COMPLETION: &str = r#"{"model":"tiny","prompt":"a"}"#;

#[tokio::test]
async fn promtool_finds_nothing_to_say_about_the_metrics_page() {
    let engine = Engine::start(Settings::default()).await.unwrap();
    let greylag = Greylag::start(&engines(&[("stable", engine.address())]).to_string());
    let mut client = Client::to(greylag.address()).await;
    assert!(client.chat(&[], CHAT).await.text().contains("[DONE]"));
    let plain = client.post("/v1/completions", &[], COMPLETION).await;
    assert!(plain.json()["usage"].is_object());
    assert_eq!(client.get("/v1/models").await.status, 200);
    client.ask("OPTIONS /", &["expect: miracles"], "").await;
    assert_eq!(client.answer().await.status, 417);
    greylag.records_of(4).await;

    let page = Client::to(greylag.app().observe)
        .await
        .get("/metrics")
        .await
        .text();
    for sample in [
        "greylag_ttft_seconds_bucket{",
        "greylag_output_tokens_total{",
        "greylag_refused_total{reason=\"expectation_failed\"} 1\n",
    ] {
        assert!(page.contains(sample), "found no {sample} in:\n{page}");
    }
    match promtool(&page) {
        Ok(said) => assert_eq!(said, "", "promtool of this page:\n{page}"),
        Err(error) => {
            assert!(
                !is_ci(),
                "promtool cannot be run ({error}), and CI needs it"
            );
            // Past the test runner, which would keep it to itself.
            writeln!(io::stderr(), "skipped: promtool ({error})").unwrap();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own question, not the program's"
)]
fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}

#[test]
fn promtool_would_say_so() {
    if let Ok(said) = promtool("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n") {
        assert!(said.contains("a_total"), "{said}");
    }
}

// All that promtool prints; nothing, if it has nothing to say.
fn promtool(page: &str) -> io::Result<String> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(page.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let mut said = String::from_utf8_lossy(&said).into_owned();
    if !output.status.success() && said.is_empty() {
        said = output.status.to_string();
    }
    Ok(said)
}
