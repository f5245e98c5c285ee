//! The metrics page before Prometheus' own judge.
//!
//! In: a Greylag that has carried a stream, a plain answer, a page and a refusal. Out: what `promtool check metrics`
//! says of its `/metrics`. Without promtool a person is told so; in CI that is a failure.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use greylag::app::App;
use greylag::config::Config;
use greylag_sim::{Engine, Settings};

#[test]
fn promtool_finds_nothing_to_say_about_the_metrics_page() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let engine = runtime
        .block_on(Engine::start(Settings::default()))
        .unwrap();
    let app = App::start(config(engine.address())).unwrap();

    let client = app.addresses[0];
    let chat =
        r#"{"model":"tiny","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    assert!(ask(client, &post("/v1/chat/completions", chat)).contains("[DONE]"));
    let completion = r#"{"model":"tiny","prompt":"a"}"#;
    assert!(ask(client, &post("/v1/completions", completion)).contains("\"usage\""));
    assert!(ask(client, &get("/v1/models")).contains("tiny"));
    let upgrade =
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: close, upgrade\r\nupgrade: websocket\r\n\r\n";
    assert!(
        ask(client, upgrade)
            .to_ascii_lowercase()
            .contains("x-greylag-reason: unsupported")
    );

    // The record follows the answer's last byte.
    let page = (0..100)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let answer = ask(app.observe, &get("/metrics"));
            answer.split_once("\r\n\r\n").unwrap().1.to_owned()
        })
        .find(|page| page.contains("greylag_refused_total{reason=\"unsupported\"} 1\n"))
        .expect("the refusal is counted within two seconds");
    assert!(page.contains("greylag_output_tokens_total{"), "{page}");
    let said = promtool(&page);
    app.stop();
    runtime.block_on(engine.stop());
    match said {
        Ok(said) => assert_eq!(said, "", "promtool of this page:\n{page}"),
        Err(error) => {
            let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!ci, "promtool cannot be run ({error}), and CI needs it");
            // Past the test runner, which would keep it to itself.
            writeln!(io::stderr(), "skipped: promtool ({error})").unwrap();
        }
    }
}

fn config(engine: SocketAddr) -> Config {
    let text = format!(
        "
listen: [{{ address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0' }}
observe: {{ address: '127.0.0.1:0' }}
telemetry: {{ log: {{ format: 'off' }} }}
limits: {{ drain_wait: 1ms }}
rules:
  engines:
    stable: {{ kind: vllm, url: 'http://{engine}' }}
  default_engine: stable
"
    );
    Config::read(&text, "test").unwrap()
}

// All that promtool prints; nothing, if it has nothing to say.
fn promtool(page: &str) -> io::Result<String> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Taken, so that it is closed once the page is written.
    child.stdin.take().unwrap().write_all(page.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let mut said = String::from_utf8_lossy(&said).into_owned();
    if !output.status.success() && said.is_empty() {
        said = output.status.to_string();
    }
    Ok(said)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

// Sends a request and reads to the connection's end.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
