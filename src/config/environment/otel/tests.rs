use std::time::Duration;

use crate::config::{Config, Environment, OtlpProtocol, Semconv};

const RULES: &str =
    "rules: { engines: { a: { kind: vllm, url: \"http://a\" } }, default_engine: a }\n";

fn read(otlp: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let text = format!("telemetry: {{ otlp: {otlp} }}\n{RULES}");
    Config::read_with(&text, "f.yaml", &Environment::of(variables.iter().copied()))
        .map_err(|fault| fault.to_string())
}

// Where spans go with these variables beside a file that says nothing.
fn check_url(variables: &[(&str, &str)], expected: Option<&str>) {
    let config = read("{}", variables).unwrap();
    let url = config.telemetry.otlp.url();
    assert_eq!(url.as_deref(), expected, "{variables:?}");
}

fn refused(otlp: &str, variables: &[(&str, &str)], expected: &str) {
    let found = read(otlp, variables).map(|_| ()).unwrap_err();
    assert_eq!(found, expected, "{variables:?}");
}

#[test]
fn spans_go_where_the_file_or_the_environment_says() {
    check_url(&[], None);
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    check_url(&[base], Some("http://c:4318/v1/traces"));
    check_url(
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/a/")],
        Some("https://c/a/v1/traces"),
    );
    let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/x");
    check_url(&[base, whole], Some("http://t:1/x"));
    check_url(
        &[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
        Some("http://c:4318"),
    );
    check_url(&[base, ("OTEL_SDK_DISABLED", "true")], None);
    check_url(
        &[base, ("OTEL_SDK_DISABLED", "False")],
        Some("http://c:4318/v1/traces"),
    );
    check_url(&[base, ("OTEL_TRACES_EXPORTER", "none")], None);
    check_url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "  ")], None);
    let file = read("{ endpoint: \"http://file:1\" }", &[]).unwrap();
    assert_eq!(
        file.telemetry.otlp.url().as_deref(),
        Some("http://file:1/v1/traces")
    );
    let both = read("{ endpoint: \"http://file:1\" }", &[base]).unwrap();
    assert_eq!(
        both.telemetry.otlp.url().as_deref(),
        Some("http://c:4318/v1/traces")
    );
}

#[test]
fn a_variable_of_traces_counts_before_one_of_all_signals_and_that_before_the_file() {
    let otlp = "{ endpoint: \"http://f:1\", timeout: 1s, protocol: grpc, service_name: file, semconv: gen_ai_1_36, headers: { x-a: file, x-b: file } }";
    let from_file = read(otlp, &[]).unwrap().telemetry.otlp;
    assert_eq!(
        (from_file.protocol, from_file.semconv),
        (OtlpProtocol::Grpc, Semconv::V1_36)
    );
    let config = read(
        otlp,
        &[
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3000"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "X-A=a%20b, x-c=c%zz"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=attribute,k8s.pod.uid=p%2D1",
            ),
            ("OTEL_SERVICE_NAME", "variable"),
            (
                "OTEL_SEMCONV_STABILITY_OPT_IN",
                "http, gen_ai_latest_experimental",
            ),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
            ("POD_UID", "p-2"),
        ],
    );
    let otlp = config.unwrap().telemetry.otlp;
    assert_eq!(otlp.timeout.get(), Duration::from_secs(3));
    assert_eq!(otlp.protocol, OtlpProtocol::Http);
    let headers: Vec<_> = otlp
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.reveal()))
        .collect();
    assert_eq!(headers, [("x-a", "a b"), ("x-b", "file"), ("x-c", "c%zz")]);
    assert_eq!(otlp.service_name, "variable");
    assert_eq!(otlp.resource.len(), 1);
    assert_eq!(otlp.resource["k8s.pod.uid"], "p-1");
    assert_eq!(otlp.semconv, Semconv::Latest);
    assert_eq!(otlp.tls.ca.as_deref(), Some("/ca.pem".as_ref()));
    assert_eq!(otlp.pod.as_deref(), Some("p-2"));
}

