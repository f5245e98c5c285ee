//! The program, told of its collector by the environment.

use crate::collector::{Collector, Manner, attribute};
use crate::commands::{File, Running, with};
use crate::harness::{Client, sim};

use super::{BODY, parent};

fn config(engine: std::net::SocketAddr) -> File {
    File::new(&format!(
        "listen: [{{ address: \"127.0.0.1:0\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\nobserve: {{ address: \"127.0.0.1:0\" }}\n\
         limits: {{ drain_wait: 0s }}\ntelemetry: {{ log: {{ format: off }}, otlp: {{ endpoint: \"http://127.0.0.1:9\" }} }}\n\
         rules: {{ engines: {{ stable: {{ kind: vllm, url: \"http://{engine}\" }} }}, default_engine: stable }}\n"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_count_before_the_file() {
    let (engine, collector) = (sim().await, Collector::start("grpc", Manner::Takes).await);
    let file = config(engine.address());
    let url = collector.url();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-token=t0ken"),
        ("OTEL_SERVICE_NAME", "edge"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=search"),
        ("POD_UID", "uid-1"),
    ];
    let mut running = Running::with(&file, &variables);
    let address = running.address("clients connect here");
    let mut client = Client::to(address).await;
    client.chat(&[&parent("01")], BODY).await;
    drop(client);
    running.signal("TERM");
    let (code, rest) = tokio::task::spawn_blocking(move || running.end())
        .await
        .expect("it ends");
    assert_eq!(code, Some(0), "{rest}");
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{rest}");
    assert_eq!(
        attribute(&spans[0], "greylag.kept").as_deref(),
        Some("caller")
    );
    for (name, expected) in [
        ("service.name", "edge"),
        ("service.instance.id", "uid-1"),
        ("k8s.pod.uid", "uid-1"),
        ("team", "search"),
    ] {
        assert_eq!(
            collector.resource(name).as_deref(),
            Some(expected),
            "{name}"
        );
    }
    let head = &collector.batches()[0].head;
    assert_eq!(head.matches("t0ken").count(), 1, "{head}");
}

#[test]
fn a_variable_that_makes_no_sense_ends_it_with_78() {
    let file = config(std::net::SocketAddr::from(([127, 0, 0, 1], 9)));
    let variables = [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
    ];
    let (code, _, err) = with(&["run", "--config", file.path()], &variables);
    assert_eq!(
        (code, err.as_str()),
        (
            Some(78),
            "environment: OTEL_EXPORTER_OTLP_PROTOCOL: found \"http/json\"; allowed: grpc, http/protobuf\n\
             environment: OTEL_EXPORTER_OTLP_TIMEOUT: found \"10s\"; allowed: milliseconds, 1 to 86400000, without a unit\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_once_why_the_collector_takes_nothing() {
    let engine = sim().await;
    // A port that was free a moment ago.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let nobody = format!("http://{}", nobody.expect("a free port"));
    let refusing = Collector::start("http", Manner::Refuses).await;
    for (url, protocol, expected) in [
        (nobody.as_str(), "http/protobuf", "Connection refused"),
        (nobody.as_str(), "grpc", "Connection refused"),
        (&refusing.url(), "http/protobuf", "503 Service Unavailable"),
    ] {
        let file = config(engine.address());
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", url),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ];
        let mut running = Running::with(&file, &variables);
        let address = running.address("clients connect here");
        let mut client = Client::to(address).await;
        client.chat(&[&parent("01")], BODY).await;
        drop(client);
        running.signal("TERM");
        let ended = tokio::task::spawn_blocking(move || running.end()).await;
        let (_, rest) = ended.expect("it ends");
        let said: Vec<&str> = rest
            .lines()
            .filter(|line| line.contains("the collector took no spans"))
            .collect();
        assert_eq!(said.len(), 1, "{rest}");
        assert!(said[0].contains(expected), "{rest}");
    }
}
