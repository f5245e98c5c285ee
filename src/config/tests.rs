use super::Config;

const RULES: &str = "\
rules:
  engines:
    stable: { kind: vllm, url: \"http://127.0.0.1:8100\" }
  default_engine: stable
";

// The lines that a text is refused with.
fn refused(text: &str) -> String {
    match Config::read(text, "f.yaml") {
        Ok(_) => "nothing".to_owned(),
        Err(fault) => fault.to_string(),
    }
}

// A text before the rules, and the lines that it is refused with.
fn check(text: &str, expected: &str) {
    assert_eq!(refused(&format!("{text}{RULES}")), expected, "{text:?}");
}

fn check_alone(text: &str, expected: &str) {
    assert_eq!(refused(text), expected, "{text:?}");
}

// Rules of one engine and these keys, and the lines that they are refused with. The keys begin in line 5.
fn check_rules(keys: &str, expected: &str) {
    assert_eq!(refused(&format!("{RULES}{keys}")), expected, "{keys:?}");
}

#[test]
fn a_key_that_is_not_known_is_refused_with_those_that_are() {
    check(
        "limit: {}\n",
        "f.yaml:1:1: unknown key \"limit\"; allowed: listen, admin, observe, identity, trusted, forwarded, telemetry, limits, workers, state_file, on_bad_rules, rules; did you mean \"limits\"?",
    );
    check(
        "limits: { drain: 30s, drayn: 1s }\n",
        "f.yaml:1:23: limits: unknown key \"drayn\"; allowed: body, memory, connections, h2_streams, event, ring, write, drain, drain_wait; did you mean \"drain\"?",
    );
    check(
        "listen: [{ address: \"0.0.0.0:8000\", tsl: {} }]\n",
        "f.yaml:1:37: listen[0]: unknown key \"tsl\"; allowed: address, protocol, mode, tls, proxy_protocol; did you mean \"tls\"?",
    );
    check_rules(
        "  fault: {}\n",
        "f.yaml:5:3: rules: unknown key \"fault\"; allowed: engines, default_engine, splits, routes, traffic, trace",
    );
    check_rules(
        "  splits:\n    - name: s\n      weights: { stable: 1 }\n      sticky:\n        - heder: x\n",
        "f.yaml:9:11: rules.splits[0].sticky[0]: found \"heder\"; allowed: header, body, client_ip; did you mean \"header\"?",
    );
}

#[test]
fn a_value_of_another_kind_is_refused_with_what_was_found() {
    check(
        "limits: 5\n",
        "f.yaml:1:9: limits: found the number 5, expected a map",
    );
    check(
        "limits:\n",
        "f.yaml:1:7: limits: found nothing, expected a map",
    );
    check(
        "workers: many\n",
        "f.yaml:1:10: workers: found \"many\", expected a whole number",
    );
    check(
        "workers: -1\n",
        "f.yaml:1:10: workers: found the number -1, expected a whole number",
    );
    check(
        "workers: [1]\n",
        "f.yaml:1:10: workers: found a list, expected a single value",
    );
    check(
        "listen: 5\n",
        "f.yaml:1:9: listen: found the number 5, expected a list",
    );
    check(
        "listen: [5]\n",
        "f.yaml:1:10: listen[0]: found the number 5, expected a map",
    );
    check(
        "trusted: all\n",
        "f.yaml:1:10: trusted: found \"all\", expected a list",
    );
    check(
        "telemetry: { log: { format: xml } }\n",
        "f.yaml:1:29: telemetry.log.format: found \"xml\"; allowed: json, off",
    );
    check_rules(
        "  trace: { inject: 1 }\n",
        "f.yaml:5:20: rules.trace.inject: found the number 1, expected true or false",
    );
    check_rules(
        "  splits: [{ name: s, weights: { stable: -1 } }]\n",
        "f.yaml:5:42: rules.splits[0].weights.stable: a weight is a whole number from 0 to 1000000; found -1",
    );
    check_alone("[]\n", "f.yaml:1:1: found a list, expected a map");
    check_alone("text\n", "f.yaml:1:1: found \"text\", expected a map");
}

#[test]
fn a_number_without_its_unit_is_refused() {
    check(
        "limits: { drain: 30 }\n",
        "f.yaml:1:18: limits.drain: a duration needs a unit, such as \"250ms\" or \"1m30s\"; found the number 30",
    );
    check(
        "limits:\n  body: 65536\n",
        "f.yaml:2:9: limits.body: a size needs a unit, such as \"512B\", \"64KiB\", \"1MiB\" or \"10MB\"; found the number 65536",
    );
    check_rules(
        "  trace: { share: 10 }\n",
        "f.yaml:5:19: rules.trace.share: a share is written in per cent, from \"0%\" to \"100%\" with up to four decimals, such as \"10%\" or \"0.5%\"; found the number 10",
    );
}

#[test]
fn an_address_that_is_none_is_refused_with_an_example() {
    let address = "an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\"; found";
    check(
        "admin: { address: localhost:1 }\n",
        &format!(
            "f.yaml:1:19: admin.address: {} \"localhost:1\"",
            address.replace("; found", ", or unix:/PATH; found")
        ),
    );
    check(
        "observe: { address: 9902 }\n",
        &format!("f.yaml:1:21: observe.address: {address} \"9902\""),
    );
    check(
        "listen:\n  - address: 0.0.0.0\n",
        &format!(
            "f.yaml:2:14: listen[0].address: {} \"0.0.0.0\"",
            address.replace("; found", ", or unix:/PATH; found")
        ),
    );
    check(
        "trusted: [10.0.0.0/8, 10.0.0.0/33]\n",
        "f.yaml:1:23: trusted[1]: a range is IP/BITS or a single IP, such as \"10.0.0.0/8\" or \"fc00::/7\"; found \"10.0.0.0/33\"",
    );
}

#[test]
fn nobody_can_be_trusted_over_a_unix_socket_to_say_whose_it_is() {
    check(
        "listen: [{ address: \"unix:/a\", proxy_protocol: true }]\n",
        "f.yaml:1:32: listen[0].proxy_protocol: found it beside a unix socket, whose peers have no address that could be trusted",
    );
}

#[test]
fn a_unix_socket_is_listened_on_once() {
    check(
        "listen: [{ address: \"unix:/a\" }]\nadmin: { address: \"unix:/a\" }\n",
        "f.yaml:1:12: listen[0].address: unix:/a is there more than once",
    );
    check(
        "listen: [{ address: \"unix:/a\" }]\nadmin: { address: \"unix:/b\" }\n",
        "nothing",
    );
}

#[test]
fn a_single_address_is_a_range() {
    let config = Config::read(&format!("trusted: [10.1.2.3, \"::1\"]\n{RULES}"), "f.yaml").unwrap();
    let ranges: Vec<String> = config.trusted.iter().map(ToString::to_string).collect();
    assert_eq!(ranges, ["10.1.2.3/32", "::1/128"]);
}

#[test]
fn a_key_that_is_missing_is_named() {
    check(
        "listen: [{}]\n",
        "f.yaml:1:10: listen[0]: key \"address\" is missing, and there is no default for it",
    );
    check_alone(
        "workers: 1\n",
        "f.yaml:1:1: key \"rules\" is missing, and there is no default for it",
    );
    check_alone(
        "rules:\n  engines:\n    stable:\n      kind: vllm\n  default_engine: stable\n",
        "f.yaml:4:7: rules.engines.stable: key \"url\" is missing, and there is no default for it",
    );
}

#[test]
fn a_key_that_is_written_twice_is_refused() {
    check(
        "workers: 1\nworkers: 2\n",
        "f.yaml:2:1: key \"workers\" is written twice",
    );
    check(
        "limits: { body: 1B, body: 2B }\n",
        "f.yaml:1:21: limits: key \"body\" is written twice",
    );
    check_rules(
        "  splits: [{ name: s, weights: { stable: 1, stable: 2 } }]\n",
        "f.yaml:5:45: rules.splits[0].weights: key \"stable\" is written twice",
    );
}

#[test]
fn what_is_not_one_yaml_document_is_refused() {
    let nothing = "found nothing; a configuration is a map with at least `rules`";
    check_alone("", &format!("f.yaml:1:1: {nothing}"));
    check_alone("# nothing\n", &format!("f.yaml:2:1: {nothing}"));
    check_alone("---\n", "f.yaml:1:4: found nothing, expected a map");
    let second = "found the beginning of a second document; a configuration is one";
    check("workers: 1\n---\n", &format!("f.yaml:2:1: {second}"));
    check_rules("---\nworkers: 1\n", &format!("f.yaml:5:1: {second}"));
    check("# a remark\n---\n", "nothing");
    let tab = "found a tab in the indentation; YAML is indented by spaces";
    check("limits:\n\tdrain: 30s\n", &format!("f.yaml:2:1: {tab}"));
    check("workers:\t1\n", "nothing");
    check("workers: 'x\n", "f.yaml:1:10: unclosed quote");
    check("}\n", "f.yaml:1:1: misplaced bracket");
}

#[test]
fn things_that_do_not_fit_together_are_all_named_in_the_order_of_their_lines() {
    let text = "\
workers: 0
limits:
  body: 0B
  memory: 0B
  event: 0B
  connections: 0
  write: 0s
  drain: 366d
  ring: 0B
  drain_wait: 0s
admin: { address: \"10.0.0.1:1\" }
listen: []
rules:
  splits:
    - name: s
      weights: { candidate: 1 }
  engines:
    stable: { kind: vllm, url: \"http://127.0.0.1:8100\", timeouts: { idle: 0s } }
  default_engine: stabel
";
    check_alone(
        text,
        "\
f.yaml:1:1: workers: found 0, allowed are 1 to 256
f.yaml:3:3: limits.body: found 0B, at least 1B is needed
f.yaml:4:3: limits.memory: found 0B, at least 1B is needed
f.yaml:5:3: limits.event: found 0B, at least 1B is needed
f.yaml:6:3: limits.connections: found 0, at least 1 is needed
f.yaml:7:3: limits.write: found 0s, it must be longer than 0s
f.yaml:8:3: limits.drain: found 366d, allowed is up to 365d
f.yaml:11:10: admin.address: found 10.0.0.1:1, which others than this machine can reach: it needs admin.token_file; allowed without one are loopback addresses, such as 127.0.0.1:9901, and unix:/PATH
f.yaml:12:1: listen: found no address, at least one is needed
f.yaml:16:18: rules.splits[0].weights.candidate: engine \"candidate\" is not defined (defined: \"stable\")
f.yaml:18:69: rules.engines.stable.timeouts.idle: a timeout is longer than 0s and at most 365d; found 0s
f.yaml:19:3: rules.default_engine: engine \"stabel\" is not defined (defined: \"stable\"); did you mean \"stable\"?",
    );
}

#[test]
fn memory_must_leave_something_for_bodies() {
    check(
        "limits: { memory: 9MiB }\n",
        "f.yaml:1:11: limits.memory: found 9MiB, of which limits.ring (8MiB) and what waits to be logged and sent (1MiB) leave nothing for bodies",
    );
    check("limits: { memory: 10MiB }\n", "nothing");
    check(
        "limits: { memory: 1B, ring: 0B }\ntelemetry: { log: { format: off } }\n",
        "nothing",
    );
}

#[test]
fn an_address_is_listened_on_once() {
    check(
        "listen:\n  - { address: \"0.0.0.0:8000\" }\n  - { address: \"127.0.0.1:8000\" }\nobserve: { address: \"127.0.0.1:9901\" }\n",
        "\
f.yaml:3:7: listen[1].address: 127.0.0.1:8000 is taken by listen[0].address (0.0.0.0:8000)
f.yaml:4:12: observe.address: 127.0.0.1:9901 is taken by admin.address (127.0.0.1:9901)",
    );
    // What takes a default's place has no line of its own.
    check(
        "listen: [{ address: \"0.0.0.0:9902\" }]\n",
        "f.yaml: observe.address: 0.0.0.0:9902 is taken by listen[0].address (0.0.0.0:9902)",
    );
}

#[test]
fn no_message_shows_the_lines_around() {
    for mistake in [
        "limits: { drain: 30 }",
        "limits: 5",
        "limit: 5",
        "limits: 'x",
        "\tlimits: 5",
        "workers: 0",
    ] {
        let text = format!(
            "# hunter2\ntelemetry: {{ log: {{ path: hunter2 }} }}\n{mistake}\n# hunter2\n{RULES}"
        );
        let message = refused(&text);
        assert!(
            message.starts_with("f.yaml:3:") && !message.contains("hunter2"),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn a_message_does_not_grow_with_the_file() {
    let long = "x".repeat(100_000);
    for text in [
        format!("{long}: 1\n"),
        format!("workers: {long}\n"),
        format!("limits: {{ body: {long} }}\n"),
        format!("listen: [{{ address: {long} }}]\n"),
        format!("telemetry: {{ log: {{ format: {long} }} }}\n"),
        format!("limits: {{ drain: 30s, {long}: 1, {long}: 2 }}\n"),
    ] {
        let message = refused(&format!("{text}{RULES}"));
        assert!(message.len() < 500, "{message}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_stand() {
    let path = std::env::temp_dir().join(format!("greylag-not-text-{}.yaml", std::process::id()));
    std::fs::write(&path, b"# \xc3\xa9\nworkers: \xff\n").unwrap();
    let message = Config::load(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    let expected = format!(
        "{}:2:10: found bytes that are not UTF-8; a configuration is UTF-8 text",
        path.display()
    );
    assert_eq!(message, expected);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[ \t\n\\-a-z0-9:{}\\[\\]\"'#&*!|>%@,.é]{0,80}") {
        let _ = Config::read(&text, "f.yaml");
        let _ = Config::read(&format!("{text}\n{RULES}"), "f.yaml");
    }
}
