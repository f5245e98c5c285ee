//! What the marks of a chunked body cost to read and to write, a token.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use greylag_filters::framing::{Decoder, Framing, Marked};

const TOKENS: u64 = 1000;
// about what a token of vLLM's chat stream takes
const EVENT: [u8; 240] = [b'x'; 240];

fn wire() -> Vec<u8> {
    let mut marked = Marked::new(Framing::Chunked);
    let mut wire = Vec::new();
    for _ in 0..TOKENS {
        let mark = marked.mark(EVENT.len());
        wire.extend_from_slice(mark.before());
        wire.extend_from_slice(&EVENT);
        wire.extend_from_slice(mark.after);
    }
    wire
}

fn framing(c: &mut Criterion) {
    let mut group = c.benchmark_group("framing");
    group.throughput(Throughput::Elements(TOKENS));
    group.bench_function("write", |b| b.iter(|| black_box(wire())));
    let wire = wire();
    let mut data = Vec::with_capacity(wire.len());
    group.bench_function("read", |b| {
        b.iter(|| {
            data.clear();
            Decoder::default().decode(black_box(&wire), &mut data)
        });
    });
    group.finish();
}

criterion_group!(benches, framing);
criterion_main!(benches);
