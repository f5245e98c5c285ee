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

#[test]
fn explore() {
    for t in [
        "limit: {}\n", "limits: { bdy: 1MiB }\n", "limits: 5\n", "limits: { drain: 30 }\n", "limits: { body: 65536 }\n",
        "limits: { body: 64 MiB }\n",
        "workers: many\n", "workers: -1\n", "workers: 1.5\n", "workers: [1]\n", "workers: 1\nworkers: 2\n", "limits: {body: 1B, body: 2B}\n", "listen: 5\n", "listen: [5]\n",
        "listen: [{ address: here }]\n", "listen: [{}]\n", "listen: [{ address: 0.0.0.0 }]\n", "trusted: [10.0.0.0/33]\n", "trusted: nobody\n",
        "limits:\n\tdrain: 30s\n", "\tworkers: 1\n", "workers:\t1\n", "telemetry: { log: { format: xml } }\n", "telemetry: { log: { format: 5 } }\n", "telemetry: { log: { path: [1] } }\n",
        "workers: 1\n---\n", "a: [\n", "a: 'x\n", "workers: *x\n", "workers: &x 1\n", "? [a]\n: b\n", "workers: null\n", "limits: ~\n", "limits:\n", "workers: !!str 1\n",
        "limits: { connections: 0x }\n", "}\n", "workers: 1\n  limits: 2\n", "@\n", "\u{7}: 1\n",
    ] {
        println!("{t:?}\n    {}", refused(&format!("{t}{RULES}")));
    }
    for t in ["", "\n", "# nothing\n", "---\n", "null\n", "[]\n", "text\n", "rules: {}\n", "rules:\n", "workers: 1\n", "rules: { engines: {}, default_engine: x }\n",
        "rules: { engines: { a: {} }, default_engine: x }\n",
        "rules: { engines: { a b: {} }, default_engine: x }\n",
        "rules: { engines: { a: { kind: vlm, url: 'http://a' } }, default_engine: x }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' }, a: { kind: vllm, url: 'http://a' } }, default_engine: a }\n",
        "rules: { engines: { a: { kind: vllm, url: 'https://a' } }, default_engine: a }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a', set: {a: .nan} } }, default_engine: a }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, splits: [{ name: s, weights: { a: -1 } }] }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, splits: [{ name: s, weights: { a: 1.5 } }] }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, splits: [{ name: s, weights: { a: 1 }, sticky: [{ heder: x }] }] }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, splits: [{ name: s, weights: { a: 1 }, sticky: [ip] }] }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, splits: [{ name: s, weights: { a: 1 }, sticky: ip }] }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, splits: { name: s, weights: { a: 1 } } }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, trace: { share: 10 } }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, trace: { share: 10%% } }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, trace: { inject: 1 } }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: a, trace: { inject: maybe } }\n",
        "rules: { engines: [a], default_engine: a }\n",
        "rules: { engines: { a: { kind: vllm, url: 'http://a' } }, default_engine: 5 }\n",
        "rules: { engines: { a: { kind: vllm, url: 5 } }, default_engine: a }\n",
    ] {
        println!("{t:?}\n    {}", refused(t));
    }
}