#[test]
fn variables_that_make_no_sense_are_all_named() {
    refused(
        "{}",
        &[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a"),
            ("OTEL_SDK_DISABLED", "yes"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
        ],
        "\
environment: OTEL_EXPORTER_OTLP_PROTOCOL: found \"http/json\"; allowed: grpc, http/protobuf
environment: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: found \"collector:4317\"; allowed: http://HOST:PORT or https://HOST:PORT, and a path
environment: OTEL_SDK_DISABLED: found \"yes\"; allowed: true, false
environment: OTEL_TRACES_EXPORTER: found \"zipkin\"; allowed: otlp, none
environment: OTEL_EXPORTER_OTLP_HEADERS: found what is no list of NAME=VALUE, with commas between them
environment: OTEL_EXPORTER_OTLP_TIMEOUT: found \"10s\"; allowed: milliseconds, 1 to 86400000, without a unit
environment: OTEL_EXPORTER_OTLP_COMPRESSION: found \"zstd\"; allowed: gzip, none
environment: OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY are needed together
environment: OTEL_RESOURCE_ATTRIBUTES: found \"a\"; allowed: a list of NAME=VALUE, with commas between them",
    );
    // A field's value may be a token.
    for headers in ["x-a=hunter2\u{7f}", "x a=hunter2", "hunter2"] {
        let fault = read("{}", &[("OTEL_EXPORTER_OTLP_HEADERS", headers)]).map(|_| ());
        assert!(!fault.unwrap_err().contains("hunter2"), "{headers}");
    }
    refused(
        "{ endpoint: \"http://c/otlp\" }",
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
        "telemetry.otlp.endpoint: found \"http://c/otlp\"; allowed: http://HOST:PORT or https://HOST:PORT",
    );
}

#[test]
fn a_collector_that_cannot_be_one_is_refused_with_its_line() {
    let place = "f.yaml:1:22: telemetry.otlp.endpoint:";
    let allowed = "allowed: http://HOST:PORT or https://HOST:PORT, and a path";
    for wrong in [
        "c:4318",
        "c",
        "ftp://c:1",
        "http://",
        "http://c/?a=b",
        "/v1/traces",
    ] {
        refused(
            &format!("{{ endpoint: {wrong:?} }}"),
            &[],
            &format!("{place} found {wrong:?}; {allowed}"),
        );
    }
    refused(
        "{ endpoint: \"http://me:hunter2@c:1\" }",
        &[],
        &format!("{place} found an \"@\"; {allowed}. A token belongs under `headers`"),
    );
    refused(
        "{ queue: 0, timeout: 0s, service_name: \" \", tls: { key: /k, insecure: true, server_name: '' }, headers: { \"x y\": z } }",
        &[],
        "\
f.yaml:1:22: telemetry.otlp.queue: found 0, allowed are 1 to 65536
f.yaml:1:32: telemetry.otlp.timeout: it is longer than 0s and at most 365d; found 0s
f.yaml:1:45: telemetry.otlp.service_name: found nothing, a name is needed
f.yaml:1:64: telemetry.otlp.tls: `cert` and `key` go together; found only one of them
f.yaml:1:80: telemetry.otlp.tls.insecure: found `true` beside `ca` or `server_name`, which would then check nothing
f.yaml:1:96: telemetry.otlp.tls.server_name: found an empty name; a name or an IP address is needed
f.yaml:1:115: telemetry.otlp.headers.x y: \"x y\" is no name of a field",
    );
}

#[test]
fn a_token_is_in_no_debug_output() {
    let config = read(
        "{ headers: { authorization: hunter2 } }",
        &[("OTEL_EXPORTER_OTLP_HEADERS", "x=hunter2")],
    );
    assert!(!format!("{:?}", config.unwrap()).contains("hunter2"));
}
