//! What a request costs before an engine is chosen: reading its facts and editing its body.

use criterion::{Criterion, Throughput};
use greylag_filters::{edit, facts};
use std::hint::black_box;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bodies(&mut criterion);
    tensors(&mut criterion);
    criterion.final_summary();
}

fn rows() -> [(&'static str, String); 4] {
    let body = |prompt: &str| {
        format!(
            r#"{{"model":"llama-3.1-8b","messages":[{{"role":"system","content":"You are terse."}},{{"role":"user","content":"{prompt}"}}],"max_tokens":128,"temperature":0.7,"stream":true,"user":"u-1234567"}}"#
        )
    };
    let line =
        "the router holds each chunk until the client has read it, and then some more of it. ";
    let code = "    if (a != \\\"b\\\") {\\n\\t\\tprintf(\\\"%s\\\\n\\\", a);\\n    }\\n";
    let chinese = "路由器保持每个块直到客户端读取它";
    [
        ("300 B", body(&line[..line.len().min(90)])),
        (
            "256 KiB of prose",
            body(&line.repeat((256 << 10) / line.len())),
        ),
        (
            "256 KiB of code",
            body(&code.repeat((256 << 10) / code.len())),
        ),
        (
            "256 KiB of Chinese",
            body(&chinese.repeat((256 << 10) / chinese.len())),
        ),
    ]
}

fn bodies(criterion: &mut Criterion) {
    let wanted = [Box::from("user")];
    let edits = [
        edit::Edit::Set {
            key: "model",
            json: br#""llama-3.1-8b-v2""#,
        },
        edit::Edit::IncludeUsage,
    ];
    let mut group = criterion.benchmark_group("body");
    for (name, body) in rows() {
        let body = body.as_bytes();
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("scan {name}"), |bencher| {
            bencher.iter(|| black_box(facts::scan(black_box(body), &wanted)));
        });
        let spans = facts::scan(body, &[]).expect("valid JSON").spans;
        group.bench_function(format!("edit {name}"), |bencher| {
            bencher.iter(|| black_box(edit::splice(black_box(body), &spans, &edits)));
        });
        group.bench_function(format!("serde_json::Value {name}"), |bencher| {
            bencher.iter(|| {
                black_box(serde_json::from_slice::<serde_json::Value>(black_box(body)).is_ok())
            });
        });
    }
    group.finish();
}

/// A request to Triton with 64 KiB of numbers, in JSON and as a message.
fn tensors(criterion: &mut Criterion) {
    let count = (64 << 10) / 4;
    let json = format!(
        r#"{{"id":"r1","parameters":{{"sequence_id":42}},"inputs":[{{"name":"X","shape":[1,{count}],"datatype":"FP32","data":[{}1.0]}}]}}"#,
        "1.0,".repeat(count - 1)
    );
    let raw = vec![0; count * 4];
    // model_name, id, an input's name, and the tensor with the three bytes of its length
    let mut message = b"\x0a\x06affine\x1a\x02r1\x2a\x03\x0a\x01X\x3a\x80\x80\x04".to_vec();
    message.extend_from_slice(&raw);
    let mut group = criterion.benchmark_group("tensors");
    group.throughput(Throughput::Bytes(json.len() as u64));
    group.bench_function("infer", |bencher| {
        bencher.iter(|| {
            black_box(facts::triton::scan(
                None,
                None,
                black_box(json.as_bytes()),
                &[],
            ))
        });
    });
    facts::triton::message(&message, &[]).expect("a message");
    group.throughput(Throughput::Bytes(message.len() as u64));
    group.bench_function("ModelInferRequest", |bencher| {
        bencher.iter(|| black_box(facts::triton::message(black_box(&message), &[])));
    });
    group.finish();
}
