//! The program itself: what it prints, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::talk::{Talk, comes_true};

const RULES: &str = "rules:\n  engines: { stable: { kind: vllm, url: \"http://127.0.0.1:9\" } }\n  default_engine: stable\n";

fn greylag(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greylag"));
    command
        .args(arguments)
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1");
    command
}

/// The same without variables.
pub fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    with(arguments, &[])
}

/// Runs a command to its end with these variables: its exit code, and what it wrote on both outputs.
pub fn with(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = greylag(arguments);
    let Output {
        status,
        stdout,
        stderr,
    } = command.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A file that is removed again.
pub struct File(PathBuf);

impl File {
    /// Writes one with this text.
    pub fn new(text: &str) -> File {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("greylag-it-{}-{count}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    /// Its path.
    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A file that is gone already is as good.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn check_names_the_rules_of_a_good_file() {
    let file = File::new(RULES);
    let (code, out, err) = output(&["check", file.path()]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let rest = out
        .strip_prefix(&format!("{}: ok (1 engine, 0 splits, rules ", file.path()))
        .unwrap();
    let hash = rest.strip_suffix(")\n").unwrap();
    assert!(
        hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
        "{hash}"
    );
}

#[test]
fn check_names_everything_that_is_wrong_with_a_bad_file() {
    // FILE stands for the file's name.
    for (text, expected) in [
        (String::new(), "FILE:1:1: found nothing; a configuration is a map with at least `rules`\n".to_owned()),
        (
            format!("worker: 1\n{RULES}"),
            "FILE:1:1: unknown key \"worker\"; allowed: listen, admin, observe, identity, trusted, forwarded, telemetry, limits, workers, state_file, on_bad_rules, rules; did you mean \"workers\"?\n".to_owned(),
        ),
        (
            format!("workers: 0\nlimits: {{ body: 0B }}\n{RULES}  splits: [{{ name: s, weights: {{ other: 1 }} }}]\n"),
            "FILE:1:1: workers: found 0, allowed are 1 to 256\n\
             FILE:2:11: limits.body: found 0B, at least 1B is needed\n\
             FILE:6:34: rules.splits[0].weights.other: engine \"other\" is not defined (defined: \"stable\")\n"
                .to_owned(),
        ),
    ] {
        let file = File::new(&text);
        let (code, out, err) = output(&["check", file.path()]);
        assert_eq!((code, out.as_str()), (Some(78), ""), "{text}");
        assert_eq!(err, expected.replace("FILE", file.path()), "{text}");
    }
    let (code, _, err) = output(&["check", "/nowhere/greylag.yaml"]);
    assert_eq!(code, Some(78));
    assert!(
        err.starts_with("/nowhere/greylag.yaml: No such file"),
        "{err}"
    );
}

#[test]
fn check_and_run_read_variables_before_the_file() {
    let file = File::new(&format!("workers: many\n{RULES}"));
    let (code, out, err) = with(
        &["check", file.path()],
        &[
            ("GREYLAG_WORKERS", "2"),
            ("GREYLAG_LIMITS_DRAIN", "5s"),
            ("GREYLAG_SERVICE_HOST", "10.0.0.1"),
        ],
    );
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.ends_with(", with GREYLAG_LIMITS_DRAIN, GREYLAG_WORKERS)\n"),
        "{out}"
    );
    let expected = format!(
        "{}:1:10: workers: found \"many\", expected a whole number\n\
         environment: GREYLAG_LIMITS_BODY: a size needs a unit, such as \"512B\", \"64KiB\", \"1MiB\" or \"10MB\"; found the number 64\n\
         environment: GREYLAG_WORKER: unknown variable; did you mean \"GREYLAG_WORKERS\"?\n",
        file.path()
    );
    let variables = [("GREYLAG_WORKER", "2"), ("GREYLAG_LIMITS_BODY", "64")];
    for arguments in [
        &["check", file.path()][..],
        &["run", "--config", file.path()],
    ] {
        let (code, out, err) = with(arguments, &variables);
        assert_eq!((code, out.as_str()), (Some(78), ""), "{arguments:?}");
        assert_eq!(err, expected, "{arguments:?}");
    }
}

#[test]
fn a_command_line_that_is_not_understood_ends_with_64() {
    for arguments in [
        &["serve"][..],
        &["run"],
        &["run", "--config"],
        &["check"],
        &["check", "a", "b"],
        &[],
    ] {
        let (code, out, err) = output(arguments);
        assert_eq!((code, out.as_str()), (Some(64), ""), "{arguments:?}");
        assert!(
            err.contains("Usage: greylag") || err.starts_with("error: a value is required"),
            "{err}"
        );
    }
    let (code, out, err) = output(&["--help"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for part in [
        "run",
        "check",
        "schema",
        "health",
        "sim",
        "78 configuration",
    ] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
    let (code, out, _) = output(&["--version"]);
    assert_eq!(
        (code, out.as_str()),
        (
            Some(0),
            concat!("greylag ", env!("CARGO_PKG_VERSION"), "\n")
        )
    );
}

#[test]
fn schema_is_json() {
    let (code, out, _) = output(&["schema"]);
    assert_eq!(code, Some(0));
    let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(schema["properties"]["rules"].is_object(), "{schema}");
}

fn config(listen: &str) -> String {
    format!(
        "listen: [{{ address: \"{listen}\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\nobserve: {{ address: \"127.0.0.1:0\" }}\n\
         limits: {{ drain: 30s, drain_wait: 0s }}\n{RULES}"
    )
}

#[test]
fn an_address_in_use_is_named_and_ends_with_71() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let file = File::new(&config(&address.to_string()));
    let (code, out, err) = output(&["run", "--config", file.path()]);
    assert_eq!((code, out.as_str()), (Some(71), ""));
    let expected = format!(
        "{}: cannot listen on {address}: Address already in use (os error 98)\n",
        file.path()
    );
    assert_eq!(err, expected);
    let (code, _, err) = output(&["sim", "--listen", &address.to_string()]);
    assert_eq!(code, Some(71));
    assert!(
        err.contains(&format!("cannot listen on {address}")),
        "{err}"
    );
}

/// A process that serves, and the lines of its standard error.
pub struct Running {
    child: std::process::Child,
    lines: BufReader<std::process::ChildStderr>,
}

impl Running {
    /// Starts one with this configuration.
    pub fn start(file: &File) -> Running {
        Running::with(file, &[])
    }

    /// The same with these variables.
    pub fn with(file: &File, variables: &[(&str, &str)]) -> Running {
        let mut child = greylag(&["run", "--config", file.path()])
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Running { child, lines }
    }

    /// The first line with this in it.
    pub fn line(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            let read = self.lines.read_line(&mut all).unwrap();
            assert!(read > 0, "{part} is not in {all}");
            if all[before..].contains(part) {
                return all[before..].to_owned();
            }
        }
    }

    /// The address in the first line with this in it.
    pub fn address(&mut self, part: &str) -> std::net::SocketAddr {
        let line = self.line(part);
        let (_, address) = line.rsplit_once("address=").unwrap();
        address.trim().parse().unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for its end; returns its exit code and what it has still said.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Of a test that failed half-way; otherwise it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_it_tells_of_itself_can_be_json() {
    let keys = "telemetry: { log: { process: json } }\n";
    let file = File::new(&format!("{keys}{}", config("127.0.0.1:0")));
    let mut running = Running::start(&file);
    let first = running.line("greylag.rules.in_force");
    // It has the file read again, and ends nothing.
    running.signal("HUP");
    let same = running.line("greylag.rules.file_same");
    running.signal("TERM");
    let (code, rest) = running.end();
    assert_eq!(code, Some(0));
    let mut names = Vec::new();
    for line in [&*first, &same].into_iter().chain(rest.lines()) {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            event["severity_number"].is_u64() && event["body"].is_string(),
            "{line}"
        );
        names.push(event["event_name"].as_str().unwrap().to_owned());
    }
    let expected = [
        "greylag.rules.in_force",
        "greylag.rules.file_same",
        "greylag.ending",
        "greylag.ended",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_signal_ends_it_well() {
    for name in ["TERM", "INT"] {
        let file = File::new(&config("127.0.0.1:0"));
        let mut running = Running::start(&file);
        running.address("clients connect here");
        running.address("the admin API is here");
        let observe = running.address("metrics and health are here");
        let ready = Talk::with(observe).ask("GET", "/readyz", &[], "");
        assert_eq!(ready.status, 200);
        running.signal(name);
        let (code, rest) = running.end();
        assert_eq!(code, Some(0), "{rest}");
        assert!(rest.contains("no connection was cut"), "{rest}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let file = File::new(&config("127.0.0.1:0"));
    let mut running = Running::start(&file);
    let address = running.address("clients connect here");
    // Half a request keeps the drain waiting.
    let mut client = Talk::with(address);
    client.send("POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n{");
    let observe = running.address("metrics and health are here");
    assert!(comes_true(|| {
        let page = Talk::with(observe).ask("GET", "/metrics", &[], "");
        page.text().contains("greylag_in_flight 1")
    }));
    running.signal("TERM");
    running.line("a second signal ends at once");
    running.signal("INT");
    let (code, rest) = running.end();
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains("ended at once"), "{rest}");
}

#[test]
fn who_changed_the_rules_is_logged() {
    let file = File::new(&config("127.0.0.1:0"));
    let mut running = Running::start(&file);
    let admin = running.address("the admin API is here");
    running.line("rules in force");
    let mut talk = Talk::with(admin);
    let rules = talk.ask("GET", "/v1/rules", &[], "").text();
    let json = ["content-type: application/json"];
    assert_eq!(talk.ask("PUT", "/v1/rules", &json, &rules).status, 200);
    let line = running.line("a change through the admin API");
    for part in [
        "author=\"loopback\" role=\"write\" peer=127.0.0.1:",
        "method=\"PUT\" path=\"/v1/rules\" status=200 version=2",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let bad = rules.replace("\"default_engine\":\"stable\"", "\"default_engine\":\"a\"");
    assert_eq!(talk.ask("PUT", "/v1/rules", &json, &bad).status, 422);
    let line = running.line("was refused");
    assert!(line.contains("status=422 code=\"invalid_rules\""), "{line}");
}

/// A process that is not waited for before the test's end.
pub struct Child(std::cell::RefCell<std::process::Child>);

impl Child {
    /// Sends it SIGTERM.
    pub fn terminate(&self) {
        let id = self.0.borrow().id().to_string();
        let killed = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(killed.unwrap().success());
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.0.borrow_mut().try_wait().unwrap().is_some()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let child = self.0.get_mut();
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// An engine in a process of its own, like these options, and where it is.
pub fn engine_process(options: &[&str]) -> (Child, std::net::SocketAddr) {
    let mut child = greylag(&["sim", "--listen", "127.0.0.1:0"])
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("an engine is at http://").unwrap();
    let address = address.parse().unwrap();
    (Child(child.into()), address)
}

#[test]
fn sim_is_an_engine_until_a_signal() {
    let (engine, address) = engine_process(&["--model", "m"]);
    let models = Talk::with(address).ask("GET", "/v1/models", &[], "");
    assert_eq!(models.json()["data"][0]["id"], "m");
    engine.terminate();
    assert!(comes_true(|| engine.has_ended()));
    let code = engine.0.borrow_mut().wait().unwrap().code();
    assert_eq!(code, Some(0));
}
