use std::collections::BTreeSet;

use super::{Shape, is_of_others, name};
use crate::config::{Config, Environment};

const RULES: &str =
    "rules: { engines: { a: { kind: vllm, url: \"http://a\" } }, default_engine: a }\n";

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let text = format!("{text}{RULES}");
    Config::read_with(&text, "f.yaml", &Environment::of(variables.iter().copied()))
        .map_err(|fault| fault.to_string())
}

fn refused(text: &str, variables: &[(&str, &str)], expected: &str) {
    let found = read(text, variables).map(|_| ()).unwrap_err();
    assert_eq!(found, expected, "{variables:?}");
}

#[test]
fn a_variable_counts_before_the_file_and_without_one() {
    let check = |text: &str| {
        let config = read(
            text,
            &[
                (
                    "GREYLAG_LISTEN",
                    "[{ address: 0.0.0.0:1 }, { address: \"unix:/s\", mode: \"0600\" }]",
                ),
                ("GREYLAG_ADMIN_ADDRESS", "127.0.0.1:2"),
                ("GREYLAG_OBSERVE_ADDRESS", "\"[::1]:3\""),
                ("GREYLAG_TRUSTED", "[10.0.0.0/8]"),
                ("GREYLAG_WORKERS", "4"),
                ("GREYLAG_FORWARDED", "append"),
                ("GREYLAG_LIMITS_DRAIN_WAIT", "7s"),
                ("GREYLAG_TELEMETRY_LOG_PATH", "/log"),
                ("GREYLAG_TELEMETRY_OTLP_HEADERS", "{ x-token: t }"),
                ("GREYLAG_IDENTITY_TAG_FILE", ""),
            ],
        );
        let config = config.unwrap();
        let listen: Vec<String> = config
            .listen
            .iter()
            .map(|one| one.address.to_string())
            .collect();
        assert_eq!(listen, ["0.0.0.0:1", "unix:/s"]);
        assert_eq!(config.admin.address.to_string(), "127.0.0.1:2");
        assert_eq!(config.observe.address.to_string(), "[::1]:3");
        assert_eq!(config.trusted.len(), 1);
        assert_eq!(config.workers, 4);
        assert_eq!(config.limits.drain_wait.to_string(), "7s");
        assert_eq!(config.telemetry.log.path.as_deref(), Some("/log".as_ref()));
        assert_eq!(config.telemetry.otlp.headers["x-token"].reveal(), "t");
        config
    };
    assert_eq!(check("").limits.drain.to_string(), "1m");
    let config = check(
        "listen: [{ address: \"127.0.0.1:9\" }]\nworkers: 2\nlimits: { drain: 2s, drain_wait: 3s }\nidentity: { tag_file: /t }\n",
    );
    assert_eq!(config.limits.drain.to_string(), "2s");
    assert_eq!(config.identity.tag_file.as_deref(), Some("/t".as_ref()));
}

#[test]
fn a_variable_takes_the_place_of_what_is_wrong_in_the_file() {
    assert_eq!(
        read("workers: many\n", &[("GREYLAG_WORKERS", "2")])
            .unwrap()
            .workers,
        2
    );
    refused(
        "limits: 5\nworkers: 0\n",
        &[("GREYLAG_LIMITS_BODY", "1MiB")],
        "f.yaml:1:9: limits: found the number 5, expected a map",
    );
}

#[test]
fn a_value_that_is_wrong_is_refused_with_its_variable() {
    refused(
        "limits: { event: 5 }\n",
        &[
            ("GREYLAG_LIMITS_BODY", "64"),
            ("GREYLAG_WORKERS", "many"),
            ("GREYLAG_LISTEN", "[{ address: x }, {}]"),
            ("GREYLAG_TRUSTED", "[10.0.0.0/8"),
            ("GREYLAG_TELEMETRY_LOG_FORMAT", "jsn"),
            ("GREYLAG_TELEMETRY_OTLP_HEADERS", "hunter2"),
        ],
        "\
f.yaml:1:18: limits.event: a size needs a unit, such as \"512B\", \"64KiB\", \"1MiB\" or \"10MB\"; found the number 5
environment: GREYLAG_LIMITS_BODY: a size needs a unit, such as \"512B\", \"64KiB\", \"1MiB\" or \"10MB\"; found the number 64
environment: GREYLAG_LISTEN: listen[0].address: an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\", or unix:/PATH; found \"x\"
environment: GREYLAG_LISTEN: listen[1]: key \"address\" is missing, and there is no default for it
environment: GREYLAG_TELEMETRY_LOG_FORMAT: found \"jsn\"; allowed: json, off; did you mean \"json\"?
environment: GREYLAG_TELEMETRY_OTLP_HEADERS: found a single value, expected a map
environment: GREYLAG_TRUSTED: found what is no YAML: unclosed bracket '['
environment: GREYLAG_WORKERS: found \"many\", expected a whole number",
    );
}

