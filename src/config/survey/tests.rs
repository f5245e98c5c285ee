use proptest::prelude::*;
use serde_json::Value;

use super::read;
use crate::config::Config;
use crate::config::tree::Tree;

const FULL: &str = include_str!("../../../config/full.yaml");

// The lines that a text is refused with.
fn check(text: &str, expected: &str) {
    let found = match Config::read(text, "f") {
        Ok(_) => "nothing".to_owned(),
        Err(fault) => fault.to_string(),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn everything_that_cannot_be_read_is_named() {
    check(
        "\
limit: {}
workers: many
limits:
  drain: 30
  drayn: 1s
  body: 1B
  body: 2B
listen:
  - { address: x, tsl: {} }
  - { protocol: h3, tls: { cert: 5 } }
  - 7
trusted: [10.0.0.0/8, 10.0.0.0/33, [], \"::/200\"]
rules:
  engines:
    a: { kind: vlm, url: \"http://a\" }
    b: { url: \"http://b\", timeouts: { idle: 5 } }
  splits:
    - name: s
      weigths: { a: 1 }
      sticky: [{ heder: x }, { header: 1 }, clientip, { body: [] }]
    - {}
",
        "\
f:1:1: unknown key \"limit\"; allowed: listen, admin, observe, identity, trusted, forwarded, telemetry, limits, workers, state_file, on_bad_rules, rules; did you mean \"limits\"?
f:2:10: workers: found \"many\", expected a whole number
f:4:10: limits.drain: a duration needs a unit, such as \"250ms\" or \"1m30s\"; found the number 30
f:5:3: limits: unknown key \"drayn\"; allowed: body, memory, connections, h2_streams, event, ring, write, drain, drain_wait; did you mean \"drain\"?
f:7:3: limits: key \"body\" is written twice
f:9:16: listen[0].address: an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\", or unix:/PATH; found \"x\"
f:9:19: listen[0]: unknown key \"tsl\"; allowed: address, protocol, mode, tls, proxy_protocol; did you mean \"tls\"?
f:10:5: listen[1]: key \"address\" is missing, and there is no default for it
f:10:17: listen[1].protocol: found \"h3\"; allowed: http1, h2c
f:10:26: listen[1].tls: key \"key\" is missing, and there is no default for it
f:11:5: listen[2]: found the number 7, expected a map
f:12:23: trusted[1]: a range is IP/BITS or a single IP, such as \"10.0.0.0/8\" or \"fc00::/7\"; found \"10.0.0.0/33\"
f:12:36: trusted[2]: found a list, expected a single value
f:12:40: trusted[3]: a range is IP/BITS or a single IP, such as \"10.0.0.0/8\" or \"fc00::/7\"; found \"::/200\"
f:14:3: rules: key \"default_engine\" is missing, and there is no default for it
f:15:16: rules.engines.a.kind: found \"vlm\"; allowed: vllm, sglang, llamacpp, triton, openai; did you mean \"vllm\"?
f:16:8: rules.engines.b: key \"kind\" is missing, and there is no default for it
f:16:45: rules.engines.b.timeouts.idle: a duration needs a unit, such as \"250ms\" or \"1m30s\"; found the number 5
f:19:7: rules.splits[0]: unknown key \"weigths\"; allowed: name, match, weights, sticky, force, salt, on_unhealthy, retry_on; did you mean \"weights\"?
f:20:18: rules.splits[0].sticky[0]: found \"heder\"; allowed: header, body, client_ip; did you mean \"header\"?
f:20:45: rules.splits[0].sticky[2]: found \"clientip\"; allowed: header, body, client_ip; did you mean \"client_ip\"?
f:20:63: rules.splits[0].sticky[3].body: found a list, expected a single value
f:21:7: rules.splits[1]: key \"name\" is missing, and there is no default for it
f:21:7: rules.splits[1]: key \"weights\" is missing, and there is no default for it",
    );
}

const RULES: &str =
    "rules: { engines: { a: { kind: vllm, url: \"http://a\" } }, default_engine: a }\n";

#[test]
fn what_was_taken_out_is_not_missed() {
    let kind = "allowed: vllm, sglang, llamacpp, triton, openai";
    check(
        "rules: { engines: { a: { kind: no, url: [] } }, default_engine: {} }",
        &format!(
            "\
f:1:32: rules.engines.a.kind: found \"no\"; {kind}
f:1:41: rules.engines.a.url: found a list, expected a single value
f:1:65: rules.default_engine: found a map, expected a single value"
        ),
    );
    check(
        "rules: 5",
        "f:1:8: rules: found the number 5, expected a map",
    );
}

#[test]
fn what_an_alias_repeats_is_named_wherever_it_is_used() {
    let what = "an address is IP:PORT, such as \"127.0.0.1:8000\" or \"[::1]:8000\", or unix:/PATH; found \"x\"";
    check(
        &format!("listen: [&l {{ address: x }}, *l]\n{RULES}"),
        &format!("f:1:24: listen[0].address: {what}\nf:1:29: listen[1].address: {what}"),
    );
}

#[test]
fn a_secret_that_is_no_text_is_not_shown() {
    check(
        &format!("telemetry: {{ otlp: {{ headers: hunter2 }} }}\n{RULES}"),
        "f:1:31: telemetry.otlp.headers: found a single value, expected a map",
    );
}

#[test]
fn a_file_with_very_much_wrong_is_not_read_for_ever() {
    let keys: String = (0..1000).map(|key| format!("x{key}: 1\n")).collect();
    let fault = Config::read(&format!("{keys}{RULES}"), "f").unwrap_err();
    let fault = fault.to_string();
    assert_eq!(fault.lines().count(), 101);
    assert!(
        fault.starts_with(
            "f: found so much that not all of it is listed\nf:1:1: unknown key \"x0\""
        ),
        "{fault}"
    );
}

#[test]
fn what_is_right_stays_what_it_is_when_it_is_written_again() {
    let mut tree = Tree::read(FULL).unwrap();
    let (again, first) = (read(&mut tree).unwrap(), Config::read(FULL, "f").unwrap());
    let value = |config: &Config| serde_json::to_value(config).unwrap();
    assert_eq!(value(&again), value(&first));
}

// A place in full.yaml, and what is done there.
#[derive(Debug, Clone)]
enum Ruin {
    Cut(usize, usize),
    Put(usize, String),
    Double(usize, usize),
}

fn ruined(ruins: &[Ruin]) -> String {
    let mut lines: Vec<String> = FULL.lines().map(str::to_owned).collect();
    for ruin in ruins {
        match ruin {
            Ruin::Cut(line, count) => {
                let begin = line % lines.len().max(1);
                let end = lines.len().min(begin + count);
                lines.drain(begin..end);
            }
            Ruin::Put(place, text) => {
                let count = lines.len().max(1);
                if let Some(line) = lines.get_mut(place % count) {
                    let letters = line.char_indices().map(|(at, _)| at);
                    let at: Vec<usize> = letters.chain([line.len()]).collect();
                    line.insert_str(at[(place / count) % at.len()], text);
                }
            }
            Ruin::Double(line, count) => {
                let begin = line % lines.len().max(1);
                let end = lines.len().min(begin + count);
                let part: Vec<String> = lines.drain(begin..end).collect();
                lines.splice(begin..begin, part.clone().into_iter().chain(part));
            }
        }
    }
    lines.join("\n")
}

fn ruins() -> impl Strategy<Value = Vec<Ruin>> {
    let text = prop_oneof![
        "[ a-z0-9:{}\\[\\]\"'#&*!|>%@,.-]{1,3}",
        Just("x".to_owned()),
        Just(": 5".to_owned())
    ];
    let ruin = prop_oneof![
        (0..400usize, 1..4usize).prop_map(|(line, count)| Ruin::Cut(line, count)),
        (0..40_000usize, text).prop_map(|(place, text)| Ruin::Put(place, text)),
        (0..400usize, 1..4usize).prop_map(|(line, count)| Ruin::Double(line, count)),
    ];
    prop::collection::vec(ruin, 1..6)
}

// The lines of full.yaml before which a key of a map may stand that takes no other keys.
fn keys() -> Vec<usize> {
    let lines: Vec<&str> = FULL.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_key = |line: &str| {
        line.trim_start()
            .starts_with(|letter: char| letter.is_ascii_lowercase())
    };
    let is_closed = |index: &usize| {
        let line = lines[*index];
        let above = lines[..*index].iter().rev();
        let mut above =
            above.filter(|line| !line.trim_start().starts_with('#') && !line.is_empty());
        let parent = above.find(|other| indent(other) < indent(line));
        parent.is_none_or(|parent| !["set:", "headers:"].contains(&parent.trim()))
    };
    let all = 0..lines.len();
    all.filter(|index| is_key(lines[*index]))
        .filter(is_closed)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_mistake_is_named_once_and_nothing_else(at in prop::sample::subsequence(keys(), 1..12)) {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        for (index, line) in FULL.lines().enumerate() {
            if at.contains(&index) {
                let indent = line.len() - line.trim_start().len();
                text.push(format!("{}zz{index}: []", " ".repeat(indent)));
                expected.push(text.len().to_string());
            }
            text.push(line.to_owned());
        }
        let fault = Config::read(&text.join("\n"), "f").map(|_| ()).unwrap_err().to_string();
        let found: Vec<&str> = fault.lines().filter_map(|line| line.split(':').nth(1)).collect();
        prop_assert_eq!(found, expected, "{}", fault);
    }

    #[test]
    fn a_ruined_file_is_refused_in_lines_or_read(ruins in ruins()) {
        let text = ruined(&ruins);
        match Config::read(&text, "f") {
            Ok(first) => {
                // Two ways of reading agree.
                let again = read(&mut Tree::read(&text).unwrap()).unwrap();
                let value = |config: &Config| -> Value { serde_json::to_value(config).unwrap() };
                prop_assert_eq!(value(&again), value(&first));
            }
            Err(fault) => {
                let fault = fault.to_string();
                prop_assert!(fault.lines().all(|line| line.starts_with("f:") && line.len() < 1000), "{}", fault);
                prop_assert!(fault.lines().count() <= 400);
            }
        }
    }
}
