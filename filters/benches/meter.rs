//! What a token costs: one event a feed, as vLLM sends them, or one message of a gRPC stream.
//!
//! Each round of a row feeds one event; the token's share is the time of the round.

use criterion::{Criterion, Throughput};
use greylag_filters::grpc::Splitter;
use greylag_filters::meter::{Dialect, InferStream, Meter, Offset, Wanted};
use greylag_filters::usage_strip::Strip;
use std::hint::black_box;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    events(&mut criterion);
    messages(&mut criterion);
    criterion.final_summary();
}

/// The events, as recorded but for their ids; the names say what is special.
fn rows() -> [(&'static str, Dialect, String); 10] {
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
        (
            "generate_stream",
            Dialect::TritonGenerate,
            r#"data: {"index":1,"model_name":"words","model_version":"1","text_output":"quick "}"#
                .to_owned()
                + "\n\n",
        ),
        (
            "responses",
            Dialect::Responses,
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_mLUqWGiDt5Z6e4Kxb21GODkhsBONqZFl\",\"delta\":\" header\"}\n\n".to_owned(),
        ),
        (
            "messages",
            Dialect::Messages,
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" header\"}}\n\n".to_owned(),
        ),
        (
            "generate",
            Dialect::Generate,
            "data: {\"text\":\"An 5 splitsct\",\"output_ids\":[360],\"meta_info\":{\"id\":\"fb07b3f7\",\"finish_reason\":null,\"prompt_tokens\":3,\"completion_tokens\":6,\"cached_tokens\":0}}\n\n".to_owned(),
        ),
        (
            "completion",
            Dialect::LlamaCompletion,
            "data: {\"index\":0,\"content\":\" replica\",\"tokens\":[565],\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":2,\"tokens_evaluated\":4}\n\n".to_owned(),
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
        let mut judge = Meter::stream(dialect, true, 1 << 20).with_checks(Wanted {
            json: true,
            tools: true,
        });
        group.bench_function(format!("{name}, judged"), |bencher| {
            bencher.iter(|| black_box(judge.feed(at, black_box(event.as_bytes()))));
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

/// A field of a protobuf message that is no longer than 127 bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("a short field");
    [&[number << 3 | 2, length], value].concat()
}

/// One answer of `ModelStreamInfer`, as recorded: split off and metered, with one request open and with a hundred.
fn messages(criterion: &mut Criterion) {
    let request = |id: &str| [field(1, b"words"), field(3, id.as_bytes())].concat();
    let answer = |id: &str| {
        let mark = [field(1, b"triton_final_response"), field(2, &[8, 0])].concat();
        let inner = [
            field(1, b"words"),
            field(2, b"1"),
            field(3, id.as_bytes()),
            field(4, &mark),
            field(5, &[field(1, b"text_output"), field(2, b"BYTES")].concat()),
            field(6, b"\x06\0\0\0quick "),
        ];
        let message = field(2, &inner.concat());
        let length = u32::try_from(message.len()).expect("a short message");
        [&[0][..], &length.to_be_bytes(), &message].concat()
    };
    let mut group = criterion.benchmark_group("message");
    for open in [1, 100] {
        let mut stream = InferStream::new(open);
        let mut requests = Splitter::new(1 << 20);
        for id in 0..open {
            let message = request(&format!("request-{id}"));
            let length = u32::try_from(message.len()).expect("a short message");
            let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
            requests.feed(&framed, |message| {
                stream.request(Offset::ZERO, message);
            });
        }
        // The last one is found last.
        let answer = answer(&format!("request-{}", open - 1));
        let mut splitter = Splitter::new(1 << 20);
        group.throughput(Throughput::Bytes(answer.len() as u64));
        group.bench_function(format!("stream answer, {open} open"), |bencher| {
            bencher.iter(|| {
                splitter.feed(black_box(&answer), |message| {
                    black_box(stream.answer(Offset::from_millis(3), message));
                });
            });
        });
    }
    group.finish();
}
