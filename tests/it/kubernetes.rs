//! The Kubernetes sample: its documents agree with each other, with the image and with what Greylag reads.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::collections::BTreeSet;
use std::path::Path;

use greylag::config::{Config, Place};
use serde_json::{Value, json};

use crate::commands::{File, output};

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

struct Pair {
    file: String,
    config: Config,
    map: Value,
    deployment: Value,
    service: Value,
}

impl Pair {
    fn read() -> Pair {
        let text = text("config/kubernetes/pair.yaml");
        let documents = text.split("\n---\n");
        let documents: Vec<Value> = documents
            .map(|document| serde_saphyr::from_str(document).unwrap())
            .collect();
        let kinds: Vec<&Value> = documents.iter().map(|document| &document["kind"]).collect();
        assert_eq!(kinds, ["ConfigMap", "Deployment", "Service"]);
        let [map, deployment, service] = documents.try_into().unwrap();
        let file = map["data"]["greylag.yaml"].as_str().unwrap().to_owned();
        let config = Config::read(&file, "greylag.yaml").unwrap_or_else(|fault| panic!("{fault}"));
        Pair {
            file,
            config,
            map,
            deployment,
            service,
        }
    }

    fn pod(&self) -> &Value {
        &self.deployment["spec"]["template"]["spec"]
    }

    fn greylag(&self) -> &Value {
        &self.pod()["initContainers"][0]
    }

    fn engines(&self) -> &[Value] {
        self.pod()["containers"].as_array().unwrap()
    }

    // Where a volume is mounted in Greylag's container.
    fn mounted(&self, volume: &str) -> &str {
        let mounts = self.greylag()["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["name"] == volume);
        mount.unwrap()["mountPath"].as_str().unwrap()
    }

    fn volume(&self, name: &str) -> &Value {
        let volumes = self.pod()["volumes"].as_array().unwrap();
        volumes
            .iter()
            .find(|volume| volume["name"] == name)
            .unwrap()
    }

    fn port(&self) -> u16 {
        let Place::Ip(address) = &self.config.listen[0].address else {
            panic!("the first listener is no port");
        };
        assert!(address.ip().is_unspecified(), "{address}");
        address.port()
    }
}

#[test]
fn its_configuration_is_one_that_check_accepts() {
    let pair = Pair::read();
    let file = File::new(&pair.file);
    let (code, out, err) = output(&["check", file.path()]);
    assert_eq!((code, &*err), (Some(0), ""));
    assert!(out.contains(": ok (2 engines, 1 split, "), "{out}");
    let admin = &pair.config.admin;
    assert!(!admin.is_off_loopback() && admin.token_file.is_none());
}

#[test]
fn its_ports_agree() {
    let pair = Pair::read();
    let observe = pair.config.observe.address.port();
    assert!(pair.config.observe.address.ip().is_unspecified());
    assert_eq!(
        pair.greylag()["ports"],
        json!([
            { "name": "http", "containerPort": pair.port() },
            { "name": "observe", "containerPort": observe },
        ])
    );
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(pair.greylag()[probe]["httpGet"]["port"], "observe");
    }
    // Only clients come by the Service: whoever reaches the other listener can ask for the drain.
    let ports = pair.service["spec"]["ports"].as_array().unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["targetPort"], pair.port());
    let notes = &pair.deployment["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(notes["prometheus.io/port"], observe.to_string());
    assert_eq!(notes["prometheus.io/path"], "/metrics");
    let image = text("Dockerfile");
    assert!(image.contains(&format!("EXPOSE {} {observe}\n", pair.port())));
}