#[test]
fn what_does_not_fit_together_is_found_with_the_variables() {
    refused(
        "admin: { address: \"127.0.0.1:1\" }\nlimits: { ring: 8MiB }\n",
        &[
            ("GREYLAG_OBSERVE_ADDRESS", "127.0.0.1:1"),
            ("GREYLAG_LIMITS_MEMORY", "9MiB"),
            ("GREYLAG_WORKERS", "0"),
        ],
        "\
environment: GREYLAG_LIMITS_MEMORY: found 9MiB, of which limits.ring (8MiB) and what waits to be logged and sent (1MiB) leave nothing for bodies
environment: GREYLAG_OBSERVE_ADDRESS: 127.0.0.1:1 is taken by admin.address (127.0.0.1:1)
environment: GREYLAG_WORKERS: found 0, allowed are 1 to 256",
    );
}

#[test]
fn a_variable_of_greylag_counts_before_one_of_opentelemetry() {
    let otlp = read(
        "",
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://otel:1/whole"),
            ("GREYLAG_TELEMETRY_OTLP_ENDPOINT", "http://own:1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-a=otel"),
            ("GREYLAG_TELEMETRY_OTLP_HEADERS", "{ x-b: own }"),
            ("OTEL_SERVICE_NAME", "otel"),
            ("GREYLAG_TELEMETRY_OTLP_SERVICE_NAME", "own"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ],
    );
    let otlp = otlp.unwrap().telemetry.otlp;
    assert_eq!(otlp.url().as_deref(), Some("http://own:1/v1/traces"));
    assert_eq!(otlp.headers.keys().collect::<Vec<_>>(), ["x-b"]);
    assert_eq!(otlp.service_name, "own");
    assert_eq!(otlp.timeout.to_string(), "1s");
}

#[test]
fn a_variable_that_is_not_known_is_refused_with_the_nearest() {
    refused(
        "",
        &[
            ("GREYLAG_LIMITS_BODDY", "1MiB"),
            ("GREYLAG_COLOUR", "blue"),
            ("GREYLAG_ADMIN_PORT", "9901"),
            ("GREYLAG_RULES_DEFAULT_ENGINE", "a"),
            ("GREYLAG_LIMITS", "{}"),
        ],
        "\
environment: GREYLAG_ADMIN_PORT: unknown variable; allowed: GREYLAG_ and the path of a key outside `rules` in upper case, with _ for each dot, such as GREYLAG_LIMITS_BODY
environment: GREYLAG_COLOUR: unknown variable; allowed: GREYLAG_ and the path of a key outside `rules` in upper case, with _ for each dot, such as GREYLAG_LIMITS_BODY
environment: GREYLAG_LIMITS: unknown variable; allowed: GREYLAG_ and the path of a key outside `rules` in upper case, with _ for each dot, such as GREYLAG_LIMITS_BODY
environment: GREYLAG_LIMITS_BODDY: unknown variable; did you mean \"GREYLAG_LIMITS_BODY\"?
environment: GREYLAG_RULES_DEFAULT_ENGINE: unknown variable; `rules` are not set by variables",
    );
}

#[test]
fn what_kubernetes_sets_for_a_service_and_the_command_lines_own_are_left_alone() {
    let url = "tcp://10.0.0.1:8000";
    let others = [
        ("GREYLAG_SERVICE_HOST", "10.0.0.1"),
        ("GREYLAG_SERVICE_PORT", "8000"),
        ("GREYLAG_SERVICE_PORT_HTTP", "8000"),
        ("GREYLAG_PORT", url),
        ("GREYLAG_PORT_8000_TCP", url),
        ("GREYLAG_PORT_8000_TCP_PROTO", "tcp"),
        ("GREYLAG_PORT_8000_TCP_PORT", "8000"),
        ("GREYLAG_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("GREYLAG_ADMIN_SERVICE_HOST", "10.0.0.2"),
        ("GREYLAG_ADMIN_PORT", url),
        ("GREYLAG_CTL_TOKEN_FILE", "/t"),
        ("UNRELATED", "x"),
    ];
    assert_eq!(read("", &others).unwrap().workers, 1);
    assert_eq!(Environment::of(others).names().count(), 0);
    for (name, value) in [("GREYLAG_PORT", "8000"), ("GREYLAG_LIMITS_BODY", "1B")] {
        assert!(!is_of_others(name, value), "{name}");
    }
}

#[test]
fn each_key_outside_rules_has_a_name_of_its_own_that_is_nobody_elses() {
    let keys = Shape::of_types().leaves("rules");
    let names: BTreeSet<String> = keys.iter().map(|keys| name(&keys.join("."))).collect();
    assert_eq!(names.len(), keys.len());
    for expected in [
        "LISTEN",
        "LIMITS_DRAIN_WAIT",
        "WORKERS",
        "TELEMETRY_OTLP_TLS_CA",
    ] {
        assert!(names.contains(&format!("GREYLAG_{expected}")), "{expected}");
    }
    for name in names {
        assert!(
            !is_of_others(&name, "x") && !name.starts_with("GREYLAG_RULES"),
            "{name}"
        );
    }
}

#[test]
fn no_output_shows_a_value() {
    let environment = Environment::of([("GREYLAG_TELEMETRY_OTLP_HEADERS", "hunter2")]);
    assert!(!format!("{environment:?}").contains("hunter2"));
}
