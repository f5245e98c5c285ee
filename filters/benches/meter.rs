//! What a token costs: one event a feed, as vLLM sends them.
//!
//! Each round of a row feeds one event; the token's share is the time of the round.

use criterion::{Criterion, Throughput};
use greylag_filters::meter::{Dialect, Meter, Offset};
use greylag_filters::usage_strip::Strip;
use std::hint::black_box;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    events(&mut criterion);
    criterion.final_summary();
}

/// The events, as recorded but for their ids; the names say what is special.
fn rows() -> [(&'static str, Dialect, String); 5] {
    let head = r#"data: {"id":"chatcmpl-8f67814d01511b78","object":"chat.completion.chunk","created":1796071456,"model":"tiny","choices":[{"index":0,"#;
    let tail = r#""logprobs":null,"finish_reason":null,"token_ids":null}]"#;
    let usage = r#","usage":{"prompt_tokens":20,"total_tokens":28,"completion_tokens":8,"completion_tokens_details":null}"#;
    let logprobs = r#""logprobs":{"content":[{"token":" 6","logprob":-7.0,"bytes":[32,54],"top_logprobs":[{"token":" 6","logprob":-7.0,"bytes":[32,54]},{"token":" 7","logprob":-7.1,"bytes":[32,55]}]}]},"finish_reason":null}]"#;
    [
        (
            "chat",
            Dialect::Chat,
            format!("{head}\"delta\":{{\"content\":\" worlit\"}},{tail}}}\n\n"),
        ),
        (
            "chat with usage",
            Dialect::Chat,
            format!("{head}\"delta\":{{\"content\":\" worlit\"}},{tail}{usage}}}\n\n"),
        ),
        (
            "chat with logprobs",
            Dialect::Chat,
            format!("{head}\"delta\":{{\"content\":\" worlit\"}},{logprobs}}}\n\n"),
        ),
        (
            "tool call",
            Dialect::Chat,
            format!(
                "{head}\"delta\":{{\"content\":null,\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"Rome\"}}}}]}},{tail}}}\n\n"
            ),
        ),
        (
            "completions",
            Dialect::Completions,
            format!("{head}\"text\":\" worlit\",{tail}}}\n\n"),
        ),
    ]
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event");
    for (name, dialect, event) in rows() {
        group.throughput(Throughput::Bytes(event.len() as u64));
        let mut meter = Meter::stream(dialect, true, 1 << 20);
        let at = Offset::from_millis(3);
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(meter.feed(at, black_box(event.as_bytes()))));
        });
        let mut cut = Meter::stream(dialect, true, 1 << 20);
        let (head, tail) = event.split_at(event.len() / 2);
        group.bench_function(format!("{name}, cut in two"), |bencher| {
            bencher.iter(|| {
                cut.feed(at, black_box(head.as_bytes()));
                black_box(cut.feed(at, black_box(tail.as_bytes())))
            });
        });
        let mut strip = Strip::new(1 << 20);
        let mut out = Vec::new();
        group.bench_function(format!("{name}, usage strip"), |bencher| {
            bencher.iter(|| {
                out.clear();
                strip.feed(black_box(event.as_bytes()), &mut out);
                black_box(out.len())
            });
        });
    }
    group.finish();
}