#[test]
fn each_engine_is_where_greylag_looks_for_it_and_nowhere_else() {
    let pair = Pair::read();
    let names: Vec<&str> = pair
        .engines()
        .iter()
        .map(|engine| engine["name"].as_str().unwrap())
        .collect();
    let rules = serde_json::to_value(&pair.config.rules).unwrap();
    let ruled: BTreeSet<&str> = rules["engines"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(names.iter().copied().collect::<BTreeSet<_>>(), ruled);
    for engine in pair.engines() {
        let arguments = engine["args"].as_array().unwrap();
        let after = |flag: &str| {
            let at = arguments.iter().position(|argument| argument == flag);
            arguments[at.unwrap() + 1].as_str().unwrap()
        };
        let place = format!("http://{}:{}", after("--host"), after("--port"));
        let name = engine["name"].as_str().unwrap();
        let url = rules["engines"][name]["url"].as_str().unwrap();
        assert_eq!(url.trim_end_matches('/'), place);
        assert!(place.contains("//127.0.0.1:"), "{place}");
        assert!(engine["ports"].is_null(), "{name}");
        let image = engine["image"].as_str().unwrap();
        let is_short = !image.split('/').next().unwrap().contains(['.', ':']);
        assert!(is_short, "{image}: found a host");
        // Its port is on loopback, so whether it is well is asked through Greylag.
        let probe = &engine["readinessProbe"]["httpGet"]["port"];
        assert!(probe.is_null() || *probe == pair.port(), "{name}: {probe}");
    }
}

#[test]
fn each_engine_waits_for_the_drain_and_nothing_but_an_end_asks_for_it() {
    let pair = Pair::read();
    let observe = &pair.config.observe;
    let hook = json!({ "httpGet": { "path": observe.drain.as_ref().unwrap(), "port": observe.address.port() } });
    for engine in pair.engines() {
        assert_eq!(engine["lifecycle"]["preStop"], hook);
        // A probe that restarts the container would run the hook, and drain this Greylag for good.
        for probe in ["livenessProbe", "startupProbe"] {
            assert!(engine[probe].is_null(), "{}: {probe}", engine["name"]);
        }
    }
    assert!(pair.greylag()["lifecycle"].is_null());
    assert_eq!(pair.greylag()["restartPolicy"], "Always");
    let limits = &pair.config.limits;
    // The drain, and what Greylag waits once more when it is told to end after the engines.
    let longest = 2 * limits.drain_wait.get() + limits.drain.get();
    let grace = pair.pod()["terminationGracePeriodSeconds"]
        .as_u64()
        .unwrap();
    assert!(grace > longest.as_secs() + 10, "{grace} s, {longest:?}");
}

#[test]
fn its_files_are_where_the_configuration_says() {
    let pair = Pair::read();
    let keys = pair.map["data"].as_object().unwrap().keys();
    let arguments = pair.greylag()["args"].as_array().unwrap();
    let file = arguments.last().unwrap().as_str().unwrap();
    let files: Vec<String> = keys
        .map(|key| format!("{}/{key}", pair.mounted("config")))
        .collect();
    assert_eq!(files, [file]);
    // The image's own place, so that `greylag run` there needs no arguments either.
    assert!(
        text("Dockerfile").contains(&format!("\"{file}\"]")),
        "{file}"
    );
    let named = &pair.volume("config")["configMap"]["name"];
    assert_eq!(*named, pair.map["metadata"]["name"]);

    let item = &pair.volume("podinfo")["downwardAPI"]["items"][0];
    let tag = Path::new(pair.mounted("podinfo")).join(item["path"].as_str().unwrap());
    assert_eq!(pair.config.identity.tag_file.as_deref(), Some(&*tag));
    let label = item["fieldRef"]["fieldPath"].as_str().unwrap();
    let label = label.strip_prefix("metadata.labels['").unwrap();
    let labels = &pair.deployment["spec"]["template"]["metadata"]["labels"];
    assert!(labels[label.strip_suffix("']").unwrap()].is_string());

    let state = pair.config.state_file.as_ref().unwrap();
    assert_eq!(state.parent().unwrap(), Path::new(pair.mounted("state")));
    assert!(pair.volume("state")["emptyDir"].is_object());

    let mut used = BTreeSet::new();
    let containers = pair.engines().iter().chain([pair.greylag()]);
    for mount in containers.flat_map(|container| container["volumeMounts"].as_array().unwrap()) {
        // Such a mount keeps the file that was there first.
        assert!(mount["subPath"].is_null(), "{mount}");
        used.insert(mount["name"].as_str().unwrap());
    }
    let volumes = pair.pod()["volumes"].as_array().unwrap();
    let there = volumes
        .iter()
        .map(|volume| volume["name"].as_str().unwrap());
    assert_eq!(used, there.collect());
}

#[test]
fn it_runs_as_the_image_does_and_may_do_nothing_else() {
    let pair = Pair::read();
    let greylag = pair.greylag();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(greylag["image"], format!("greylag:{version}"));
    let security = &greylag["securityContext"];
    let user = format!(
        "USER {}:{}\n",
        security["runAsUser"], security["runAsGroup"]
    );
    assert!(text("Dockerfile").contains(&user), "{user}");
    assert_eq!(
        pair.pod()["securityContext"]["fsGroup"],
        security["runAsGroup"]
    );
    assert_eq!(security["runAsNonRoot"], true);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(
        pair.pod()["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    for container in pair.engines().iter().chain([greylag]) {
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
    }
    // What Greylag may hold, and as much again for connections and the rest.
    let memory = greylag["resources"]["limits"]["memory"].as_str().unwrap();
    let memory: u64 = memory.strip_suffix("Mi").unwrap().parse().unwrap();
    assert!(
        memory << 20 >= 2 * pair.config.limits.memory.bytes(),
        "{memory}Mi"
    );
    assert!(greylag["resources"]["limits"]["cpu"].is_null());
}

#[test]
fn its_labels_find_its_pods() {
    let pair = Pair::read();
    let labels = &pair.deployment["spec"]["template"]["metadata"]["labels"];
    let selectors = [
        &pair.deployment["spec"]["selector"]["matchLabels"],
        &pair.service["spec"]["selector"],
    ];
    for selector in selectors {
        let selector = selector.as_object().unwrap();
        assert!(!selector.is_empty());
        for (label, value) in selector {
            assert_eq!(labels[label], *value, "{label}");
        }
    }
}
