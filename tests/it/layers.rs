//! Who wins: the file, what was put whole, what lies on it; over reloads, restarts, files that cannot be used, and new pods.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use greylag_sim::Load;
use serde_json::{Value, json};

use crate::admin::{JSON, get, put};
use crate::certs::Authority;
use crate::harness::{DEADLINE, Greylag, sim};
use crate::talk::comes_true;

// The weight of the candidate tells bases apart.
const FILE: u32 = 10;
const NEW_FILE: u32 = 20;
const PUT: u32 = 30;

/// A directory of a pod, gone at the end: `greylag.yaml` and `state.json`.
pub struct Pod(PathBuf);

impl Pod {
    pub fn new() -> Pod {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("greylag-pod-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Pod(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("greylag.yaml")
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    pub fn write(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rules(candidate: u32) -> Value {
    json!({
        "engines": {
            "stable": { "kind": "vllm", "url": "http://127.0.0.1:9" },
            "candidate": { "kind": "vllm", "url": "http://127.0.0.1:9" },
        },
        "default_engine": "stable",
        "splits": [{ "name": "s", "weights": { "stable": 90, "candidate": candidate }, "force": { "header": "x-gray" } }],
    })
}

fn config(pod: &Pod, on_bad_rules: &str, rules: &Value) -> String {
    let state = pod.state();
    format!(
        "listen: [{{ address: \"127.0.0.1:0\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\nobserve: {{ address: \"127.0.0.1:0\" }}\n\
         telemetry: {{ log: {{ format: off }} }}\nlimits: {{ drain_wait: 0s, drain: 1s }}\nstate_file: {}\non_bad_rules: {on_bad_rules}\n\
         rules: {rules}\n",
        state.display()
    )
}

/// What is in force: the base, by its candidate's weight (none of the default engine alone), and whether the overlay is.
fn in_force(greylag: &Greylag) -> (Option<u32>, bool) {
    let status = get(greylag.app().admin, "/v1/status").json();
    let base = get(greylag.app().admin, "/v1/rules").json();
    let weight = base["splits"][0]["weights"]["candidate"].as_u64();
    let overlays = status["rules"]["overlays"].as_array().unwrap();
    let is_off = overlays.iter().any(|overlay| overlay["id"] == "force:s");
    assert_eq!(status["rules"]["latches"], json!([]));
    if weight.is_some() {
        let force = get(greylag.app().admin, "/v1/splits/s/force").json();
        assert_eq!(force, json!(!is_off), "what lies on it is in force");
    }
    (weight.map(|weight| u32::try_from(weight).unwrap()), is_off)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Touched,
    Changed,
    Bad,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The process goes on.
    Reload,
    /// The process ends and another one begins with what is there.
    Restart,
    /// The same, with `on_bad_rules: pass_through`.
    RestartPassThrough,
    /// Another pod begins with the file alone.
    NewPod,
    /// The same, with `on_bad_rules: pass_through`.
    NewPodPassThrough,
}

// What must be in force, or none if the start must be refused.
fn expected(put: bool, overlay: bool, file: File, then: Then) -> Option<(Option<u32>, bool)> {
    let before = if put { PUT } else { FILE };
    match (then, file) {
        (Then::Reload | Then::Restart | Then::RestartPassThrough, File::Touched) => {
            Some((Some(before), overlay))
        }
        (Then::Reload | Then::Restart | Then::RestartPassThrough, File::Changed) => {
            Some((Some(NEW_FILE), overlay))
        }
        (Then::Reload, File::Bad) => Some((Some(before), overlay)),
        (Then::NewPod | Then::NewPodPassThrough, File::Touched) => Some((Some(FILE), false)),
        (Then::NewPod | Then::NewPodPassThrough, File::Changed) => Some((Some(NEW_FILE), false)),
        (Then::Restart | Then::NewPod, File::Bad) => None,
        // It waits, and is not lost.
        (Then::RestartPassThrough, File::Bad) => Some((None, overlay)),
        (Then::NewPodPassThrough, File::Bad) => Some((None, false)),
    }
}

fn read_again(greylag: &Greylag) {
    let read_at = || get(greylag.app().admin, "/v1/status").json()["file"]["read_at"].clone();
    // A look may have begun before the file was written; the one after it has not.
    for _ in 0..2 {
        let before = read_at();
        assert!(comes_true(|| {
            greylag.app().reload();
            read_at() != before
        }));
    }
}

fn row(put_base: bool, lay: bool, file: File, then: Then) {
    let name = format!("put {put_base}, overlay {lay}, {file:?}, {then:?}");
    let pod = Pod::new();
    let text = |on_bad_rules: &str, file| {
        let rules = match file {
            File::Touched => rules(FILE),
            File::Changed => rules(NEW_FILE),
            File::Bad => {
                let mut bad = rules(NEW_FILE);
                bad["splits"][0]["weights"] = json!({ "stable": 1, "nowhere": 1 });
                bad
            }
        };
        config(&pod, on_bad_rules, &rules)
    };
    pod.write(&text("exit", File::Touched));
    let greylag = Greylag::of_file(&pod.file()).unwrap();
    if put_base {
        let answer = put(
            greylag.app().admin,
            "/v1/rules",
            &[JSON],
            &rules(PUT).to_string(),
        );
        assert_eq!(answer.json()["saved"], json!(true), "{name}");
    }
    if lay {
        let answer = put(greylag.app().admin, "/v1/splits/s/force", &[JSON], "false");
        assert_eq!(answer.status, 200, "{name}");
    }
    let on_bad_rules = match then {
        Then::Reload | Then::Restart | Then::NewPod => "exit",
        Then::RestartPassThrough | Then::NewPodPassThrough => "pass_through",
    };
    let new = text(on_bad_rules, file);
    let expected = expected(put_base, lay, file, then);
    let after = match then {
        Then::Reload => {
            pod.write(&new);
            read_again(&greylag);
            Ok(greylag)
        }
        Then::Restart | Then::RestartPassThrough => {
            greylag.stop();
            pod.write(&new);
            Greylag::of_file(&pod.file())
        }
        Then::NewPod | Then::NewPodPassThrough => {
            greylag.stop();
            std::fs::remove_file(pod.state()).unwrap();
            pod.write(&new);
            Greylag::of_file(&pod.file())
        }
    };
    let Some(expected) = expected else {
        let fault = after.err().unwrap().to_string();
        assert!(
            fault.contains("engine \"nowhere\" is not defined"),
            "{name}: {fault}"
        );
        return;
    };
    let greylag = after.unwrap();
    assert_eq!(in_force(&greylag), expected, "{name}");
    let problems = get(greylag.app().admin, "/v1/status").json()["file"]["problems"].clone();
    let found = problems.as_array().unwrap();
    assert_eq!(found.is_empty(), file != File::Bad, "{name}: {problems}");
    if file == File::Bad {
        // Once the file is what it was, all is as it was.
        pod.write(&text(on_bad_rules, File::Touched));
        read_again(&greylag);
        let before = match then {
            Then::NewPod | Then::NewPodPassThrough => (Some(FILE), false),
            _ if put_base => (Some(PUT), lay),
            _ => (Some(FILE), lay),
        };
        assert_eq!(in_force(&greylag), before, "{name}, mended");
    }
    greylag.stop();
}

#[test]
fn the_table_of_layers_holds() {
    for put_base in [false, true] {
        for lay in [false, true] {
            for file in [File::Touched, File::Changed, File::Bad] {
                for then in [
                    Then::Reload,
                    Then::Restart,
                    Then::RestartPassThrough,
                    Then::NewPod,
                    Then::NewPodPassThrough,
                ] {
                    row(put_base, lay, file, then);
                }
            }
        }
    }
}

#[test]
fn a_start_with_a_typo_in_the_rules_may_serve_the_default_engine() {
    let pod = Pod::new();
    let mut typo = rules(FILE);
    typo["splits"][0]["stikcy"] = json!(["client_ip"]);
    pod.write(&config(&pod, "exit", &typo));
    let fault = Greylag::of_file(&pod.file()).err().unwrap().to_string();
    assert!(fault.contains("did you mean \"sticky\""), "{fault}");
    pod.write(&config(&pod, "pass_through", &typo));
    let greylag = Greylag::of_file(&pod.file()).unwrap();
    assert_eq!(in_force(&greylag), (None, false));
    let status = get(greylag.app().admin, "/v1/status").json();
    assert_eq!(status["rules"]["base"], "pass_through");
    assert!(
        status["file"]["problems"][0]
            .as_str()
            .unwrap()
            .contains("stikcy"),
        "{status}"
    );
    greylag.stop();
    // A default engine that itself is wrong is no engine to pass through to.
    typo["engines"]["stable"]["ulr"] = json!("x");
    pod.write(&config(&pod, "pass_through", &typo));
    assert!(Greylag::of_file(&pod.file()).is_err());
}

// A file as kubelet shows a ConfigMap: a link to a link to a directory, of which the middle one is swapped.
fn swap(pod: &Pod, text: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let version = format!("..{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let directory = pod.path().join(&version);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("greylag.yaml"), text).unwrap();
    let (next, data) = (pod.path().join("..data_tmp"), pod.path().join("..data"));
    std::os::unix::fs::symlink(&version, &next).unwrap();
    let before = std::fs::read_link(&data).ok();
    std::fs::rename(&next, &data).unwrap();
    if let Some(before) = before {
        std::fs::remove_dir_all(pod.path().join(before)).unwrap();
    } else {
        std::os::unix::fs::symlink("..data/greylag.yaml", pod.file()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swapped_config_map_is_in_force_and_no_exchange_fails() {
    let (stable, candidate) = (sim().await, sim().await);
    let with = |weight: u32| {
        let mut rules = rules(weight);
        rules["engines"]["stable"]["url"] = json!(format!("http://{}", stable.address()));
        rules["engines"]["candidate"]["url"] = json!(format!("http://{}", candidate.address()));
        rules
    };
    let pod = Pod::new();
    swap(&pod, &config(&pod, "exit", &with(1)));
    let greylag = Greylag::of_file(&pod.file()).unwrap();
    let load = Load {
        connections: 16,
        requests: u64::MAX,
        time: DEADLINE * 6,
        ..Load::to(greylag.address())
    };
    let loading = load.start();
    let admin = greylag.app().admin;
    let weight = move || {
        let rules = get(admin, "/v1/rules").json();
        rules["splits"][0]["weights"]["candidate"].as_u64()
    };
    for number in 2..=5u32 {
        let seen = loading.counts().ok;
        let under_way = loading
            .wait_for(|counts| counts.ok > seen + 20, DEADLINE)
            .await;
        assert!(under_way, "{:?}", loading.counts());
        swap(&pod, &config(&pod, "exit", &with(number)));
        let is_there =
            tokio::task::spawn_blocking(move || comes_true(|| weight() == Some(number.into())));
        assert!(is_there.await.unwrap(), "{number}");
    }
    // A bad one changes nothing, and is told of.
    swap(&pod, "rules: {}");
    let is_told = tokio::task::spawn_blocking(move || {
        comes_true(|| {
            let status = get(admin, "/v1/status").json();
            !status["file"]["problems"].as_array().unwrap().is_empty()
        })
    });
    assert!(is_told.await.unwrap());
    assert_eq!(tokio::task::spawn_blocking(weight).await.unwrap(), Some(5));
    let counts = loading.counts();
    assert_eq!(
        (counts.errors, counts.truncated, counts.refused.len()),
        (0, 0, 0),
        "{counts:?}"
    );
    let page = greylag
        .metric("greylag_rules_reload_total{result=\"ok\"}")
        .await;
    assert_eq!(page, Some(4.0));
    assert_eq!(greylag.metric("greylag_rules_file_usable").await, Some(0.0));
}

#[test]
fn what_needs_a_restart_is_told_of() {
    let pod = Pod::new();
    let text = config(&pod, "exit", &rules(FILE));
    pod.write(&text);
    let greylag = Greylag::of_file(&pod.file()).unwrap();
    pod.write(&text.replace("drain: 1s", "drain: 2s"));
    read_again(&greylag);
    let file = || get(greylag.app().admin, "/v1/status").json()["file"].clone();
    assert_eq!(file()["needs_restart"], json!(["limits"]));
    assert_eq!(
        get(greylag.app().admin, "/v1/status").json()["rules"]["version"],
        1
    );
    pod.write(&text);
    read_again(&greylag);
    assert_eq!(file()["needs_restart"], json!([]));
}

#[test]
fn an_overlay_ends_by_itself() {
    let pod = Pod::new();
    pod.write(&config(&pod, "exit", &rules(FILE)));
    let greylag = Greylag::of_file(&pod.file()).unwrap();
    let weights = r#"{"stable":1,"candidate":1}"#;
    let target = "/v1/splits/s/weights?until=1s&reason=a%20look";
    let answer = put(greylag.app().admin, target, &[JSON], weights);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let overlay = get(greylag.app().admin, "/v1/overlays/weights:s").json();
    assert_eq!(
        (&overlay["owner"], &overlay["reason"]),
        (&json!("loopback"), &json!("a look"))
    );
    let is_gone = || get(greylag.app().admin, "/v1/overlays/weights:s").status == 404;
    assert!(!is_gone() && comes_true(is_gone));
    let last = &get(greylag.app().admin, "/v1/history").json()["versions"][0];
    assert_eq!(
        (&last["author"], &last["version"]),
        (&json!("greylag"), &json!(3))
    );
}

#[test]
fn a_file_that_rules_name_may_come_later_than_they_do() {
    let pod = Pod::new();
    let authorities = pod.path().join("ca.pem");
    let authority = Authority::new();
    let with_tls = |weight| {
        let mut rules = rules(weight);
        rules["engines"]["candidate"]["url"] = json!("https://127.0.0.1:9");
        rules["engines"]["candidate"]["tls"] = json!({ "ca": authorities });
        rules
    };
    pod.write(&config(&pod, "pass_through", &with_tls(FILE)));
    let greylag = Greylag::of_file(&pod.file()).unwrap();
    assert_eq!(in_force(&greylag), (None, false));
    let problems = || get(greylag.app().admin, "/v1/status").json()["file"]["problems"].clone();
    assert!(
        problems()[0].as_str().unwrap().contains("ca.pem"),
        "{}",
        problems()
    );
    // It is tried again by itself, though nothing of the file has changed.
    read_again(&greylag);
    std::fs::copy(authority.file(), &authorities).unwrap();
    assert!(comes_true(|| in_force(&greylag) == (Some(FILE), false)));
    assert_eq!(problems(), json!([]));
    greylag.stop();
    std::fs::remove_file(&authorities).unwrap();
    pod.write(&config(&pod, "exit", &with_tls(FILE)));
    assert!(Greylag::of_file(&pod.file()).is_err());
}
