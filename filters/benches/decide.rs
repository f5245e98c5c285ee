//! What a decision costs: one split between two engines, by a sticky key and by the draw; and the place in a trace.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::Criterion;
use greylag_filters::draw::Draw;
use greylag_filters::facts;
use greylag_filters::feedback;
use greylag_filters::meter::Offset;
use greylag_filters::route::Route;
use greylag_filters::rules::{Request, Rules, Ruleset, compile};
use greylag_filters::tokens::Tokens;
use greylag_filters::trace::{self, Limiter};
use http::{HeaderMap, HeaderValue, Method};

const RULES: &str = r#"{
    "engines": {
        "stable": { "kind": "vllm", "url": "http://127.0.0.1:8100" },
        "candidate": { "kind": "vllm", "url": "http://127.0.0.1:8200", "tag": "v2" }
    },
    "default_engine": "stable",
    "splits": [
        {
            "name": "batch",
            "match": { "headers": { "x-tier": ["batch*"] }, "models": ["llama*"] },
            "weights": { "stable": 1 }
        },
        {
            "name": "default",
            "weights": { "stable": 90, "candidate": 10 },
            "sticky": [{ "header": "x-user-id" }, { "body": "user" }],
            "force": { "header": "x-gray-strategy" }
        }
    ]
}"#;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let rules: Rules = serde_json::from_str(RULES).expect("the rules above are well-formed");
    let ruleset = compile(&rules).expect("the rules above fit each other");
    let mut headers = HeaderMap::new();
    for name in [
        "host",
        "accept",
        "content-type",
        "content-length",
        "user-agent",
    ] {
        headers.insert(name, HeaderValue::from_static("of no account"));
    }
    let draw = headers.clone();
    headers.insert("x-user-id", HeaderValue::from_static("7d9f1c52-user"));
    define(
        &mut criterion,
        "decide/draw",
        &ruleset,
        &draw,
        r#"{"model":"llama"}"#,
    );
    define(
        &mut criterion,
        "decide/sticky-header",
        &ruleset,
        &headers,
        r#"{"model":"llama"}"#,
    );
    define(
        &mut criterion,
        "decide/sticky-body",
        &ruleset,
        &draw,
        r#"{"model":"llama","user":"7d9f1c52-user"}"#,
    );
    trace(&mut criterion);
    heard(&mut criterion);
    tokens(&mut criterion);
    criterion.final_summary();
}

// The place of an exchange in its trace: a new one, which is almost never sampled, and a caller's.
fn trace(criterion: &mut Criterion) {
    let rule = trace::Rule::default();
    let mut limiter = Limiter::default();
    let mut headers = HeaderMap::new();
    criterion.bench_function("trace/new", |bencher| {
        let mut number = 0_u64;
        bencher.iter(|| {
            number += 1;
            let draw = Draw::new(42, trace::HEAD, &number.to_be_bytes());
            let sample = || {
                rule.samples(draw, |luck| {
                    let (next, is_kept) = limiter.admit(Offset::ZERO, rule.most(), luck);
                    limiter = next;
                    is_kept
                })
            };
            trace::begin(black_box(&headers), [7; 24], sample)
        });
    });
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    headers.insert("traceparent", HeaderValue::from_static(parent));
    criterion.bench_function("trace/continued", |bencher| {
        bencher.iter(|| trace::begin(black_box(&headers), [7; 24], || false));
    });
    headers.clear();
    let b3 = "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1";
    headers.insert("b3", HeaderValue::from_static(b3));
    criterion.bench_function("trace/b3", |bencher| {
        bencher.iter(|| trace::begin(black_box(&headers), [7; 24], || false));
    });
}

// A caller's judgement, read from its body.
fn heard(criterion: &mut Criterion) {
    let body = br#"{"request_id":"req-0123456789abcdef","metric":"thumbs","value":false}"#;
    criterion.bench_function("feedback/read", |bencher| {
        bencher.iter(|| feedback::read(black_box(body)));
    });
}

// A file of as many tokens as it may hold, read, and one of them looked for.
fn tokens(criterion: &mut Criterion) {
    let line = |number| format!("name-{number} read token-{number:032}\n");
    let file: String = (0..512).map(line).collect();
    criterion.bench_function("tokens/read-512", |bencher| {
        bencher.iter(|| Tokens::read(black_box(file.as_bytes())));
    });
    let tokens = Tokens::read(file.as_bytes()).expect("the lines above are well-formed");
    let said = format!("token-{:032}", 300);
    criterion.bench_function("tokens/find-among-512", |bencher| {
        bencher.iter(|| tokens.find(black_box(said.as_bytes())));
    });
}

fn define(
    criterion: &mut Criterion,
    name: &str,
    ruleset: &Ruleset,
    headers: &HeaderMap,
    body: &str,
) {
    let body = facts::scan(body.as_bytes(), ruleset.wanted_body_keys()).ok();
    let path = "/v1/chat/completions";
    let request = Request {
        method: &Method::POST,
        path,
        route: Route::of(path),
        headers,
        body: body.as_ref(),
        client: Some(IpAddr::from([127, 0, 0, 1])),
        trusted: true,
    };
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            ruleset.decide(
                black_box(&request),
                |_| true,
                42,
                black_box(b"req-0123456789abcdef"),
            )
        });
    });
}
