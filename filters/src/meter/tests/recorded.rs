//! The meter against recorded answers.
//!
//! The figures were counted from the bytes by a program of another language that reads every event into a tree, by
//! the tests that `chat`, `completions` and `triton` describe. Eight of them were counted by eye as well, and say how.

mod rows;
mod table;

use super::*;
use crate::capture::{self, Capture};
use crate::outcome::{self, End};
use crate::route::Route;
use proptest::prelude::*;
use rows::{FAILED, STREAMS, WHOLE};
use table::TABLE;

fn meter(capture: &Capture) -> Meter {
    let dialect = Route::of(&capture.path).dialect().expect("a metered route");
    let facts = crate::facts::scan(&capture.request, &[]);
    let n_is_one = facts.is_ok_and(|facts| facts.n.is_none_or(|n| n == 1));
    let meter = if capture.sse {
        Meter::stream(dialect, n_is_one, LIMIT)
    } else {
        Meter::whole(dialect, n_is_one, LIMIT)
    };
    match capture.json_length {
        Some(length) => meter.with_json_length(length),
        None => meter,
    }
}

fn usage_text(usage: Option<Usage>) -> String {
    let Some(usage) = usage else {
        return String::new();
    };
    let count = |tokens: Option<u64>| tokens.map_or("-".to_owned(), |tokens| tokens.to_string());
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
            gaps,
            last.zip(first)
                .map_or(Duration::ZERO, |(last, first)| ms(last - first)),
            "{name}"
        );
        assert_eq!(usage_text(figures.usage), usage, "{name}");
        assert_eq!(reasons_text(&figures), reasons, "{name}");
        assert_eq!(figures.terminated, end == "done", "{name}");
        assert_eq!(figures.ends_with_body, end == "body", "{name}");
        let found = figures.error.as_ref().map_or(String::new(), |error| {
            let (code, kind) = (error.code.as_deref(), error.kind.as_deref());
            format!("{} {}", code.unwrap_or_default(), kind.unwrap_or_default())
        });
        assert_eq!(found, error, "{name}");
        let model = match name.split_once('/') {
            Some(("triton", _)) => (token_events > 0).then_some("words"),
            _ if name == "llamacpp/chat-stream-server-sigterm" => Some("slow"),
            _ => Some("tiny"),
        };
        assert_eq!(figures.model.as_deref(), model, "{name}");
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
        .filter(|capture| !FAILED.contains(&&*capture.name))
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
        assert_eq!(
            figures.model.as_deref().unwrap_or_default(),
            model,
            "{name}"
        );
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
        .filter(|capture| capture.status != 200 || FAILED.contains(&&*capture.name))
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

#[test]
fn every_recorded_answer_is_told_as_another_reader_tells_it() {
    let captures = capture::all();
    assert_eq!(captures.len(), TABLE.len());
    for capture in captures {
        let name = &*capture.name;
        let row = TABLE.iter().find(|row| row.0 == name);
        let row = row.expect("a row for each");
        let mut meter = meter(&capture);
        meter.feed(ms(1), &capture.body());
        let figures = meter.finish();
        let end = match (capture.is_whole, capture.is_aborted) {
            (true, _) => End::Complete,
            (false, true) => End::ClientGone,
            (false, false) => End::EngineClosed,
        };
        let outcome = outcome::classify(end, Some(capture.status), capture.sse, Some(&figures));
        let dialect = Route::of(&capture.path).dialect().map(Dialect::name);
        let found = (
            name,
            dialect.expect("a metered route"),
            figures.token_events,
            figures.usage.and_then(|usage| usage.completion),
            figures.first_token_event,
            outcome.label(),
            &*reasons_text(&figures),
        );
        assert_eq!(found, *row);
    }
}

#[test]
fn the_page_of_captures_shows_the_same_figures() {
    let page = capture::document("captures.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.contains('/') && line.starts_with("| "))
        .collect();
    assert_eq!(rows.len(), TABLE.len());
    let streams: Vec<&str> = STREAMS.iter().map(|row| row.0).collect();
    for (found, row) in rows.into_iter().zip(TABLE) {
        let (name, dialect, token_events, output, first, outcome, reasons) = *row;
        let number = |number: Option<u64>| number.map_or(String::new(), |n| n.to_string());
        let token_events = number(streams.contains(&name).then_some(token_events));
        let (output, first) = (number(output), number(first));
        let cells = [
            name,
            dialect,
            &token_events,
            &output,
            &first,
            outcome,
            reasons,
        ];
        assert_eq!(found, format!("| {} |", cells.join(" | ")));
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
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(length + 1)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(at_once(&capture, &cuts), at_once(&capture, &[]));
        }
    }
}

#[test]
fn the_fuzz_body_holds_on_recorded_answers_and_on_their_ruins() {
    for (number, capture) in (0u8..).zip(capture::all()) {
        let mut bytes = vec![0, 0, number.wrapping_mul(7)];
        bytes.extend_from_slice(&capture.body());
        let own = Route::of(&capture.path).dialect();
        let own = Dialect::ALL
            .iter()
            .position(|dialect| Some(*dialect) == own);
        let own = u8::try_from(own.expect("a metered route")).expect("few dialects");
        for kind in [0, 3, 4, 9, 20, 96, 100].map(|kind| kind ^ (number & 31)) {
            for dialect in [own, number] {
                bytes[0] = dialect;
                bytes[1] = kind;
                fuzz_meter(&bytes);
            }
        }
        let length = bytes.len();
        for spot in (3..length).step_by(97) {
            bytes[spot] = bytes[spot].wrapping_add(number | 1);
        }
        fuzz_meter(&bytes);
    }
    fuzz_meter(b"");
}
