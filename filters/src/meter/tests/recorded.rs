//! The meter against recorded answers.
//!
//! The figures were counted from the bytes by a program of another language that reads every event into a tree, by
//! the tests that `chat` and `completions` describe. Six of them were counted by eye as well, and say how.

use super::*;
use crate::capture::{self, Capture};
use crate::route::Route;
use proptest::prelude::*;

/// Name, events, token events; chunks in which the first token, first text and last token came; usage as
/// `prompt+completion`, finish reasons, end, error as `code type`.
type Row = (
    &'static str,
    u64,
    u64,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
const STREAMS: &[Row] = &[
    ("vllm/chat-stream-abort", 13, 12, Some(1), Some(1), Some(12), "", "", "cut", ""),
    ("vllm/chat-stream-continuous-without-include", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-engine-killed", 110, 107, Some(1), Some(1), Some(107), "", "", "done", "500 InternalServerError"),
    ("vllm/chat-stream-fast", 66, 64, Some(1), Some(1), Some(64), "", "length:1", "done", ""),
    ("vllm/chat-stream-load-metrics-text", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-logprobs", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-max1", 3, 1, Some(1), Some(1), Some(1), "", "length:1", "done", ""),
    ("vllm/chat-stream-server-sigterm-hang", 9, 8, Some(1), Some(1), Some(8), "", "", "cut", ""),
    ("vllm/chat-stream-stop", 11, 7, Some(1), Some(1), Some(7), "20+8", "stop:1", "done", ""),
    ("vllm/chat-stream-token-ids", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-tool-named", 21, 17, Some(1), None, Some(17), "212+54", "stop:1", "done", ""),
    ("vllm/chat-stream-usage-continuous", 11, 8, Some(1), Some(1), Some(8), "20+8", "length:1", "done", ""),
    // By eye: a role event, 8 with content " 6" to " tenant", one with usage alone, [DONE].
    ("vllm/chat-stream-usage", 11, 8, Some(1), Some(1), Some(8), "20+8", "length:1", "done", ""),
    ("vllm/chat-stream", 26, 24, Some(1), Some(1), Some(24), "", "length:1", "done", ""),
    ("vllm/completion-stream-logprobs", 5, 4, Some(0), Some(0), Some(3), "", "length:1", "done", ""),
    ("vllm/completion-stream-usage-continuous", 8, 6, Some(0), Some(0), Some(5), "3+6", "length:1", "done", ""),
    // By eye: 6 with text, one with usage alone, [DONE].
    ("vllm/completion-stream-usage", 8, 6, Some(0), Some(0), Some(5), "3+6", "length:1", "done", ""),
    ("vllm/completion-stream", 17, 16, Some(0), Some(0), Some(15), "", "length:1", "done", ""),
    ("sglang/chat-stream-abort", 12, 11, Some(1), Some(1), Some(11), "", "", "cut", ""),
    ("sglang/chat-stream-fast", 67, 64, Some(1), Some(1), Some(64), "", "length:1", "done", ""),
    ("sglang/chat-stream-logprobs", 7, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("sglang/chat-stream-n2", 18, 12, Some(1), Some(1), Some(13), "20+12 reasoning 0", "length:2", "done", ""),
    ("sglang/chat-stream-server-sigterm", 57, 54, Some(1), Some(1), Some(54), "", "length:1", "done", ""),
    ("sglang/chat-stream-stop", 7, 3, Some(1), Some(1), Some(3), "20+3 reasoning 0", "stop:1", "done", ""),
    // By eye: a role event, 8 with content, an empty delta with the finish reason, one with usage alone, [DONE].
    ("sglang/chat-stream-usage", 12, 8, Some(1), Some(1), Some(8), "20+8 reasoning 0", "length:1", "done", ""),
    ("sglang/chat-stream", 27, 24, Some(1), Some(1), Some(24), "", "length:1", "done", ""),
    ("sglang/completion-stream-two-prompts", 10, 8, Some(0), Some(0), Some(7), "5+8 reasoning 0", "length:2", "done", ""),
    ("sglang/completion-stream-usage-continuous", 8, 6, Some(0), Some(0), Some(5), "3+6 reasoning 0", "length:1", "done", ""),
    // By eye: 6 with text, one with usage alone, [DONE].
    ("sglang/completion-stream-usage", 8, 6, Some(0), Some(0), Some(5), "3+6 reasoning 0", "length:1", "done", ""),
    ("sglang/completion-stream", 17, 16, Some(0), Some(0), Some(15), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-abort", 12, 11, Some(0), Some(0), Some(10), "", "", "cut", ""),
    ("llamacpp/chat-stream-fast", 67, 64, Some(0), Some(0), Some(63), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-json-schema", 17, 14, Some(0), Some(0), Some(13), "", "stop:1", "done", ""),
    ("llamacpp/chat-stream-logprobs", 6, 3, Some(0), Some(0), Some(2), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-n2", 17, 12, Some(0), Some(0), Some(12), "", "length:2", "done", ""),
    ("llamacpp/chat-stream-server-sigterm", 14, 13, Some(0), Some(0), Some(12), "", "", "cut", ""),
    ("llamacpp/chat-stream-timings", 9, 4, Some(2), Some(2), Some(5), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-tool-required", 83, 80, Some(0), Some(0), Some(79), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-usage-continuous", 8, 4, Some(0), Some(0), Some(3), "24+4 cached 23", "length:1", "done", ""),
    // By eye: a role event with null content in one chunk with the first token, 15 more, an empty delta, [DONE].
    ("llamacpp/chat-stream", 19, 16, Some(0), Some(0), Some(15), "", "length:1", "done", ""),
    // By eye: 8 with text, one with empty text, the finish reason and the usage, [DONE].
    ("llamacpp/completion-stream", 10, 9, Some(0), Some(0), Some(8), "4+8 cached 3", "length:1", "done", ""),
];

/// Name, usage, finish reasons, model.
#[rustfmt::skip]
const WHOLE: &[(&str, &str, &str, &str)] = &[
    ("vllm/chat-extra-field", "16+2", "length:1", "tiny"),
    ("vllm/chat-load-metrics-bad", "20+4", "length:1", "tiny"),
    ("vllm/chat-load-metrics-json", "20+4", "length:1", "tiny"),
    ("vllm/chat-load-metrics-text", "20+4", "length:1", "tiny"),
    ("vllm/chat-n2", "20+12", "length:2", "tiny"),
    ("vllm/chat-tool-named", "212+54", "stop:1", "tiny"),
    ("vllm/chat", "20+12", "length:1", "tiny"),
    ("vllm/completion-load-metrics-text", "3+4", "length:1", "tiny"),
    ("vllm/completion-token-ids-prompt", "3+4", "length:1", "tiny"),
    ("vllm/completion-two-prompts", "5+8", "length:2", "tiny"),
    ("vllm/completion", "3+12", "length:1", "tiny"),
    ("vllm/error-missing-model", "16+2", "length:1", "tiny"),
    ("vllm/flags.chat", "28+4 cached 0", "length:1", "tiny"),
    ("sglang/chat-rid", "16+2 reasoning 0", "length:1", "tiny"),
    ("sglang/chat-tool-named", "228+60 reasoning 0", "length:1", "tiny"),
    ("sglang/chat", "20+12 reasoning 0", "length:1", "tiny"),
    ("sglang/completion-two-prompts", "5+8 reasoning 0", "length:2", "tiny"),
    ("sglang/completion", "3+12 reasoning 0", "length:1", "tiny"),
    ("sglang/error-max-tokens-zero", "16+0 reasoning 0", "length:1", "tiny"),
    ("sglang/error-missing-model", "16+2 reasoning 0", "length:1", "default"),
    ("sglang/error-unknown-model", "16+494 reasoning 0", "length:1", "nosuch"),
    ("llamacpp/chat-n2", "24+6 cached 23", "length:2", "tiny"),
    ("llamacpp/chat", "24+12 cached 0", "length:1", "tiny"),
    ("llamacpp/completion", "4+12 cached 0", "length:1", "tiny"),
    ("llamacpp/unknown-model", "18+2 cached 5", "length:1", "tiny"),
];

fn meter(capture: &Capture) -> Meter {
    let dialect = Route::of(&capture.path).dialect().expect("a metered route");
    let facts = crate::facts::scan(&capture.request, &[]);
    let n_is_one = facts.is_ok_and(|facts| facts.n.is_none_or(|n| n == 1));
    if capture.sse {
        Meter::stream(dialect, n_is_one, LIMIT)
    } else {
        Meter::whole(dialect, n_is_one, LIMIT)
    }
}

fn usage_text(usage: Option<Usage>) -> String {
    let Some(usage) = usage else {
        return String::new();
    };
    let count = |tokens: Option<u64>| tokens.expect("servers count both").to_string();
    let mut text = format!("{}+{}", count(usage.prompt), count(usage.completion));
    if let Some(cached) = usage.cached {
        text += &format!(" cached {cached}");
    }
    if let Some(reasoning) = usage.reasoning {
        text += &format!(" reasoning {reasoning}");
    }
    text
}

fn reasons_text(figures: &Figures) -> String {
    let reasons = figures.finish_reasons.iter();
    let words: Vec<_> = reasons
        .map(|(reason, count)| format!("{}:{count}", reason.label()))
        .collect();
    words.join(" ")
}

#[test]
fn every_recorded_stream_has_the_figures_counted_by_another_reader() {
    let captures: Vec<_> = capture::all()
        .into_iter()
        .filter(|capture| capture.sse)
        .collect();
    assert_eq!(captures.len(), STREAMS.len());
    for capture in captures {
        let name = &capture.name;
        let row = STREAMS
            .iter()
            .find(|row| row.0 == name)
            .expect("a row for each");
        let (_, events, token_events, first, text, last, usage, reasons, end, error) = *row;
        let mut meter = meter(&capture);
        let (mut fed, mut gaps) = (0, Duration::ZERO);
        for (at, piece) in (0..).zip(&capture.pieces) {
            let piece = meter.feed(ms(at), piece);
            fed += u64::from(piece.token_events);
            gaps += piece.gap.unwrap_or_default();
        }
        let figures = meter.finish();
        assert_eq!(
            (figures.events, figures.token_events),
            (events, token_events),
            "{name}"
        );
        assert_eq!(fed, token_events, "{name}");
        assert_eq!(figures.first_token, first.map(ms), "{name}");
        assert_eq!(figures.first_output, text.map(ms), "{name}");
        assert_eq!(figures.last_token, last.map(ms), "{name}");
        assert_eq!(
            Some(gaps),
            last.zip(first).map(|(last, first)| ms(last - first)),
            "{name}"
        );
        assert_eq!(usage_text(figures.usage), usage, "{name}");
        assert_eq!(reasons_text(&figures), reasons, "{name}");
        assert_eq!(figures.terminated, end == "done", "{name}");
        let found = figures.error.as_ref().map_or(String::new(), |error| {
            let (code, kind) = (error.code.as_deref(), error.kind.as_deref());
            format!("{} {}", code.unwrap_or_default(), kind.unwrap_or_default())
        });
        assert_eq!(found, error, "{name}");
        let model = if name == "llamacpp/chat-stream-server-sigterm" {
            "slow"
        } else {
            "tiny"
        };
        assert_eq!(figures.model.as_deref(), Some(model), "{name}");
        assert_eq!((figures.bad_events, figures.unmetered), (0, None), "{name}");
        assert_eq!(
            figures.one_choice,
            !name.contains("n2") && !name.contains("two-prompts"),
            "{name}"
        );
    }
}

#[test]
fn every_recorded_plain_answer_is_read() {
    let captures = capture::all().into_iter();
    let captures: Vec<_> = captures
        .filter(|capture| !capture.sse && capture.status == 200)
        .collect();
    assert_eq!(captures.len(), WHOLE.len());
    for capture in captures {
        let name = &capture.name;
        let (_, usage, reasons, model) = *WHOLE
            .iter()
            .find(|row| row.0 == name)
            .expect("a row for each");
        let mut meter = meter(&capture);
        meter.feed(ms(1), &capture.body());
        let figures = meter.finish();
        assert_eq!(usage_text(figures.usage), usage, "{name}");
        assert_eq!(reasons_text(&figures), reasons, "{name}");
        assert_eq!(figures.model.as_deref(), Some(model), "{name}");
        assert_eq!(
            (figures.terminated, figures.unmetered),
            (true, None),
            "{name}"
        );
        assert_eq!((figures.error, figures.first_token), (None, None), "{name}");
    }
}

#[test]
fn every_recorded_refusal_is_read_without_a_usage() {
    for capture in capture::all()
        .iter()
        .filter(|capture| capture.status != 200)
    {
        let mut meter = meter(capture);
        meter.feed(ms(1), &capture.body());
        let figures = meter.finish();
        assert_eq!(
            (figures.usage, figures.unmetered),
            (None, None),
            "{}",
            capture.name
        );
        // An unknown path or method is answered by the web framework, which has a shape of its own.
        let framework = capture.body().starts_with(b"{\"detail\"");
        assert_eq!(figures.error.is_some(), !framework, "{}", capture.name);
    }
}

/// The figures without the times, which depend on what came together.
fn at_once(capture: &Capture, cuts: &[usize]) -> Figures {
    let body = capture.body();
    let mut meter = meter(capture);
    let mut done = 0;
    for cut in cuts.iter().copied().chain([body.len()]) {
        meter.feed(ms(1), &body[done..cut]);
        done = cut;
    }
    meter.finish()
}

#[test]
fn a_token_cut_in_two_counts_once() {
    for capture in capture::all() {
        let body = capture.body();
        let whole = at_once(&capture, &[]);
        let every: Vec<usize> = (0..body.len()).collect();
        assert_eq!(
            at_once(&capture, &every),
            whole,
            "{} byte by byte",
            capture.name
        );
        let chunks: Vec<usize> = capture
            .pieces
            .iter()
            .scan(0, |end, piece| {
                *end += piece.len();
                Some(*end)
            })
            .collect();
        assert_eq!(
            at_once(&capture, &chunks),
            whole,
            "{} as recorded",
            capture.name
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn any_cutting_of_a_recorded_answer_gives_the_same_figures(
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        crlf: bool,
    ) {
        for mut capture in capture::all() {
            if crlf && capture.sse {
                // The same events with the other line end, so that cuts fall between its two bytes.
                let text = String::from_utf8(capture.body()).expect("servers send UTF-8");
                capture.pieces = vec![text.replace('\n', "\r\n").into_bytes()];
            }
            let length = capture.body().len();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(length)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(at_once(&capture, &cuts), at_once(&capture, &[]));
        }
    }
}

#[test]
fn the_fuzz_body_holds_on_recorded_answers_and_on_their_ruins() {
    for (number, capture) in (0u8..).zip(capture::all()) {
        let mut bytes = vec![number, number.wrapping_mul(7)];
        bytes.extend_from_slice(&capture.body());
        for kind in [0, 3, 4, 9].map(|kind| kind ^ (number & 15)) {
            bytes[0] = kind;
            fuzz_meter(&bytes);
        }
        let length = bytes.len();
        for spot in (2..length).step_by(97) {
            bytes[spot] = bytes[spot].wrapping_add(number | 1);
        }
        fuzz_meter(&bytes);
    }
    fuzz_meter(b"");
}
