//! A metered token allocates nothing, and nor does a trace that is not sampled.

use greylag_filters::draw::Draw;
use greylag_filters::grpc::Splitter;
use greylag_filters::meter::{Dialect, InferStream, Meter, Offset, Wanted};
use greylag_filters::outcome::Outcome;
use greylag_filters::trace::{self, Limiter};
use greylag_filters::usage_strip::Strip;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches a thread-local cell that needs no
// allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

const EVENTS: [(Dialect, &str); 11] = [
    (
        Dialect::Chat,
        "data: {\"id\":\"c\",\"model\":\"tiny\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\n\\u00e9\"},\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n",
    ),
    (
        Dialect::Chat,
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"Rome\"}}]}}]}\r\n\r\n",
    ),
    (
        Dialect::Completions,
        "data: {\"choices\":[\ndata: {\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"]}}]}\n\n",
    ),
    (Dialect::Chat, "data: not JSON\n\n"),
    (
        Dialect::TritonGenerate,
        "data: {\"index\":1,\"model_name\":\"words\",\"text_output\":\"quick \"}\n\n",
    ),
    (
        Dialect::Responses,
        "event: x\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\" a\"}\n\n",
    ),
    (
        Dialect::Messages,
        "event: x\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
    ),
    (
        Dialect::Generate,
        "data: {\"index\":1,\"text\":\"a b\",\"meta_info\":{\"finish_reason\":{\"type\":\"length\"},\"completion_tokens\":6}}\n\n",
    ),
    (
        Dialect::GenerateStream,
        "data:{\"index\":1,\"token\":{\"id\":7,\"text\":\"hi\",\"special\":false},\"generated_text\":null}\n\n",
    ),
    (
        Dialect::LlamaCompletion,
        "data: {\"index\":0,\"content\":\"a\",\"tokens\":[565],\"stop\":false,\"tokens_predicted\":2}\n\n",
    ),
    (
        Dialect::Audio,
        "data: {\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
    ),
];

#[test]
fn the_count_sees_an_allocation() {
    assert_eq!(
        allocations(|| drop(std::hint::black_box(Box::new(7u64)))),
        1
    );
}

#[test]
fn a_token_allocates_nothing_once_the_buffers_have_grown() {
    for (dialect, event) in EVENTS {
        let mut meter = Meter::stream(dialect, false, 1 << 20);
        let mut judge = Meter::stream(dialect, false, 1 << 20).with_checks(Wanted {
            json: true,
            tools: true,
        });
        let mut strip = Strip::new(1 << 20);
        let mut out = Vec::with_capacity(1 << 16);
        let mut round = |step: usize| {
            for piece in event.as_bytes().chunks(step) {
                meter.feed(Offset::from_millis(1), piece);
                judge.feed(Offset::from_millis(1), piece);
                strip.feed(piece, &mut out);
            }
            out.clear();
        };
        for step in [1, 7, event.len()] {
            round(step);
        }
        let found = allocations(|| {
            for step in [1, 7, 100, event.len()] {
                for _ in 0..100 {
                    round(step);
                }
            }
        });
        assert_eq!(found, 0, "{event:?}");
    }
}

#[test]
fn an_answer_of_a_grpc_stream_allocates_nothing_once_the_buffers_have_grown() {
    // An id, and for the answer a tensor too.
    let request = b"\0\0\0\0\x04\x1a\x02r1";
    let answer = b"\0\0\0\0\x0a\x12\x08\x1a\x02r1\x32\x02hi";
    let mut stream = InferStream::new(8);
    Splitter::new(64).feed(request, |message| {
        stream.request(Offset::ZERO, message);
    });
    let mut splitter = Splitter::new(64);
    let mut events = 0;
    let mut round = |step: usize| {
        for piece in answer.chunks(step) {
            splitter.feed(piece, |message| {
                let heard = stream.answer(Offset::from_millis(1), message);
                events += heard.fed.token_events;
            });
        }
    };
    for step in [1, 7, answer.len()] {
        round(step);
    }
    let found = allocations(|| {
        for step in [1, 7, answer.len()] {
            round(step);
        }
    });
    assert_eq!((found, events), (0, 6));
}

#[test]
fn an_exchange_that_is_not_sampled_allocates_nothing() {
    let mut headers = http::HeaderMap::new();
    let rule = trace::Rule::default();
    let ended = trace::Ended {
        outcome: Outcome::Ok,
        is_injected: false,
        waited: Some(Offset::from_millis(5)),
    };
    let b3 = "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0";
    for caller in [None, Some(b3)] {
        if let Some(b3) = caller {
            headers.insert("b3", http::HeaderValue::from_static(b3));
        }
        let count = allocations(|| {
            for number in 0_u64..100 {
                let draw = Draw::new(1, trace::HEAD, &number.to_be_bytes());
                let begun = trace::begin(&headers, [7; 24], || {
                    rule.samples(draw, |luck| {
                        Limiter::default().admit(Offset::ZERO, 0, luck).1
                    })
                });
                assert_eq!(rule.keeps(&begun, ended, || true), None);
            }
        });
        assert_eq!(count, 0, "{caller:?}");
    }
}
